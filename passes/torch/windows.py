"""Patterns that read windows of the last dimensions: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.indexing import padded
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder


@dataclass(frozen=True)
class Window:
    """How a window walks one dimension: element `j` of window `i` is at `i * stride + j * dilation - padding`."""

    size: int
    stride: int
    padding: int
    dilation: int

    def count(self, extent: int, *, ceil: bool = False) -> int:
        """The number of windows of an extent; with `ceil` the last may reach beyond it, if it starts inside."""
        room = extent + 2 * self.padding - self.dilation * (self.size - 1) - 1
        count = (room + (self.stride - 1 if ceil else 0)) // self.stride + 1
        return count - (ceil and (count - 1) * self.stride >= extent + self.padding)

    def element(self, window: int, element: int) -> AffineExpr:
        """The position of an element, dimension `element`, of a window, dimension `window`, after the padding."""
        return AffineExpr.dimension(window) * self.stride + AffineExpr.dimension(element) * self.dilation

    def padding_after(self, extent: int, count: int) -> int:
        """What the last of `count` windows needs behind an extent."""
        reach = (count - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max(self.padding, reach - self.padding - extent)


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
        stride, padding, dilation, beyond = (_spread(op.value(name), spaces) for name in names)
        if op.value("transposed"):
            if shape_of(weight)[0] % groups:
                raise ValueError(f"a weight of shape {list(shape_of(weight))} does not fall into {groups} groups")
            reach = [(size - 1) * step for size, step in zip(shape_of(weight)[2:], dilation, strict=True)]
            edges = [(r - p, r - p + b) for r, p, b in zip(reach, padding, beyond, strict=True)]
            x, weight = _stretched(build, x, stride, edges), _turned(build, weight, groups)
            stride, padding = [1] * spaces, [0] * spaces
        channels, inside, *sizes = shape_of(weight)
        windows = _windows(sizes, stride, padding, dilation)
        if len(shape_of(x)) != spaces + 2 or shape_of(x)[1] != groups * inside or channels % groups:
            raise ValueError(f"a weight of shape {list(shape_of(weight))} does not fit {list(shape_of(x))}")
        counts = [window.count(extent) for window, extent in zip(windows, shape_of(x)[2:], strict=True)]
        space = (shape_of(x)[0], channels, *counts, inside, *sizes)
        dims = [AffineExpr.dimension(d) for d in range(len(space))]
        channel = dims[2 + spaces]
        if groups > 1:
            channel = dims[1] // (channels // groups) * inside + channel
        places = [window.element(2 + d, 3 + spaces + d) for d, window in enumerate(windows)]
        x = _padded(build, x, windows, counts, 0)
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


class LowerMaxPool(AtenPattern):
    """The largest element of each window; what is outside of the tensor is -inf. NaN is larger than all."""

    overloads = ("max_pool1d", "max_pool2d", "max_pool3d")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, spaces = op.operand("self"), int(op.schema().name[-2])
        if not isinstance(element_of(x), AnyFloat):
            raise ValueError("only floats are supported")
        names = ("kernel_size", "stride", "padding", "dilation")
        size, stride, padding, dilation = (_spread(op.value(name), spaces) for name in names)
        windows = _windows(size, stride or size, padding, dilation)
        counts = _counts(x, windows, op.value("ceil_mode"))
        return build.reduce("maximum", *_read(build, x, windows, -inf, counts), name="max")


class LowerAveragePool(AtenPattern):
    """The sum of each window over the number of its elements, of those inside of the tensor or its padding alone."""

    overloads = ("avg_pool1d", "avg_pool2d", "avg_pool3d")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, spaces = op.operand("self"), int(op.schema().name[-2])
        size, stride, padding = (_spread(op.value(name), spaces) for name in ("kernel_size", "stride", "padding"))
        windows, ceil = _windows(size, stride or size, padding, [1] * spaces), op.value("ceil_mode")
        counts = _counts(x, windows, ceil)
        total = build.reduce("add", *_read(build, x, windows, 0, counts), name="sum")
        divisor = op.value("divisor_override") if spaces > 1 else None
        if divisor is not None or (not ceil and (op.value("count_include_pad") or not any(padding))):
            count = build.constant_like(divisor or prod(size), total)
        else:
            ones = build.constant_like(1, x)
            if op.value("count_include_pad"):
                rank = len(shape_of(x))
                ones = padded(build, ones, {rank - spaces + d: (n, n) for d, n in enumerate(padding)}, 1)
                windows = _windows(size, stride or size, [0] * spaces, [1] * spaces)
            count = build.reduce("add", *_read(build, ones, windows, 0, counts), name="count")
        return build.map(arith.DivfOp, total, count)


class LowerAdaptiveAveragePool(AtenPattern):
    """The mean of parts of equal size, of which the result has so many."""

    overloads = ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, wanted = op.operand("self"), op.value("output_size")
        extents = shape_of(x)[len(shape_of(x)) - len(wanted) :]
        if any(count < 1 or extent % count for extent, count in zip(extents, wanted, strict=True)):
            raise ValueError(f"{list(extents)} elements do not fall into {list(wanted)} parts of one size")
        size = [extent // count for extent, count in zip(extents, wanted, strict=True)]
        windows = _windows(size, size, [0] * len(size), [1] * len(size))
        return build.mean(*_read(build, x, windows, 0, wanted))


def _spread(values: Any, count: int) -> list[int]:
    """One number for each dimension; a list of one counts for all."""
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given


def _windows(
    size: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[Window]:
    windows = [Window(*each) for each in zip(size, stride, padding, dilation, strict=True)]
    if any(window.stride < 1 or window.size < 1 or window.dilation < 1 or window.padding < 0 for window in windows):
        raise ValueError(f"no windows of size {list(size)} by {list(stride)}, {list(dilation)} apart")
    return windows


def _padded(
    build: TensorBuilder, x: SSAValue, windows: Sequence[Window], counts: Sequence[int], value: float
) -> SSAValue:
    """`x` with so much of `value` around the last dimensions as their windows read."""
    first = len(shape_of(x)) - len(windows)
    pads: dict[int, tuple[int, int]] = {}
    for dim, (window, count) in enumerate(zip(windows, counts, strict=True), first):
        after = window.padding_after(shape_of(x)[dim], count)
        if window.padding or after:
            pads[dim] = (window.padding, after)
    return padded(build, x, pads, value) if pads else x


def _counts(x: SSAValue, windows: Sequence[Window], ceil: bool) -> list[int]:
    """The numbers of windows along the last dimensions."""
    extents = shape_of(x)[len(shape_of(x)) - len(windows) :]
    return [window.count(extent, ceil=ceil) for window, extent in zip(windows, extents, strict=True)]


def _read(
    build: TensorBuilder, x: SSAValue, windows: Sequence[Window], outside: float, counts: Sequence[int]
) -> tuple[SSAValue, list[int]]:
    """The elements of so many windows along the last dimensions, and the dimensions that hold those of one."""
    first, spaces = len(shape_of(x)) - len(windows), len(windows)
    space = (*shape_of(x)[:first], *counts, *(window.size for window in windows))
    places = [window.element(first + d, first + spaces + d) for d, window in enumerate(windows)]
    outer = [AffineExpr.dimension(d) for d in range(first)]
    x = _padded(build, x, windows, counts, outside)
    read = build.index_map(x, AffineMap(len(space), 0, (*outer, *places)), space)
    return read, list(range(first + spaces, len(space)))
