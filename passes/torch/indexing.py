"""Patterns that read or replace elements at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.index_maps import broadcast_shape, dim_map, existing_dim, wrap_dim
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.shapes import select_position, slice_positions, sliced
from deplodock.passes.torch.tensor_builder import TensorBuilder, filling

Pads: TypeAlias = dict[int, tuple[int, int]]
"""How many elements to add before and after some dimensions; negative amounts cut off."""


class LowerGather(AtenPattern):
    """`result[i, j] = self[i, index[i, j]]` for the dimension 1 of 2, and so on."""

    computes = False
    overloads = ("gather",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, index = op.operand("self"), op.operand("index")
        shape = shape_of(index)
        if 0 in shape:
            return build.constant(0, element_of(x), shape)
        x, index = build.reshape(x, shape_of(x) or (1,)), build.reshape(index, shape or (1,))
        rank = len(shape_of(x))
        if rank != len(shape_of(index)):
            raise ValueError(f"the index of shape {list(shape)} must have {rank} dimensions as the source has")
        source = dim_map(rank, wrap_dim(op.value("dim"), rank), AffineExpr.symbol(0), symbols=1)
        return build.reshape(build.gather(x, [index], source), shape)


class LowerIndexSelect(AtenPattern):
    """The slices at the positions that a vector names along a dimension; embedding: rows for an index of any shape."""

    computes = False
    overloads = ("index_select", "embedding")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        if op.schema().name == "embedding":
            table = op.operand("weight")
            if len(shape_of(table)) != 2:
                raise ValueError(f"the weight must have 2 dimensions, not the shape {list(shape_of(table))}")
            return _indexed(build, table, {0: op.operand("indices")})
        x, index = op.operand("self"), op.operand("index")
        if len(shape_of(index)) > 1:
            raise ValueError(f"the index must be a vector, not of shape {list(shape_of(index))}")
        vector = build.reshape(index, shape_of(index) or (1,))
        whole = build.reshape(x, shape_of(x) or (1,))
        value = _indexed(build, whole, {wrap_dim(op.value("dim"), len(shape_of(x))): vector})
        return build.reshape(value, shape_of(x) and shape_of(value))


class LowerIndex(AtenPattern):
    """`x[i, :, j]` with index tensors, which broadcast together; negative indices count from the end.

    The dimensions of the indices stand where the first indexed dimension was if all of those are neighbours, else in
    front.
    """

    computes = False
    overloads = ("index.Tensor",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        given = op.tensor_list("indices")
        if len(given) > len(shape_of(x)):
            raise ValueError(f"{len(given)} indices are too many for the shape {list(shape_of(x))}")
        indices = {
            dim: _wrapped(build, index, shape_of(x)[dim]) for dim, index in enumerate(given) if index is not None
        }
        return _indexed(build, x, indices)


class LowerScatterSlice(AtenPattern):
    """`self` with `src` in the place of a slice or of one position along a dimension."""

    computes = False
    overloads = ("slice_scatter", "select_scatter")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, src = op.operand("self"), op.operand("src")
        shape = shape_of(x)
        dim = existing_dim(op.value("dim"), len(shape))
        if op.schema().name == "slice_scatter":
            positions = slice_positions(op, shape[dim])
        else:
            positions = range(shape[dim])[select_position(op.value("index"), shape, dim) :][:1]
            src = build.reshape(src, (*shape_of(src)[:dim], 1, *shape_of(src)[dim:]))
        wanted = [len(positions) if d == dim else n for d, n in enumerate(shape)]
        if list(shape_of(src)) != wanted:
            raise ValueError(f"src must have the shape {wanted}, not {list(shape_of(src))}")
        if not len(positions):
            return x
        read = build.index_map(src, dim_map(len(shape), dim, _place(dim, positions)), shape)
        inside = _inside(build, shape, dim, positions)
        return read if inside is None else build.select(inside, read, x)


class LowerPad(AtenPattern):
    """A constant, or its own elements, around the tensor, from the last dimension on; negative amounts cut off."""

    computes = False
    overloads = ("pad", "constant_pad_nd")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, amounts = op.operand("self"), op.value("pad")
        rank = len(shape_of(x))
        if len(amounts) % 2 or len(amounts) > 2 * rank:
            raise ValueError(f"pad {list(amounts)} must hold two amounts for each of at most {rank} dimensions")
        pads = {rank - 1 - i: (amounts[2 * i], amounts[2 * i + 1]) for i in range(len(amounts) // 2)}
        if op.schema().name == "constant_pad_nd" or op.value("mode") == "constant":
            return padded(build, x, pads, filling(op.value("value") or 0, element_of(x)))
        if op.value("mode") == "circular":
            x, pads = _cut(build, x, pads)
        for dim, (before, after) in pads.items():
            x = _extended(build, x, dim, before, after, op.value("mode"))
        return x


class LowerTriangle(AtenPattern):
    """The elements on and below (tril) or above (triu) a diagonal of the last two dimensions; 0 elsewhere."""

    computes = False
    overloads = ("tril", "triu")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, shape = op.operand("self"), shape_of(op.operand("self"))
        if len(shape) < 2:
            raise ValueError(f"a triangle needs at least 2 dimensions, not the shape {list(shape)}")
        predicate = "le" if op.schema().name == "tril" else "ge"
        kept = diagonal_mask(build, shape, op.value("diagonal"), predicate)
        return build.select(kept, x, build.constant_like(0, x))


def diagonal_mask(build: TensorBuilder, shape: Sequence[int], diagonal: int, predicate: str) -> SSAValue:
    """Where `column <predicate> row + diagonal` in the last two dimensions."""
    row, column = build.iota(len(shape) - 2, shape), build.iota(len(shape) - 1, shape)
    if diagonal:
        row = build.apply("add", row, build.constant_like(diagonal, row))
    return build.compare(predicate, column, row, name="mask")


def _wrapped(build: TensorBuilder, index: SSAValue, extent: int) -> SSAValue:
    """An index with negative values counted from the end."""
    shifted = build.apply("add", index, build.constant_like(extent, index), name="shifted")
    return build.select(build.compare_with("lt", index, 0), shifted, index, name="wrapped")


def _indexed(build: TensorBuilder, x: SSAValue, indices: dict[int, SSAValue]) -> SSAValue:
    """`x` with index tensors for some of its dimensions."""
    shape, dims = shape_of(x), sorted(indices)
    batch = broadcast_shape(*(shape_of(index) for index in indices.values()))
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    front = dims[0] if adjacent else 0
    kept = [d for d in range(len(shape)) if d not in indices]
    order = [*kept[:front], *[None] * len(batch), *kept[front:]]
    extents = iter(batch)
    result = [next(extents) if d is None else shape[d] for d in order]
    symbols = {d: AffineExpr.symbol(i) for i, d in enumerate(dims)}
    position = {d: AffineExpr.dimension(i) for i, d in enumerate(order) if d is not None}
    source = AffineMap(len(result), len(dims), tuple({**symbols, **position}[d] for d in range(len(shape))))
    spread: list[SSAValue] = []
    for dim in dims:
        index = build.broadcast(indices[dim], batch)
        walked = AffineMap(len(result), 0, tuple(AffineExpr.dimension(front + i) for i in range(len(batch))))
        spread.append(build.index_map(index, walked, result))
    return build.gather(x, spread, source)


def _place(dim: int, positions: range) -> AffineExpr:
    """The number of a position among `positions`; elsewhere the number of some position."""
    count, step = len(positions), positions.step
    if count == 1:
        return AffineExpr.constant(0)
    period = count * step
    offset = -positions.start % period
    place = AffineExpr.dimension(dim) + offset if offset else AffineExpr.dimension(dim)
    return (place if step == 1 else place // step) % count


def _inside(build: TensorBuilder, shape: Sequence[int], dim: int, positions: range) -> SSAValue | None:
    """Where the coordinate is one of `positions`, or None if it always is."""
    start, last, step = positions.start, positions[-1], positions.step
    if len(positions) == shape[dim]:
        return None
    coordinate = build.iota(dim, shape)
    conditions: list[SSAValue] = []
    if start > 0:
        conditions.append(build.compare_with("ge", coordinate, start))
    if last < shape[dim] - 1:
        conditions.append(build.compare_with("le", coordinate, last))
    if step > 1 and len(positions) > 1:
        rest = build.map(arith.RemSIOp, coordinate, build.constant_like(step, coordinate), name="rest")
        conditions.append(build.compare_with("eq", rest, start % step))
    return all_of(build, conditions)


def all_of(build: TensorBuilder, conditions: Sequence[SSAValue]) -> SSAValue | None:
    result: SSAValue | None = None
    for condition in conditions:
        result = condition if result is None else build.map(arith.AndIOp, result, condition, name="inside")
    return result


def _cut(build: TensorBuilder, x: SSAValue, pads: Pads) -> tuple[SSAValue, Pads]:
    """`x` without what negative amounts cut off, and the amounts that are left."""
    for dim, (before, after) in pads.items():
        extent = shape_of(x)[dim]
        x = sliced(build, x, dim, range(max(0, -before), max(0, -before, extent - max(0, -after))))
    return x, {dim: (max(0, before), max(0, after)) for dim, (before, after) in pads.items() if max(before, after) > 0}


def _extended(build: TensorBuilder, x: SSAValue, dim: int, before: int, after: int, mode: str) -> SSAValue:
    """`x` with elements of its own before and after a dimension: the other end, the mirrored ones, or the last one."""
    shape, extent = list(shape_of(x)), shape_of(x)[dim]
    count = before + extent + after
    most = max(before, after)
    fits = {"reflect": most < extent, "replicate": extent > 0, "circular": 1 <= extent >= most}
    if not fits.get(mode) or count < 0:
        raise ValueError(f"mode '{mode}' does not pad {extent} elements by {before} and {after}")
    if mode == "circular":
        place = (AffineExpr.dimension(dim) + -before % extent) % extent
        return build.index_map(x, dim_map(len(shape), dim, place), [*shape[:dim], count, *shape[dim + 1 :]])
    position = build.iota(0, [count])
    index = build.apply("sub", position, build.constant_like(before, position))
    zero, last = build.constant_like(0, index), build.constant_like(extent - 1, index)
    if mode == "replicate":
        index = build.apply("minimum", build.apply("maximum", index, zero), last)
    else:
        index = build.apply("sub", last, build.apply("abs", build.apply("sub", last, build.apply("abs", index))))
    return _indexed(build, x, {dim: index})


def padded(build: TensorBuilder, x: SSAValue, pads: Pads, value: float) -> SSAValue:
    """`x` with amounts of a constant before and after some dimensions."""
    x, pads = _cut(build, x, pads)
    shape = [n + sum(pads.get(d, (0, 0))) for d, n in enumerate(shape_of(x))]
    if 0 in shape_of(x):
        return build.constant(value, element_of(x), shape)
    sources = [AffineExpr.dimension(d) for d in range(len(shape))]
    conditions: list[SSAValue] = []
    for dim, (before, _) in sorted(pads.items()):
        positions = range(before, before + shape_of(x)[dim])
        sources[dim] = _place(dim, positions)
        inside = _inside(build, shape, dim, positions)
        conditions += [] if inside is None else [inside]
    read = build.index_map(x, AffineMap(len(shape), 0, tuple(sources)), shape)
    inside = all_of(build, conditions)
    return read if inside is None else build.select(inside, read, build.constant_like(value, read))
