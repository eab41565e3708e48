"""Arithmetic of shapes as PyTorch does it: broadcasting, dimensions counted from either end, sizes with -1, windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

Shape = tuple[int, ...]


def broadcast_shape(*shapes: Sequence[int]) -> Shape:
    """The shape that all shapes broadcast to.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    rank = max(len(shape) for shape in shapes)
    padded = [(*[1] * (rank - len(shape)), *shape) for shape in shapes]
    result: list[int] = []
    for extents in zip(*padded, strict=True):
        wanted = {n for n in extents if n != 1}
        if len(wanted) > 1:
            raise ValueError(f"shapes {' and '.join(str(list(shape)) for shape in shapes)} do not broadcast")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


def check_broadcast(source: Sequence[int], target: Sequence[int]) -> None:
    """Check that one shape broadcasts to another.

    Raises:
        ValueError: it does not.
    """
    new = len(target) - len(source)
    if new < 0 or any(n not in (1, target[new + i]) for i, n in enumerate(source)):
        raise ValueError(f"shape {list(source)} does not broadcast to {list(target)}")


def wrap_dims(dims: Sequence[int], rank: int) -> list[int]:
    """Dimensions counted from the front; a scalar has none, though ATen lets 0 and -1 name one.

    Raises:
        ValueError: a dimension is out of range or named twice.
    """
    found = [wrap_dim(dim, rank) for dim in dims]
    if len(set(found)) != len(found):
        raise ValueError(f"dimensions {list(dims)} name one twice")
    return found if rank > 0 else []


def wrap_dim(dim: int, rank: int) -> int:
    """A dimension counted from the front; a scalar may be indexed as if it had one.

    Raises:
        ValueError: the dimension is out of range.
    """
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        raise ValueError(f"dimension {dim} is out of range for rank {rank}")
    return dim % limit


def existing_dim(dim: int, rank: int) -> int:
    """A dimension counted from the front, which a scalar does not have.

    Raises:
        ValueError: the dimension is out of range.
    """
    if rank == 0:
        raise ValueError(f"dimension {dim} is out of range for rank 0")
    return wrap_dim(dim, rank)


def resolve_size(size: Shape, shape: Shape) -> Shape:
    """A view's size with -1 replaced by what the other extents leave.

    Raises:
        ValueError: nothing fits there.
    """
    if -1 not in size:
        return size
    elements, known = math.prod(shape), math.prod(n for n in size if n != -1)
    if known == 0 or elements % known:
        raise ValueError(f"shape {list(shape)} cannot be viewed as {list(size)}")
    return tuple(elements // known if n == -1 else n for n in size)


def window_count(extent: int, size: int, stride: int, padding: int, dilation: int, *, ceil: bool = False) -> int:
    """The number of windows of an extent; with `ceil` the last may reach beyond it, if it starts inside.

    Element `j` of window `i` is at `i * stride + j * dilation - padding` (`pooling_output_shape` of ATen).
    """
    room = extent + 2 * padding - dilation * (size - 1) - 1
    count = (room + (stride - 1 if ceil else 0)) // stride + 1
    return count - (ceil and (count - 1) * stride >= extent + padding)
