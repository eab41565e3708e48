"""The shapes of the results of operations that move elements, and that make tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from xdsl.dialects.builtin import FixedBitwidthType, i1
from xdsl.ir import Attribute

from deplodock.dialects.shapes import Shape, broadcast_shape, existing_dim, resolve_size, wrap_dim, wrap_dims
from deplodock.dialects.tensor.indexing import shape_of, tensor_of
from deplodock.dialects.torch.schema import AtenCall


def permuted(op: AtenCall) -> Sequence[Shape]:
    """The dimensions in another order."""
    shape = shape_of(op.operand("self"))
    order = list(range(len(shape)))
    match op.schema().name:
        case "t":
            if len(shape) > 2:
                raise ValueError(f"t takes at most 2 dimensions, not {len(shape)}; use transpose.int")
            order.reverse()
        case "permute":
            order = wrap_dims(op.value("dims"), len(shape))
            if len(order) != len(shape):
                raise ValueError(f"dims {list(op.value('dims'))} do not name each of {len(shape)} dimensions")
        case _:
            i, j = (wrap_dim(op.value(name), len(shape)) for name in ("dim0", "dim1"))
            if shape:
                order[i], order[j] = order[j], order[i]
    return [tuple(shape[dim] for dim in order)]


def viewed(op: AtenCall) -> Sequence[Shape]:
    """The size given, which holds as many elements."""
    shape = shape_of(op.operand("self"))
    size = resolve_size(op.value("size"), shape)
    if prod(size) != prod(shape) or min(size, default=0) < 0:
        raise ValueError(f"shape {list(shape)} holds {prod(shape)} elements, {list(size)} {prod(size)}")
    return [size]


def reread(op: AtenCall) -> Sequence[Shape]:
    """The shape of the operand, whose elements are read as others of their width."""
    one, other = (tensor_of(value).element_type for value in (op.tensors[0], op.outputs[0]))
    if one != other and (i1 in (one, other) or _width(one) != _width(other)):
        raise ValueError(f"elements of {one} are not read as {other}, only as a type of their width")
    return [shape_of(op.tensors[0])]


def _width(element: Attribute) -> int:
    """The bits of an element."""
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth


def unsqueezed(op: AtenCall) -> Sequence[Shape]:
    """With an extent of 1 at `dim`."""
    shape = shape_of(op.operand("self"))
    dim = wrap_dim(op.value("dim"), len(shape) + 1)
    return [(*shape[:dim], 1, *shape[dim:])]


def squeezed(op: AtenCall) -> Sequence[Shape]:
    """Without the dimensions of extent 1, or those of `dim` alone."""
    shape, given = (
        shape_of(op.operand("self")),
        op.value("dim") if op.has("dim") else range(len(shape_of(op.tensors[0]))),
    )
    dims = wrap_dims([given] if isinstance(given, int) else given, len(shape))
    return [tuple(n for dim, n in enumerate(shape) if n != 1 or dim not in dims)]


def expanded(op: AtenCall) -> Sequence[Shape]:
    """The size given, to which the operand broadcasts; -1 keeps an extent."""
    shape, size = shape_of(op.operand("self")), op.value("size")
    new = len(size) - len(shape)
    result = tuple(shape[i - new] if n == -1 and i >= new >= 0 else n for i, n in enumerate(size))
    if new < 0 or any(n not in (1, result[new + i]) for i, n in enumerate(shape)) or min(result, default=0) < 0:
        raise ValueError(f"shape {list(shape)} does not broadcast to {list(result)}")
    return [result]


def _resized(shape: Shape, dim: int, extent: int) -> Shape:
    return (*shape[:dim], extent, *shape[dim + 1 :])


def _positions(op: AtenCall, extent: int) -> range:
    """The positions that `start`, `end` and `step` select along a dimension."""
    if op.value("step") < 1:
        raise ValueError(f"the step of a slice must be positive, not {op.value('step')}")
    return range(extent)[slice(op.value("start"), op.value("end"), op.value("step"))]


def sliced(op: AtenCall) -> Sequence[Shape]:
    """As many positions as the slice selects along `dim`."""
    shape = shape_of(op.operand("self"))
    dim = existing_dim(op.value("dim"), len(shape))
    return [_resized(shape, dim, len(_positions(op, shape[dim])))]


def selected(op: AtenCall) -> Sequence[Shape]:
    """Without the dimension `dim`."""
    shape, index = shape_of(op.operand("self")), op.value("index")
    dim = wrap_dim(op.value("dim"), len(shape))
    if not shape or not -shape[dim] <= index < shape[dim]:
        raise ValueError(f"the index {index} is out of range for dimension {dim} of the shape {list(shape)}")
    return [(*shape[:dim], *shape[dim + 1 :])]


def scattered(op: AtenCall) -> Sequence[Shape]:
    """That of `self`; `src` has the shape of the part that it replaces."""
    shape, src = shape_of(op.operand("self")), shape_of(op.operand("src"))
    dim = existing_dim(op.value("dim"), len(shape))
    (wanted,) = sliced(op) if op.schema().name == "slice_scatter" else selected(op)
    if src != wanted:
        raise ValueError(f"src must have the shape {list(wanted)}, not {list(src)}, along dimension {dim}")
    return [shape]


def diagonal(op: AtenCall) -> Sequence[Shape]:
    """Without two dimensions; their diagonal is the last one."""
    shape, offset = shape_of(op.operand("self")), op.value("offset")
    row, column = (wrap_dim(op.value(name), len(shape)) for name in ("dim1", "dim2"))
    if row == column or len(shape) < 2:
        raise ValueError(f"a diagonal is of two dimensions, not of {row} alone")
    count = max(0, min(shape[row] - max(0, -offset), shape[column] - max(0, offset)))
    return [(*(n for dim, n in enumerate(shape) if dim not in (row, column)), count)]


def unfolded(op: AtenCall) -> Sequence[Shape]:
    """The number of slices along `dimension`, and their size as the last one."""
    shape, size, step = shape_of(op.operand("self")), op.value("size"), op.value("step")
    dim = wrap_dim(op.value("dimension"), len(shape))
    extent = shape[dim] if shape else 1
    if not 0 <= size <= extent or step < 1:
        raise ValueError(f"no slices of {size} elements, {step} apart, of {extent}")
    return [(*_resized(shape, dim, (extent - size) // step + 1), size) if shape else (size,)]


def strided(op: AtenCall) -> Sequence[Shape]:
    """The size, of elements that the memory of the operand has."""
    size, strides, offset = op.value("size"), op.value("stride"), op.value("storage_offset") or 0
    if len(size) != len(strides) or min((*size, *strides, offset)) < 0:
        raise ValueError(f"no elements of size {list(size)} are {list(strides)} apart from {offset} on")
    count, last = prod(shape_of(op.operand("self"))), offset
    last += sum((n - 1) * step for n, step in zip(size, strides, strict=True))
    if 0 not in size and last >= count:
        raise ValueError(f"element {last} is outside of a memory of {count} elements")
    return [tuple(size)]


def flipped(op: AtenCall) -> Sequence[Shape]:
    """That of the operand."""
    shape = shape_of(op.operand("self"))
    wrap_dims(op.value("dims"), len(shape))
    return [shape]


def rolled(op: AtenCall) -> Sequence[Shape]:
    """That of the operand."""
    shape, shifts, dims = shape_of(op.operand("self")), op.value("shifts"), op.value("dims")
    if len(shifts) != (len(dims) or 1):
        raise ValueError(f"shifts {list(shifts)} and dims {list(dims)} must be equally many")
    for dim in dims:
        existing_dim(dim, len(shape))
    return [shape]


def repeated(op: AtenCall) -> Sequence[Shape]:
    """Each extent as often as `repeats` says."""
    shape, repeats = shape_of(op.operand("self")), op.value("repeats")
    new = len(repeats) - len(shape)
    if new < 0 or min(repeats, default=0) < 0:
        raise ValueError(f"repeats {list(repeats)} must name every dimension of the shape {list(shape)}")
    return [tuple(n * times for n, times in zip((*[1] * new, *shape), repeats, strict=True))]


def repeated_in_place(op: AtenCall) -> Sequence[Shape]:
    """The extent of `dim`, or of all elements, `repeats` times."""
    shape, repeats, dim = shape_of(op.operand("self")), op.value("repeats"), op.value("dim")
    if repeats < 0:
        raise ValueError(f"repeats must not be negative, but is {repeats}")
    if dim is None:
        return [(prod(shape) * repeats,)]
    dim = existing_dim(dim, len(shape))
    return [_resized(shape, dim, shape[dim] * repeats)]


def split(op: AtenCall) -> Sequence[Shape]:
    """The parts of `dim`."""
    shape = shape_of(op.operand("self"))
    dim = existing_dim(op.value("dim"), len(shape))
    extent = shape[dim]
    if op.schema().name == "split.Tensor":
        size = op.value("split_size")
        if size < 0 or (size == 0 and extent > 0):
            raise ValueError(f"split_size must be positive, not {size}")
        sizes = [min(size, extent - start) for start in range(0, extent, size)] if extent else [0]
    else:
        sizes = list(op.value("split_sizes"))
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise ValueError(f"the parts {sizes} do not make up the extent {extent}")
    return [_resized(shape, dim, size) for size in sizes]


def unbound(op: AtenCall) -> Sequence[Shape]:
    """For each position along `dim` the shape without it."""
    shape = shape_of(op.operand("self"))
    dim = existing_dim(op.value("dim"), len(shape))
    return [(*shape[:dim], *shape[dim + 1 :])] * shape[dim]


def stacked(op: AtenCall) -> Sequence[Shape]:
    """With the number of operands at `dim`."""
    first, *others = map(shape_of, op.tensors)
    if any(other != first for other in others):
        raise ValueError(f"shapes {_listed(first, *others)} cannot be stacked, they differ")
    dim = wrap_dim(op.value("dim"), len(first) + 1)
    return [(*first[:dim], len(op.tensors), *first[dim:])]


def concatenated(op: AtenCall) -> Sequence[Shape]:
    """The sum of the extents along `dim`."""
    # PyTorch lets an empty vector stand among tensors of any rank.
    shapes = [shape for shape in map(shape_of, op.tensors) if shape != (0,)] or [(0,)]
    dim = wrap_dim(op.value("dim"), len(shapes[0]))
    if not shapes[0] or any(_resized(shape, dim, 0) != _resized(shapes[0], dim, 0) for shape in shapes):
        raise ValueError(f"shapes {_listed(*shapes)} do not fit one after the other along dimension {dim}")
    return [_resized(shapes[0], dim, sum(shape[dim] for shape in shapes))]


def _listed(*shapes: Shape) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def padded(op: AtenCall) -> Sequence[Shape]:
    """With the amounts added, from the last dimension on."""
    shape, amounts = shape_of(op.operand("self")), op.value("pad")
    if len(amounts) % 2 or len(amounts) > 2 * len(shape):
        raise ValueError(f"pad {list(amounts)} must hold two amounts for each of at most {len(shape)} dimensions")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    first = len(shape) - len(pairs)
    result = (*shape[:first], *(n + before + after for n, (before, after) in zip(shape[first:], pairs, strict=True)))
    if min(result, default=0) < 0:
        raise ValueError(f"pad {list(amounts)} cuts off more than the shape {list(shape)} has")
    return [result]


def triangle(op: AtenCall) -> Sequence[Shape]:
    """That of the operand."""
    shape = shape_of(op.operand("self"))
    if len(shape) < 2:
        raise ValueError(f"a triangle needs at least 2 dimensions, not the shape {list(shape)}")
    return [shape]


def gathered(op: AtenCall) -> Sequence[Shape]:
    """That of the index, which may have any rank where it has no elements."""
    shape, index = shape_of(op.operand("self")), shape_of(op.operand("index"))
    if 0 not in index and max(len(shape), 1) != max(len(index), 1):
        raise ValueError(f"the index of shape {list(index)} must have {len(shape)} dimensions as the source has")
    wrap_dim(op.value("dim"), len(shape))
    return [index]


def index_selected(op: AtenCall) -> Sequence[Shape]:
    """As many positions along `dim` as the index names."""
    shape, index = shape_of(op.operand("self")), shape_of(op.operand("index"))
    if len(index) > 1:
        raise ValueError(f"the index must be a vector, not of shape {list(index)}")
    dim = wrap_dim(op.value("dim"), len(shape))
    return [_resized(shape, dim, prod(index)) if shape else ()]


def embedded(op: AtenCall) -> Sequence[Shape]:
    """That of the indices, with the columns of the weight."""
    table, indices = shape_of(op.operand("weight")), shape_of(op.operand("indices"))
    if len(table) != 2:
        raise ValueError(f"the weight must have 2 dimensions, not the shape {list(table)}")
    return [(*indices, table[1])]


def indexed(op: AtenCall) -> Sequence[Shape]:
    """The shape of the indices where the first indexed dimension was, or in front if those are no neighbours."""
    shape, given = shape_of(op.operand("self")), op.tensor_list("indices")
    if len(given) > len(shape):
        raise ValueError(f"{len(given)} indices are too many for the shape {list(shape)}")
    dims = [dim for dim, index in enumerate(given) if index is not None]
    batch = broadcast_shape(*(shape_of(index) for index in given if index is not None))
    front = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    kept = [n for dim, n in enumerate(shape) if dim not in dims]
    return [(*kept[:front], *batch, *kept[front:])]


def made(op: AtenCall) -> Sequence[Shape]:
    """The shape that the parameter `size` gives, or that of the operand."""
    size = op.value("size") if op.has("size") else shape_of(op.tensors[0]) if op.tensors else ()
    if min(size, default=0) < 0:
        raise ValueError(f"size {list(size)} has a negative extent")
    return [size]


def arange(op: AtenCall) -> Sequence[Shape]:
    """The numbers from `start` to `end`."""
    start, step = (op.value(name) if op.has(name) else value for name, value in (("start", 0), ("step", 1)))
    if step == 0:
        raise ValueError(f"arange gives a vector and needs a step, not {step}")
    return [(max(0, ceil((op.value("end") - start) / step)),)]


def eye(op: AtenCall) -> Sequence[Shape]:
    """A matrix of `n` rows."""
    return [(op.value("n"), op.value("m") if op.has("m") else op.value("n"))]
