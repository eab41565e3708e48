"""Pools of windows of the last dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr

from deplodock.passes.torch.indexing import all_of, padded
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import width_of
from deplodock.passes.torch.tensors import Ints, Tensor, TensorBuilder, where
from deplodock.passes.torch.windows import read_windows, spread, windows_of

_Read = Callable[[Tensor, float], tuple[Tensor, list[int]]]
"""The elements of all windows of a tensor, with a value for what is outside of it, and the dimensions of one window."""


@lowers("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    self: Tensor,
    name: str,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    shape: Ints,
) -> Tensor | Sequence[Tensor]:
    """The largest element of each window, and its place if asked; what is outside is smaller than all, NaN larger."""
    spaces = _spaces(name)
    size, steps, edges, holes = (spread(given, spaces) for given in (kernel_size, stride, padding, dilation))
    windows = windows_of(size, steps or size, edges, holes)
    counts = shape[-spaces:]
    extents = self.shape[self.rank - spaces :]
    has_indices = name.endswith("_with_indices")
    meet = all(w.meets(n, count) for w, n, count in zip(windows, extents, counts, strict=True))
    if not meet and (has_indices or not self.is_float):
        raise ValueError(f"a window of size {list(size)} lies in the padding alone")
    if has_indices:
        return _largest(self, spaces, lambda x, outside: read_windows(x, windows, outside, counts))
    found, dims = read_windows(self, windows, _lowest(self.element), counts)
    return found.max(dims)


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average_pool(
    self: Tensor,
    name: str,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    shape: Ints,
    divisor_override: int | None = None,
) -> Tensor:
    """The sum of each window over the number of its elements, of those inside of the tensor or its padding alone."""
    spaces = _spaces(name)
    size, steps, edges = (spread(given, spaces) for given in (kernel_size, stride, padding))
    windows = windows_of(size, steps or size, edges, [1] * spaces)
    counts = shape[-spaces:]
    found, dims = read_windows(self, windows, 0, counts)
    total = found.sum(dims)
    if divisor_override is not None or (not ceil_mode and (count_include_pad or not any(edges))):
        return total / (divisor_override or prod(size))
    ones = self.like(1)
    if count_include_pad:
        ones = padded(ones, {self.rank - spaces + d: (n, n) for d, n in enumerate(edges)}, 1)
        windows = windows_of(size, steps or size, [0] * spaces, [1] * spaces)
    counted, dims = read_windows(ones, windows, 0, counts)
    return total / counted.sum(dims, "count")


@lowers("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def adaptive_average_pool(self: Tensor, name: str, shape: Ints) -> Tensor:
    """The mean of parts of about equal size, of which the result has so many."""
    parts = _parts(self, shape[-_spaces(name) :])
    found, dims = _read_parts(self, parts, 0)
    if all(part.is_equal for part in parts):
        return found.mean(dims)
    total = found.sum(dims)
    counted, dims = _read_parts(self.like(1), parts, 0)
    return total / counted.sum(dims, "count")


@lowers("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(self: Tensor, name: str, shape: Ints) -> Sequence[Tensor]:
    """The largest element of each part, of which the result has so many, and its place; NaN is larger than all."""
    parts = _parts(self, shape[-_spaces(name) :])
    return _largest(self, len(parts), lambda x, outside: _read_parts(x, parts, outside))


@dataclass(frozen=True)
class _Part:
    """How an adaptive pool cuts an extent: part `i` is from `floor(i * extent / count)` to what the next rounds up to.

    Parts overlap where the extent is no multiple of their count.
    """

    extent: int
    count: int

    @property
    def is_equal(self) -> bool:
        """Whether all parts have one size, and do not overlap."""
        return self.extent % self.count == 0

    @property
    def size(self) -> int:
        """The number of elements of the largest part."""
        ends = [(-((i + 1) * self.extent // -self.count), i * self.extent // self.count) for i in range(self.count)]
        return max(end - start for end, start in ends)

    def element(self, part: int, element: int) -> AffineExpr:
        """The position of an element, dimension `element`, of a part, dimension `part`; always inside."""
        if self.is_equal:
            return AffineExpr.dimension(part) * self.size + AffineExpr.dimension(element)
        place = AffineExpr.dimension(part) * self.extent // self.count + AffineExpr.dimension(element)
        reach = (self.count - 1) * self.extent // self.count + self.size
        return place % self.extent if reach > self.extent else place

    def inside(self, build: TensorBuilder, part: int, element: int, space: Sequence[int]) -> Tensor:
        """Where an element belongs to its part."""
        scaled = (build.iota(part, space) * self.extent).named("scaled")
        number = scaled.like(self.count)
        start = (scaled / number).named("start")
        beyond = scaled.like(self.extent + self.count - 1)
        end = ((scaled + beyond) / number).named("end")
        return (start + build.iota(element, space) < end).named("inside")


def _parts(x: Tensor, wanted: Ints) -> list[_Part]:
    extents = x.shape[x.rank - len(wanted) :]
    if any(count < 1 or extent < 1 for extent, count in zip(extents, wanted, strict=True)):
        raise ValueError(f"{list(extents)} elements do not fall into {list(wanted)} parts")
    return [_Part(extent, count) for extent, count in zip(extents, wanted, strict=True)]


def _read_parts(x: Tensor, parts: Sequence[_Part], outside: float) -> tuple[Tensor, list[int]]:
    """The elements of all parts of the last dimensions, and the dimensions that hold those of one."""
    first, spaces = x.rank - len(parts), len(parts)
    space = (*x.shape[:first], *(part.count for part in parts), *(part.size for part in parts))
    outer = [AffineExpr.dimension(d) for d in range(first)]
    places = [part.element(first + d, first + spaces + d) for d, part in enumerate(parts)]
    read = x.read([*outer, *places], space)
    conditions = [
        part.inside(x.build, first + d, first + spaces + d, space) for d, part in enumerate(parts) if not part.is_equal
    ]
    inside = all_of(conditions)
    return read if inside is None else where(inside, read, outside), list(range(first + spaces, len(space)))


def _largest(x: Tensor, spaces: int, read: _Read) -> tuple[Tensor, Tensor]:
    """The largest element of each window and its place in row-major order: the first one's, of NaNs the last one's.

    A candidate's key is `-1 - place` where it equals the largest element, and `place` where it is NaN, of which there
    is none then. So the largest key has the place.
    """
    found, dims = read(x, _lowest(x.element))
    largest = found.max(dims)
    extents = x.shape[x.rank - spaces :]
    places, _ = read(x.build.iota(0, [prod(extents)]).reshape(extents), -1)
    places = places.spread(range(found.rank - places.rank), found.shape)
    wins = found == largest.spread(dims, found.shape)
    counts = (wins & (places >= 0)).named("counts")
    flipped = (-1 - places).named("flipped")
    key = where(counts, flipped, -(1 << 63))
    if x.is_float:
        key = where(found != found, places, key)
    key = key.max(dims, "key")
    flipped = (-1 - key).named("flipped")
    return largest, where(key < 0, flipped, key).named("place")


def _lowest(element: Attribute) -> float:
    """What no element of a window is smaller than."""
    return -inf if isinstance(element, AnyFloat) else -(1 << (width_of(element) - 1))


def _spaces(name: str) -> int:
    """The number of dimensions that `max_pool2d_with_indices` and the like pool."""
    return int(name.partition("d_")[0].removesuffix("d")[-1])
