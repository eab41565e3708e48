"""The pattern of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.tensor import shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.indexing import padded
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder
from deplodock.passes.torch.windows import padded_for, spread, windows_of


class LowerConvolution(AtenPattern):
    """`result[n, c, o..] = bias[c] + sum(input[n, g, i, o * stride + k * dilation - padding..] * weight[c, i, k..])`.

    One product in the point space [n, c, o.., i, k..], summed over the last dimensions; g is the group of c. A
    transposed convolution is one of stride 1 on the input with `stride - 1` zeros between its elements, by the weight
    turned over.
    """

    overloads = ("convolution",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, weight, bias = op.operand("input"), op.operand("weight"), op.tensor("bias")
        unbatched = len(shape_of(x)) == len(shape_of(weight)) - 1
        x = build.reshape(x, (1, *shape_of(x))) if unbatched else x
        spaces, groups = len(shape_of(weight)) - 2, op.value("groups")
        names = ("stride", "padding", "dilation", "output_padding")
        stride, padding, dilation, beyond = (spread(op.value(name), spaces) for name in names)
        if op.value("transposed"):
            if shape_of(weight)[0] % groups:
                raise ValueError(f"a weight of shape {list(shape_of(weight))} does not fall into {groups} groups")
            reach = [(size - 1) * step for size, step in zip(shape_of(weight)[2:], dilation, strict=True)]
            edges = [(r - p, r - p + b) for r, p, b in zip(reach, padding, beyond, strict=True)]
            x, weight = _stretched(build, x, stride, edges), _turned(build, weight, groups)
            stride, padding = [1] * spaces, [0] * spaces
        channels, inside, *sizes = shape_of(weight)
        windows = windows_of(sizes, stride, padding, dilation)
        if len(shape_of(x)) != spaces + 2 or shape_of(x)[1] != groups * inside or channels % groups:
            raise ValueError(f"a weight of shape {list(shape_of(weight))} does not fit {list(shape_of(x))}")
        counts = [window.count(extent) for window, extent in zip(windows, shape_of(x)[2:], strict=True)]
        space = (shape_of(x)[0], channels, *counts, inside, *sizes)
        dims = [AffineExpr.dimension(d) for d in range(len(space))]
        channel = dims[2 + spaces]
        if groups > 1:
            channel = dims[1] // (channels // groups) * inside + channel
        places = [window.element(2 + d, 3 + spaces + d) for d, window in enumerate(windows)]
        x = padded_for(build, x, windows, counts, 0)
        x = build.index_map(x, AffineMap(len(space), 0, (dims[0], channel, *places)), space)
        weight = build.index_map(weight, AffineMap(len(space), 0, (dims[1], *dims[2 + spaces :])), space)
        product = build.apply("mul", x, weight, name="product")
        value = build.reduce("add", product, range(2 + spaces, len(space)), name="conv")
        if bias is not None:
            value = build.apply("add", value, build.spread(bias, [0, *range(2, 2 + spaces)], shape_of(value)))
        return build.reshape(value, shape_of(value)[1:]) if unbatched else value


def _stretched(build: TensorBuilder, x: SSAValue, steps: Sequence[int], edges: Sequence[tuple[int, int]]) -> SSAValue:
    """`x` with `step - 1` zeros between the elements of each of the last dimensions, and these amounts at its edges."""
    first = len(shape_of(x)) - len(steps)
    for dim, (step, (before, after)) in enumerate(zip(steps, edges, strict=True), first):
        shape = shape_of(x)
        if step > 1:
            x = build.reshape(x, (*shape[: dim + 1], 1, *shape[dim + 1 :]))
            x = padded(build, x, {dim + 1: (0, step - 1)}, 0)
            x = build.reshape(x, (*shape[:dim], shape[dim] * step, *shape[dim + 1 :]))
        x = padded(build, x, {dim: (before, after - (step - 1))}, 0)
    return x


def _turned(build: TensorBuilder, weight: SSAValue, groups: int) -> SSAValue:
    """The weight of a transposed convolution, `[input channel, output channel of a group, k..]`, as of a plain one."""
    given, made, *sizes = shape_of(weight)
    dims = [AffineExpr.dimension(d) for d in range(2 + len(sizes))]
    ends = [dim * -1 + (size - 1) for dim, size in zip(dims[2:], sizes, strict=True)]
    source = (dims[0] // made * (given // groups) + dims[1], dims[0] % made, *ends)
    return build.index_map(weight, AffineMap(len(dims), 0, source), (groups * made, given // groups, *sizes))
