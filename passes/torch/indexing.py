"""Elements that are read or replaced at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.shapes import broadcast_shape, existing_dim, wrap_dim
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling
from deplodock.passes.torch.shapes import sliced, with_unit
from deplodock.passes.torch.tensors import Ints, Tensor, TensorBuilder, dim_map, maximum, minimum, where

Pads: TypeAlias = dict[int, tuple[int, int]]
"""How many elements to add before and after some dimensions; negative amounts cut off."""


@lowers("gather", widens=False)
def gather(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """`result[i, j] = self[i, index[i, j]]` for the dimension 1 of 2, and so on."""
    shape = index.shape
    if 0 in shape:
        return self.build.constant(0, self.element, shape)
    x, index = self.reshape(self.shape or (1,)), index.reshape(shape or (1,))
    source = dim_map(x.rank, wrap_dim(dim, x.rank), AffineExpr.symbol(0), symbols=1)
    return x.gather([index], source).reshape(shape)


@lowers("embedding", widens=False)
def embedding(weight: Tensor, indices: Tensor) -> Tensor:
    """The rows of a matrix at the positions that a tensor names."""
    return _indexed(weight, {0: indices})


@lowers("index_select", widens=False)
def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices at the positions that a vector names along a dimension."""
    vector = index.reshape(index.shape or (1,))
    value = _indexed(self.reshape(self.shape or (1,)), {wrap_dim(dim, self.rank): vector})
    return value.reshape(self.shape and value.shape)


@lowers("index.Tensor", widens=False)
def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """`x[i, :, j]` with index tensors, which broadcast together; negative indices count from the end.

    The dimensions of the indices stand where the first indexed dimension was if all of those are neighbours, else in
    front.
    """
    wrapped = {dim: _wrapped(index, self.shape[dim]) for dim, index in enumerate(indices) if index is not None}
    return _indexed(self, wrapped)


@lowers("slice_scatter", widens=False)
def slice_scatter(self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    """`self` with `src` in the place of a slice along a dimension."""
    dim = existing_dim(dim, self.rank)
    return scattered(self, src, dim, range(self.shape[dim])[start:end:step])


@lowers("select_scatter", widens=False)
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """`self` with `src` in the place of one position along a dimension."""
    dim = existing_dim(dim, self.rank)
    position = index % self.shape[dim]
    return scattered(self, with_unit(src, dim), dim, range(position, position + 1))


def scattered(x: Tensor, src: Tensor, dim: int, positions: range) -> Tensor:
    """`x` with the slices of `src` at these positions of a dimension."""
    if not len(positions):
        return x
    read = src.along(dim, _place(dim, positions), x.shape[dim])
    inside = _inside(x.build, x.shape, dim, positions)
    return read if inside is None else where(inside, read, x)


@lowers("constant_pad_nd", widens=False)
def constant_pad(self: Tensor, pad: Ints, value: float | None) -> Tensor:
    """A constant around the tensor, from the last dimension on; negative amounts cut off."""
    return padded(self, _pads(pad, self.rank), filling(value or 0, self.element))


@lowers("pad", widens=False)
def pad_by_mode(self: Tensor, pad: Ints, mode: str, value: float | None) -> Tensor:
    """A constant, or its own elements, around the tensor, from the last dimension on; negative amounts cut off."""
    if mode == "constant":
        return constant_pad(self, pad, value)
    x, pads = self, _pads(pad, self.rank)
    if mode == "circular":
        x, pads = _cut(x, pads)
    for dim, (before, after) in pads.items():
        x = _extended(x, dim, before, after, mode)
    return x


def _pads(amounts: Ints, rank: int) -> Pads:
    return {rank - 1 - i: (amounts[2 * i], amounts[2 * i + 1]) for i in range(len(amounts) // 2)}


@lowers("tril", "triu", widens=False)
def triangle(self: Tensor, name: str, diagonal: int) -> Tensor:
    """The elements on and below (tril) or above (triu) a diagonal of the last two dimensions; 0 elsewhere."""
    return where(diagonal_mask(self.build, self.shape, diagonal, "le" if name == "tril" else "ge"), self, 0)


def diagonal_mask(build: TensorBuilder, shape: Sequence[int], diagonal: int, predicate: str) -> Tensor:
    """Where `column <predicate> row + diagonal` in the last two dimensions."""
    row, column = build.iota(len(shape) - 2, shape), build.iota(len(shape) - 1, shape)
    return column.compare(predicate, row + diagonal if diagonal else row).named("mask")


def _wrapped(index: Tensor, extent: int) -> Tensor:
    """An index with negative values counted from the end."""
    shifted = (index + extent).named("shifted")
    return where(index < 0, shifted, index).named("wrapped")


def _indexed(x: Tensor, indices: dict[int, Tensor]) -> Tensor:
    """`x` with index tensors for some of its dimensions."""
    dims = sorted(indices)
    batch = broadcast_shape(*(index.shape for index in indices.values()))
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    front = dims[0] if adjacent else 0
    kept = [d for d in range(x.rank) if d not in indices]
    order = [*kept[:front], *[None] * len(batch), *kept[front:]]
    extents = iter(batch)
    result = [next(extents) if d is None else x.shape[d] for d in order]
    symbols = {d: AffineExpr.symbol(i) for i, d in enumerate(dims)}
    position = {d: AffineExpr.dimension(i) for i, d in enumerate(order) if d is not None}
    source = AffineMap(len(result), len(dims), tuple({**symbols, **position}[d] for d in range(x.rank)))
    walked = [AffineExpr.dimension(front + i) for i in range(len(batch))]
    return x.gather([indices[dim].broadcast(batch).read(walked, result) for dim in dims], source)


def _place(dim: int, positions: range) -> AffineExpr:
    """The number of a position among `positions`; elsewhere the number of some position."""
    count, step = len(positions), positions.step
    if count == 1:
        return AffineExpr.constant(0)
    period = count * step
    offset = -positions.start % period
    place = AffineExpr.dimension(dim) + offset if offset else AffineExpr.dimension(dim)
    return (place if step == 1 else place // step) % count


def _inside(build: TensorBuilder, shape: Sequence[int], dim: int, positions: range) -> Tensor | None:
    """Where the coordinate is one of `positions`, or None if it always is."""
    start, last, step = positions.start, positions[-1], positions.step
    if len(positions) == shape[dim]:
        return None
    coordinate = build.iota(dim, shape)
    conditions: list[Tensor] = []
    if start > 0:
        conditions.append(coordinate >= start)
    if last < shape[dim] - 1:
        conditions.append(coordinate <= last)
    if step > 1 and len(positions) > 1:
        conditions.append(coordinate.map(arith.RemSIOp, step).named("rest") == start % step)
    return all_of(conditions)


def all_of(conditions: Sequence[Tensor]) -> Tensor | None:
    """Where all conditions hold, or None if there are none."""
    return reduce(lambda x, y: (x & y).named("inside"), conditions) if conditions else None


def _cut(x: Tensor, pads: Pads) -> tuple[Tensor, Pads]:
    """`x` without what negative amounts cut off, and the amounts that are left."""
    for dim, (before, after) in pads.items():
        extent = x.shape[dim]
        x = sliced(x, dim, range(max(0, -before), max(0, -before, extent - max(0, -after))))
    return x, {dim: (max(0, before), max(0, after)) for dim, (before, after) in pads.items() if max(before, after) > 0}


def _extended(x: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    """`x` with elements of its own before and after a dimension: the other end, the mirrored ones, or the last one."""
    extent = x.shape[dim]
    count = before + extent + after
    most = max(before, after)
    fits = {"reflect": most < extent, "replicate": extent > 0, "circular": 1 <= extent >= most}
    if not fits.get(mode) or count < 0:
        raise ValueError(f"mode '{mode}' does not pad {extent} elements by {before} and {after}")
    if mode == "circular":
        return x.along(dim, (AffineExpr.dimension(dim) + -before % extent) % extent, count)
    index = x.build.iota(0, [count]) - before
    zero, last = index.like(0), index.like(extent - 1)
    if mode == "replicate":
        return _indexed(x, {dim: minimum(maximum(index, zero), last)})
    return _indexed(x, {dim: last - abs(last - abs(index))})


def padded(x: Tensor, pads: Pads, value: float) -> Tensor:
    """`x` with amounts of a constant before and after some dimensions."""
    x, pads = _cut(x, pads)
    shape = [n + sum(pads.get(d, (0, 0))) for d, n in enumerate(x.shape)]
    if 0 in x.shape:
        return x.build.constant(value, x.element, shape)
    sources = [AffineExpr.dimension(d) for d in range(len(shape))]
    conditions: list[Tensor] = []
    for dim, (before, _) in sorted(pads.items()):
        positions = range(before, before + x.shape[dim])
        sources[dim] = _place(dim, positions)
        inside = _inside(x.build, shape, dim, positions)
        conditions += [] if inside is None else [inside]
    read = x.read(sources, shape)
    inside = all_of(conditions)
    return read if inside is None else where(inside, read, value)
