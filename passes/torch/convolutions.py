"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineExpr

from deplodock.passes.torch.indexing import padded
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.shapes import with_unit
from deplodock.passes.torch.tensors import Ints, Tensor
from deplodock.passes.torch.windows import padded_for, spread, windows_of


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

    One product in the point space [n, c, o.., i, k..], summed over the last dimensions; g is the group of c. A
    transposed convolution is one of stride 1 on the input with `stride - 1` zeros between its elements, by the weight
    turned over.
    """
    is_unbatched = input.rank == weight.rank - 1
    x = with_unit(input, 0) if is_unbatched else input
    spaces = weight.rank - 2
    steps, edges, holes, beyond = (spread(given, spaces) for given in (stride, padding, dilation, output_padding))
    if transposed:
        reach = [(size - 1) * hole for size, hole in zip(weight.shape[2:], holes, strict=True)]
        x = _stretched(x, steps, [(r - p, r - p + b) for r, p, b in zip(reach, edges, beyond, strict=True)])
        weight = _turned(weight, groups)
        steps, edges = [1] * spaces, [0] * spaces
    channels, inside, *sizes = weight.shape
    windows = windows_of(sizes, steps, edges, holes)
    counts = shape[-spaces:]
    space = (x.shape[0], channels, *counts, inside, *sizes)
    dims = [AffineExpr.dimension(d) for d in range(len(space))]
    channel = dims[2 + spaces]
    if groups > 1:
        channel = dims[1] // (channels // groups) * inside + channel
    places = [window.element(2 + d, 3 + spaces + d) for d, window in enumerate(windows)]
    x = padded_for(x, windows, counts, 0).read([dims[0], channel, *places], space)
    product = (x * weight.read([dims[1], *dims[2 + spaces :]], space)).named("product")
    value = product.sum(range(2 + spaces, len(space)), "conv")
    if bias is not None:
        value = value + bias.spread([0, *range(2, 2 + spaces)], value.shape)
    return value.reshape(value.shape[1:]) if is_unbatched else value


def _stretched(x: Tensor, steps: Sequence[int], edges: Sequence[tuple[int, int]]) -> Tensor:
    """`x` with `step - 1` zeros between the elements of each of the last dimensions, and these amounts at its edges."""
    for dim, (step, (before, after)) in enumerate(zip(steps, edges, strict=True), x.rank - len(steps)):
        shape = x.shape
        if step > 1:
            x = padded(with_unit(x, dim + 1), {dim + 1: (0, step - 1)}, 0)
            x = x.reshape((*shape[:dim], shape[dim] * step, *shape[dim + 1 :]))
        x = padded(x, {dim: (before, after - (step - 1))}, 0)
    return x


def _turned(weight: Tensor, groups: int) -> Tensor:
    """The weight of a transposed convolution, `[input channel, output channel of a group, k..]`, as of a plain one."""
    given, made, *sizes = weight.shape
    dims = [AffineExpr.dimension(d) for d in range(2 + len(sizes))]
    ends = [dim * -1 + (size - 1) for dim, size in zip(dims[2:], sizes, strict=True)]
    sources = (dims[0] // made * (given // groups) + dims[1], dims[0] % made, *ends)
    return weight.read(sources, (groups * made, given // groups, *sizes))
