"""Convolutions and pools, and how they read windows of the last dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, inf, prod
from typing import Any

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.passes.torch.indexing import all_of, padded, scattered
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import width_of
from deplodock.passes.torch.shapes import with_unit
from deplodock.passes.torch.tensors import Ints, Tensor, TensorBuilder, where


@dataclass(frozen=True)
class Window:
    """How a window walks one dimension: element `j` of window `i` is at `i * stride + j * dilation - padding`."""

    size: int
    stride: int
    padding: int
    dilation: int

    def meets(self, extent: int, count: int) -> bool:
        """Whether each of `count` windows has an element that is not of the padding."""
        if not self.padding:
            return True
        starts = (i * self.stride - self.padding for i in range(count))
        return all(any(0 <= start + j * self.dilation < extent for j in range(self.size)) for start in starts)

    def element(self, window: int, element: int) -> AffineExpr:
        """The position of an element, dimension `element`, of a window, dimension `window`, after the padding."""
        return AffineExpr.dimension(window) * self.stride + AffineExpr.dimension(element) * self.dilation

    def padding_after(self, extent: int, count: int) -> int:
        """What the last of `count` windows needs behind an extent."""
        reach = (count - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max(self.padding, reach - self.padding - extent)


def spread(values: Any, count: int) -> list[int]:
    """One number for each dimension; a list of one counts for all."""
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given


def windows_of(
    size: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[Window]:
    windows = [Window(*each) for each in zip(size, stride, padding, dilation, strict=True)]
    if any(window.stride < 1 or window.size < 1 or window.dilation < 1 or window.padding < 0 for window in windows):
        raise ValueError(f"no windows of size {list(size)} by {list(stride)}, {list(dilation)} apart")
    return windows


def padded_for(x: Tensor, windows: Sequence[Window], counts: Sequence[int], value: float) -> Tensor:
    """`x` with so much of `value` around the last dimensions as their windows read."""
    first = x.rank - len(windows)
    pads: dict[int, tuple[int, int]] = {}
    for dim, (window, count) in enumerate(zip(windows, counts, strict=True), first):
        after = window.padding_after(x.shape[dim], count)
        if window.padding or after:
            pads[dim] = (window.padding, after)
    return padded(x, pads, value) if pads else x


def with_zeros(x: Tensor, edges: Sequence[tuple[int, int]]) -> Tensor:
    """`x` with so many zeros before and after the elements of the last dimensions; negative amounts cut off."""
    first = x.rank - len(edges)
    places = [AffineExpr.dimension(d) for d in range(x.rank)]
    shape = list(x.shape)
    for dim, (before, after) in enumerate(edges, first):
        places[dim] = places[dim] - before if before else places[dim]
        shape[dim] += before + after
    return x.padded(AffineMap(x.rank, 0, tuple(places)), shape)


def read_windows(
    x: Tensor, windows: Sequence[Window], outside: float, counts: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """The elements of so many windows along the last dimensions, and the dimensions that hold those of one."""
    first, spaces = x.rank - len(windows), len(windows)
    space = (*x.shape[:first], *counts, *(window.size for window in windows))
    places = [window.element(first + d, first + spaces + d) for d, window in enumerate(windows)]
    outer = [AffineExpr.dimension(d) for d in range(first)]
    read = padded_for(x, windows, counts, outside).read([*outer, *places], space)
    return read, list(range(first + spaces, len(space)))


@lowers("convolution")
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    shape: Ints,
) -> Tensor:
    """`result[n, c, o..] = bias[c] + sum(input[n, g, i, o * stride + k * dilation - padding..] * weight[c, i, k..])`.

    One product in the point space [n, c, o.., i, k..], summed over the last dimensions; g is the group of c.
    """
    is_unbatched = input.rank == weight.rank - 1
    x = with_unit(input, 0) if is_unbatched else input
    spaces = weight.rank - 2
    steps, edges, holes = (spread(given, spaces) for given in (stride, padding, dilation))
    counts = shape[-spaces:]
    if transposed:
        value = _transposed(x, weight, counts, list(zip(steps, edges, holes, strict=True)), groups)
    else:
        value = _windows(x, weight, counts, (steps, edges, holes), groups).sum()
    if bias is not None:
        value = value + bias.spread([0, *range(2, 2 + spaces)], value.shape)
    return value.reshape(value.shape[1:]) if is_unbatched else value


@dataclass(frozen=True)
class Reading:
    """Where the factors of a convolution are read in the point space [n, c, o.., i, k..]."""

    space: tuple[int, ...]
    x: Tensor
    x_places: Sequence[AffineExpr]
    weight: Tensor
    weight_places: Sequence[AffineExpr]

    def sum(self) -> Tensor:
        """The sums of the products at all points, over [i, k..]."""
        x, weight = self.x.read(self.x_places, self.space), self.weight.read(self.weight_places, self.space)
        return (x * weight).named("product").sum(range(self.x.rank, len(self.space)), "conv")


def _windows(x: Tensor, weight: Tensor, counts: Sequence[int], walk: Sequence[Sequence[int]], groups: int) -> Reading:
    """The reading of a convolution whose windows walk by these strides, paddings and dilations."""
    channels, inside, *sizes = weight.shape
    spaces = len(sizes)
    windows = windows_of(sizes, *walk)
    space = (x.shape[0], channels, *counts, inside, *sizes)
    dims = [AffineExpr.dimension(d) for d in range(len(space))]
    channel = _channel(dims[1], dims[2 + spaces], channels // groups, inside, groups)
    places = [window.element(2 + d, 3 + spaces + d) for d, window in enumerate(windows)]
    x = with_zeros(x, [(w.padding, w.padding_after(x.shape[2 + d], counts[d])) for d, w in enumerate(windows)])
    return Reading(space, x, [dims[0], channel, *places], weight, [dims[1], *dims[2 + spaces :]])


def _channel(output: AffineExpr, inner: AffineExpr, made: int, inside: int, groups: int) -> AffineExpr:
    """The input channel of an output channel of `made` in a group, `inner` of the `inside` of that group."""
    return output // made * inside + inner if groups > 1 else inner


def _transposed(
    x: Tensor, weight: Tensor, counts: Sequence[int], walks: Sequence[tuple[int, int, int]], groups: int
) -> Tensor:
    """The first outputs, `counts` of them, of the transposed convolution by these strides, paddings and dilations.

    Element `k` of the weight brings the input's `i` to the output's `i * stride + k * dilation - padding`. Where stride
    and dilation have a common factor, that is every so many outputs: those are a transposed convolution without the
    factor, between zeros.
    """
    factors = [gcd(stride, dilation) for stride, _, dilation in walks]
    reached = [
        range(-padding % factor, count, factor)
        for (_, padding, _), factor, count in zip(walks, factors, counts, strict=True)
    ]
    if not all(reached):
        return x.build.constant(0, x.element, [x.shape[0], weight.shape[1] * groups, *counts])
    inner = [
        (stride // factor, -(-padding // factor), dilation // factor)
        for (stride, padding, dilation), factor in zip(walks, factors, strict=True)
    ]
    value = _phases(x, weight, [len(each) for each in reached], inner, groups).sum()
    for dim, (positions, factor, count) in enumerate(zip(reached, factors, counts, strict=True), 2):
        if factor > 1:
            shape = [*value.shape[:dim], count, *value.shape[dim + 1 :]]
            value = scattered(value.build.constant(0, value.element, shape), value, dim, positions)
    return value


@dataclass(frozen=True)
class Way:
    """How a transposed convolution reads one dimension, `o` of the output and `k` of the taps that are summed.

    The input gets `step - 1` zeros between its elements and the amounts `edges` around them, and the weight `rest`
    zeros at its end.
    """

    taps: int
    step: int
    edges: tuple[int, int]
    place: AffineExpr
    element: AffineExpr
    rest: int = 0


def _way(size: int, extent: int, count: int, walk: tuple[int, int, int], o: AffineExpr, k: AffineExpr) -> Way:
    """The way of a dimension with `size` elements of the weight, `extent` of the input and `count` of the output.

    An output `o` of phase `(o + padding) mod stride` needs the elements `phase + j * stride`, each with the input's `(o
    + padding) floordiv stride - j` (W. Shi et al., "Is the deconvolution layer the same as a convolutional layer?",
    arXiv:1609.07009). With both a stride and a dilation, which have no common factor, it is a convolution of stride 1
    on the input with `stride - 1` zeros between its elements instead, by the weight turned over.
    """
    stride, padding, dilation = walk
    if stride == 1 or dilation > 1:
        before, after = (size - 1) * dilation - padding, count - 1 + padding - (extent - 1) * stride
        return Way(size, stride, (before, after), o + k * dilation, k * -1 + (size - 1))
    taps, last = -(-size // stride), (padding + count - 1) // stride
    element = (o + padding) % stride + (k * -stride + (taps - 1) * stride)
    return Way(taps, 1, (taps - 1, last + 1 - extent), (o + padding) // stride + k, element, taps * stride - size)


def _phases(
    x: Tensor, weight: Tensor, counts: Sequence[int], walks: Sequence[tuple[int, int, int]], groups: int
) -> Reading:
    """The reading of a transposed convolution by these strides, paddings and dilations, no two with a common factor.

    Its weight is `[input channel, output channel of a group, k..]`.
    """
    given, made, *sizes = weight.shape
    inside, spaces = given // groups, len(sizes)
    n, c, *outputs, i = (AffineExpr.dimension(d) for d in range(3 + spaces))
    elements = [AffineExpr.dimension(3 + spaces + d) for d in range(spaces)]
    ways = [_way(*each) for each in zip(sizes, x.shape[2:], counts, walks, outputs, elements, strict=True)]
    channel = _channel(c, i, made, inside, groups)
    space = (x.shape[0], groups * made, *counts, inside, *(way.taps for way in ways))
    x = _stretched(x, [way.step for way in ways], [way.edges for way in ways])
    weight = padded(weight, {2 + d: (0, way.rest) for d, way in enumerate(ways)}, 0)
    made_channel = c % made if groups > 1 else c
    return Reading(
        space,
        x,
        [n, channel, *(way.place for way in ways)],
        weight,
        [channel, made_channel, *(way.element for way in ways)],
    )


def _stretched(x: Tensor, steps: Sequence[int], edges: Sequence[tuple[int, int]]) -> Tensor:
    """`x` with `step - 1` zeros between the elements of each of the last dimensions, and these amounts at its edges."""
    for dim, step in enumerate(steps, x.rank - len(steps)):
        shape = x.shape
        if step > 1:
            x = padded(with_unit(x, dim + 1), {dim + 1: (0, step - 1)}, 0)
            x = x.reshape((*shape[:dim], shape[dim] * step, *shape[dim + 1 :]))
    return with_zeros(x, [(before, after - (step - 1)) for step, (before, after) in zip(steps, edges, strict=True)])


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
