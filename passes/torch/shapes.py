"""Moves of elements alone: each result reads its source through an index map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from xdsl.ir.affine import AffineExpr

from deplodock.dialects.shapes import existing_dim, wrap_dim, wrap_dims
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.tensors import Ints, Tensor, concat, permutation_map


@lowers("t", widens=False)
def t(self: Tensor) -> Tensor:
    """Exchange the dimensions of a matrix."""
    return permuted(self, [*range(self.rank)][::-1])


@lowers("transpose.int", widens=False)
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions."""
    order = [*range(self.rank)]
    if order:
        i, j = wrap_dim(dim0, self.rank), wrap_dim(dim1, self.rank)
        order[i], order[j] = order[j], order[i]
    return permuted(self, order)


@lowers("permute", widens=False)
def permute(self: Tensor, dims: Ints) -> Tensor:
    """Reorder the dimensions."""
    return permuted(self, wrap_dims(dims, self.rank))


@lowers("view", "_unsafe_view", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", widens=False)
def view(self: Tensor, shape: Ints) -> Tensor:
    """Read the elements in row-major order under another shape."""
    return self.reshape(shape)


@lowers("expand", widens=False)
def expand(self: Tensor, shape: Ints) -> Tensor:
    """Repeat dimensions of extent 1; -1 keeps an extent."""
    return self.broadcast(shape)


@lowers("clone", "detach", "alias", widens=False)
def alias(self: Tensor) -> Tensor:
    """The operand itself: tensors are values here."""
    return self


@lowers("slice.Tensor", widens=False)
def slice_(self: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    """Every `step`-th element from `start` to `end` along a dimension; bounds count from the end if negative."""
    dim = existing_dim(dim, self.rank)
    return sliced(self, dim, range(self.shape[dim])[start:end:step])


@lowers("select.int", widens=False)
def select(self: Tensor, dim: int, index: int) -> Tensor:
    """The elements at one position along a dimension, which goes away."""
    shape = self.shape
    dim = wrap_dim(dim, len(shape))
    kept = [d for d in range(len(shape)) if d != dim]
    position = {d: AffineExpr.dimension(i) for i, d in enumerate(kept)}
    sources = [position.get(d, AffineExpr.constant(index % shape[dim])) for d in range(len(shape))]
    return self.read(sources, [shape[d] for d in kept])


@lowers("split.Tensor", "split_with_sizes", widens=False)
def split(self: Tensor, dim: int, shapes: Sequence[Ints]) -> list[Tensor]:
    """The consecutive parts of a dimension, of one extent or of the extents given."""
    dim = existing_dim(dim, self.rank)
    sizes = [shape[dim] for shape in shapes]
    return [sliced(self, dim, range(end - size, end)) for size, end in zip(sizes, accumulate(sizes), strict=True)]


@lowers("unbind.int", widens=False)
def unbind(self: Tensor, dim: int) -> list[Tensor]:
    """The elements at each position along a dimension, which goes away."""
    return [select(self, dim, index) for index in range(self.shape[existing_dim(dim, self.rank)])]


@lowers("diagonal", widens=False)
def diagonal(self: Tensor, offset: int, dim1: int, dim2: int, shape: Ints) -> Tensor:
    """A diagonal of two dimensions, `offset` to the right of the main one, as the last dimension."""
    row, column = (wrap_dim(dim, self.rank) for dim in (dim1, dim2))
    first = {row: max(0, -offset), column: max(0, offset)}
    kept = map(AffineExpr.dimension, range(self.rank))
    along = AffineExpr.dimension(self.rank - 2)
    places = [along + first[d] if d in first else next(kept) for d in range(self.rank)]
    return self.read(places, shape)


@lowers("unfold", widens=False)
def unfold(self: Tensor, dimension: int, step: int, shape: Ints) -> Tensor:
    """All slices of `size` neighbours along a dimension, `step` apart; their elements are the last dimension.

    A scalar is like a vector of one element, of which there is one slice.
    """
    dim = wrap_dim(dimension, self.rank)
    place = AffineExpr.dimension(dim) * step + AffineExpr.dimension(self.rank)
    places = [place if d == dim else AffineExpr.dimension(d) for d in range(self.rank)]
    return self.read(places, shape)


@lowers("as_strided", widens=False)
def as_strided(self: Tensor, size: Ints, stride: Ints, storage_offset: int | None) -> Tensor:
    """Elements of contiguous memory, at an offset and so many of them apart in each dimension."""
    place = AffineExpr.constant(storage_offset or 0)
    for dim, step in enumerate(stride):
        place = place + AffineExpr.dimension(dim) * step
    return self.reshape((prod(self.shape),)).read([place], size)


@lowers("flip", widens=False)
def flip(self: Tensor, dims: Ints) -> Tensor:
    """Read dimensions from their end."""
    for dim in wrap_dims(dims, self.rank):
        self = sliced(self, dim, range(self.shape[dim])[::-1])
    return self


@lowers("roll", widens=False)
def roll(self: Tensor, shifts: Ints, dims: Ints) -> Tensor:
    """Move elements along dimensions, around the end; without dimensions along all in row-major order."""
    value = self if dims else self.reshape([prod(self.shape)])
    along = [existing_dim(dim, self.rank) for dim in dims] or [0]
    for dim, shift in zip(along, shifts, strict=True):
        extent = value.shape[dim]
        if extent > 0 and shift % extent:
            source = (AffineExpr.dimension(dim) + (extent - shift % extent)) % extent
            value = value.along(dim, source, extent)
    return value.reshape(self.shape)


@lowers("repeat", widens=False)
def repeat(self: Tensor, repeats: Ints, shape: Ints) -> Tensor:
    """The tensor several times along each dimension."""
    x = self.reshape((*[1] * (len(repeats) - self.rank), *self.shape))
    sources = [_modulo(d, n, times) for d, (n, times) in enumerate(zip(x.shape, repeats, strict=True))]
    return x.read(sources, shape)


def _modulo(dim: int, extent: int, times: int) -> AffineExpr:
    if extent == 1:
        return AffineExpr.constant(0)
    return AffineExpr.dimension(dim) % extent if times > 1 and extent > 0 else AffineExpr.dimension(dim)


@lowers("repeat_interleave.self_int", widens=False)
def repeat_interleave(self: Tensor, repeats: int, dim: int | None) -> Tensor:
    """Each element several times in place along a dimension; without one along all in row-major order."""
    x = self.reshape([prod(self.shape)]) if dim is None else self
    dim = existing_dim(dim or 0, x.rank)
    return x.along(dim, AffineExpr.dimension(dim) // max(repeats, 1), x.shape[dim] * repeats)


@lowers("cat", widens=False)
def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other along a dimension."""
    # PyTorch lets an empty vector stand among tensors of any rank.
    tensors = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    dim = wrap_dim(dim, tensors[0].rank)
    return concat(tensors, dim)


@lowers("stack", widens=False)
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors one after the other along a new dimension."""
    dim = wrap_dim(dim, tensors[0].rank + 1)
    return cat([with_unit(x, dim) for x in tensors], dim)


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """The tensor whose dimension `i` is dimension `order[i]` of another."""
    return x.index_map(permutation_map(order), [x.shape[dim] for dim in order])


def transposed(x: Tensor) -> Tensor:
    """The tensor with its last two dimensions exchanged."""
    return permuted(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def with_unit(x: Tensor, dim: int) -> Tensor:
    """The tensor with a new dimension of extent 1."""
    return x.reshape((*x.shape[:dim], 1, *x.shape[dim:]))


def sliced(x: Tensor, dim: int, positions: range) -> Tensor:
    """The elements at these positions along a dimension."""
    source = AffineExpr.dimension(dim)
    if len(positions) > 1 and positions.step != 1:
        source = source * positions.step
    if len(positions) and positions.start:
        source = source + positions.start
    return x.along(dim, source, len(positions))
