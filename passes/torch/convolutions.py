"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.ir.affine import AffineExpr

from deplodock.passes.torch.indexing import padded, scattered
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.shapes import with_unit
from deplodock.passes.torch.tensors import Ints, Tensor
from deplodock.passes.torch.windows import spread, windows_of, with_zeros


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
