"""Patterns that only move elements: each result reads its source through an index map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.tensor import shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.index_maps import dim_map, existing_dim, permutation_map, resolve_size, wrap_dim, wrap_dims
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerPermutation(AtenPattern):
    """Reorder the dimensions."""

    computes = False
    overloads = ("t", "transpose.int", "permute")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        rank = len(shape_of(x))
        order = list(range(rank))
        match op.schema().name:
            case "t":
                if rank > 2:
                    raise ValueError(f"t takes at most 2 dimensions, not {rank}; use transpose.int")
                order.reverse()
            case "permute":
                order = wrap_dims(op.value("dims"), rank)
                if len(order) != rank:
                    raise ValueError(f"dims {list(op.value('dims'))} do not name each of {rank} dimensions")
            case _ if rank > 0:
                i, j = (wrap_dim(op.value(name), rank) for name in ("dim0", "dim1"))
                order[i], order[j] = order[j], order[i]
            case _:
                return x
        return build.index_map(x, permutation_map(order), [shape_of(x)[dim] for dim in order])


class LowerReshape(AtenPattern):
    """Read the elements in row-major order under another shape."""

    computes = False
    overloads = ("view", "_unsafe_view", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return build.reshape(x, _reshaped(op, shape_of(x)))


class LowerExpand(AtenPattern):
    """Repeat dimensions of extent 1; -1 keeps an extent."""

    computes = False
    overloads = ("expand",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        size = op.value("size")
        offset = len(size) - len(shape_of(x))
        shape = [shape_of(x)[i - offset] if n == -1 and i >= offset >= 0 else n for i, n in enumerate(size)]
        return build.broadcast(x, shape)


class LowerAlias(AtenPattern):
    """The operand itself: tensors are values here."""

    computes = False
    overloads = ("clone", "detach", "alias")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return op.operand("self")


class LowerSlice(AtenPattern):
    """Every `step`-th element from `start` to `end` along a dimension; bounds count from the end if negative."""

    computes = False
    overloads = ("slice.Tensor",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        dim = existing_dim(op.value("dim"), len(shape_of(x)))
        positions = slice_positions(op, shape_of(x)[dim])
        return sliced(build, x, dim, positions)


class LowerSelect(AtenPattern):
    """The elements at one position along a dimension, which goes away."""

    computes = False
    overloads = ("select.int",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return selected(build, x, op.value("dim"), op.value("index"))


class LowerSplit(AtenPattern):
    """The consecutive parts of a dimension, of one extent or of the extents given."""

    computes = False
    overloads = ("split.Tensor", "split_with_sizes")

    def lower(self, op: AtenOp, build: TensorBuilder) -> Sequence[SSAValue]:
        x = op.operand("self")
        dim = existing_dim(op.value("dim"), len(shape_of(x)))
        extent = shape_of(x)[dim]
        if op.schema().name == "split.Tensor":
            size = op.value("split_size")
            if size < 0 or (size == 0 and extent > 0):
                raise ValueError(f"split_size must be positive, not {size}")
            sizes = [min(size, extent - start) for start in range(0, extent, size)] if extent else [0]
        else:
            sizes = list(op.value("split_sizes"))
        if sum(sizes) != extent or min(sizes, default=0) < 0:
            raise ValueError(f"the parts {sizes} do not make up the extent {extent}")
        ends = list(accumulate(sizes))
        return [sliced(build, x, dim, range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


class LowerUnbind(AtenPattern):
    """The elements at each position along a dimension, which goes away."""

    computes = False
    overloads = ("unbind.int",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> Sequence[SSAValue]:
        x = op.operand("self")
        extent = shape_of(x)[existing_dim(op.value("dim"), len(shape_of(x)))]
        return [selected(build, x, op.value("dim"), index) for index in range(extent)]


class LowerDiagonal(AtenPattern):
    """A diagonal of two dimensions, `offset` to the right of the main one, as the last dimension."""

    computes = False
    overloads = ("diagonal",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, shape, offset = op.operand("self"), shape_of(op.operand("self")), op.value("offset")
        row, column = (wrap_dim(op.value(name), len(shape)) for name in ("dim1", "dim2"))
        if row == column:
            raise ValueError(f"a diagonal is of two dimensions, not of {row} alone")
        first = {row: max(0, -offset), column: max(0, offset)}
        count = max(0, min(shape[dim] - start for dim, start in first.items()))
        kept = iter(range(len(shape)))
        along = AffineExpr.dimension(len(shape) - 2)
        places = [along + first[d] if d in first else AffineExpr.dimension(next(kept)) for d in range(len(shape))]
        result = [*(n for d, n in enumerate(shape) if d not in first), count]
        return build.index_map(x, AffineMap(len(result), 0, tuple(places)), result)


class LowerUnfold(AtenPattern):
    """All slices of `size` neighbours along a dimension, `step` apart; their elements are the last dimension.

    A scalar is like a vector of one element, of which there is one slice.
    """

    computes = False
    overloads = ("unfold",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, shape = op.operand("self"), shape_of(op.operand("self"))
        size, step = op.value("size"), op.value("step")
        dim = wrap_dim(op.value("dimension"), len(shape))
        extent = shape[dim] if shape else 1
        if not 0 <= size <= extent or step < 1:
            raise ValueError(f"no slices of {size} elements, {step} apart, of {extent}")
        place = AffineExpr.dimension(dim) * step + AffineExpr.dimension(len(shape))
        places = [place if d == dim else AffineExpr.dimension(d) for d in range(len(shape))]
        result = [(n - size) // step + 1 if d == dim else n for d, n in enumerate(shape)] + [size]
        return build.index_map(x, AffineMap(len(result), 0, tuple(places)), result)


class LowerAsStrided(AtenPattern):
    """Elements of contiguous memory, at an offset and so many of them apart in each dimension."""

    computes = False
    overloads = ("as_strided",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, size, strides = op.operand("self"), op.value("size"), op.value("stride")
        place = AffineExpr.constant(op.value("storage_offset") or 0)
        for dim, step in enumerate(strides):
            place = place + AffineExpr.dimension(dim) * step
        memory = build.reshape(x, (prod(shape_of(x)),))
        return build.index_map(memory, AffineMap(len(size), 0, (place,)), size)


class LowerFlip(AtenPattern):
    """Read dimensions from their end."""

    computes = False
    overloads = ("flip",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        value = op.operand("self")
        for dim in wrap_dims(op.value("dims"), len(shape_of(value))):
            value = sliced(build, value, dim, range(shape_of(value)[dim])[::-1])
        return value


class LowerRoll(AtenPattern):
    """Move elements along dimensions, around the end; without dimensions along all in row-major order."""

    computes = False
    overloads = ("roll",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, shifts = op.operand("self"), op.value("shifts")
        value = x if op.value("dims") else build.reshape(x, [prod(shape_of(x))])
        dims = [existing_dim(dim, len(shape_of(x))) for dim in op.value("dims")] or [0]
        if len(dims) != len(shifts):
            raise ValueError(f"shifts {list(shifts)} and dims {list(op.value('dims'))} must be equally many")
        for dim, shift in zip(dims, shifts, strict=True):
            extent = shape_of(value)[dim]
            if extent > 0 and shift % extent:
                source = (AffineExpr.dimension(dim) + (extent - shift % extent)) % extent
                value = build.index_map(value, dim_map(len(shape_of(value)), dim, source), shape_of(value))
        return build.reshape(value, shape_of(x))


class LowerRepeat(AtenPattern):
    """The tensor several times along each dimension."""

    computes = False
    overloads = ("repeat",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, repeats = op.operand("self"), op.value("repeats")
        new = len(repeats) - len(shape_of(x))
        if new < 0:
            raise ValueError(f"repeats {list(repeats)} must name every dimension of the shape {list(shape_of(x))}")
        shape = (*[1] * new, *shape_of(x))
        value = build.reshape(x, shape)
        sources = [_modulo(d, n, times) for d, (n, times) in enumerate(zip(shape, repeats, strict=True))]
        target = [n * times for n, times in zip(shape, repeats, strict=True)]
        return build.index_map(value, AffineMap(len(shape), 0, tuple(sources)), target)


class LowerRepeatInterleave(AtenPattern):
    """Each element several times in place along a dimension; without one along all in row-major order."""

    computes = False
    overloads = ("repeat_interleave.self_int",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, repeats = op.operand("self"), op.value("repeats")
        if op.value("dim") is None:
            x = build.reshape(x, [prod(shape_of(x))])
        dim = existing_dim(op.value("dim") or 0, len(shape_of(x)))
        shape = [n * repeats if d == dim else n for d, n in enumerate(shape_of(x))]
        source = AffineExpr.dimension(dim) // max(repeats, 1)
        return build.index_map(x, dim_map(len(shape), dim, source), shape)


class LowerCat(AtenPattern):
    """Tensors one after the other along a dimension, an existing one or a new one."""

    computes = False
    overloads = ("cat", "stack")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        tensors = [value for value in op.tensor_list("tensors") if value is not None]
        if op.schema().name == "stack":
            dim = wrap_dim(op.value("dim"), len(shape_of(tensors[0])) + 1)
            tensors = [build.reshape(x, (*shape_of(x)[:dim], 1, *shape_of(x)[dim:])) for x in tensors]
        else:
            # PyTorch lets an empty vector stand among tensors of any rank.
            tensors = [x for x in tensors if shape_of(x) != (0,)] or tensors[:1]
            dim = wrap_dim(op.value("dim"), len(shape_of(tensors[0])))
        rest = [(*shape_of(x)[:dim], *shape_of(x)[dim + 1 :]) for x in tensors]
        if not shape_of(tensors[0]) or any(other != rest[0] for other in rest):
            shapes = " and ".join(str(list(shape_of(x))) for x in tensors)
            raise ValueError(f"shapes {shapes} do not fit one after the other along dimension {dim}")
        return build.concat(tensors, dim)


def transposed(build: TensorBuilder, x: SSAValue) -> SSAValue:
    """The tensor with its last two dimensions exchanged."""
    order = [*range(len(shape_of(x)))]
    order[-2:] = reversed(order[-2:])
    return build.index_map(x, permutation_map(order), [shape_of(x)[dim] for dim in order])


def sliced(build: TensorBuilder, x: SSAValue, dim: int, positions: range) -> SSAValue:
    """The elements at these positions along a dimension."""
    shape = [len(positions) if d == dim else n for d, n in enumerate(shape_of(x))]
    source = AffineExpr.dimension(dim)
    if len(positions) > 1 and positions.step != 1:
        source = source * positions.step
    if len(positions) and positions.start:
        source = source + positions.start
    return build.index_map(x, dim_map(len(shape), dim, source), shape)


def selected(build: TensorBuilder, x: SSAValue, dim: int, index: int) -> SSAValue:
    """The elements at one position along a dimension, which goes away."""
    shape = shape_of(x)
    dim = wrap_dim(dim, len(shape))
    index = select_position(index, shape, dim)
    kept = [d for d in range(len(shape)) if d != dim]
    position = {d: AffineExpr.dimension(i) for i, d in enumerate(kept)}
    sources = [position.get(d, AffineExpr.constant(index)) for d in range(len(shape))]
    return build.index_map(x, AffineMap(len(kept), 0, tuple(sources)), [shape[d] for d in kept])


def select_position(index: int, shape: Sequence[int], dim: int) -> int:
    """An index into a dimension, counted from the front."""
    if not shape or not -shape[dim] <= index < shape[dim]:
        raise ValueError(f"the index {index} is out of range for dimension {dim} of the shape {list(shape)}")
    return index % shape[dim]


def slice_positions(op: AtenOp, extent: int) -> range:
    """The positions that `start`, `end` and `step` select along a dimension."""
    if op.value("step") < 1:
        raise ValueError(f"the step of a slice must be positive, not {op.value('step')}")
    start, end = op.value("start"), op.value("end")
    return range(extent)[slice(start, end, op.value("step"))]


def _modulo(dim: int, extent: int, times: int) -> AffineExpr:
    if extent == 1:
        return AffineExpr.constant(0)
    return AffineExpr.dimension(dim) % extent if times > 1 and extent > 0 else AffineExpr.dimension(dim)


def _reshaped(op: AtenOp, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a reshaping operation gives."""
    match op.schema().name:
        case "view" | "_unsafe_view":
            return resolve_size(op.value("size"), shape)
        case "unsqueeze":
            dim = wrap_dim(op.value("dim"), len(shape) + 1)
            return (*shape[:dim], 1, *shape[dim:])
        case "squeeze":
            return tuple(n for n in shape if n != 1)
        case _:
            given = op.value("dim")
            dims = wrap_dims([given] if isinstance(given, int) else given, len(shape))
            return tuple(n for i, n in enumerate(shape) if n != 1 or i not in dims)
