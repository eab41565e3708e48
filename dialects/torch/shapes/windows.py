"""The shapes of the results of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

from deplodock.dialects.shapes import Shape, window_count
from deplodock.dialects.tensor.indexing import shape_of
from deplodock.dialects.torch.schema import AtenCall


def _spread(op: AtenCall, name: str, count: int) -> Sequence[int]:
    """One number for each dimension; a list of one counts for all."""
    given = op.value(name)
    given = [given] if isinstance(given, int) else list(given)
    if len(given) not in (1, count):
        raise ValueError(f"{name} {given} must hold 1 or {count} numbers")
    return given * count if len(given) == 1 else given


def _windows(
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *,
    ceil_mode: bool = False,
) -> Shape:
    """The numbers of windows along the last dimensions."""
    if min((*size, *stride, *dilation)) < 1 or min(padding) < 0:
        raise ValueError(f"no windows of size {list(size)} by {list(stride)}, {list(dilation)} apart")
    walks = zip(extents, size, stride, padding, dilation, strict=True)
    counts = tuple(window_count(*walk, ceil=ceil_mode) for walk in walks)
    if min(counts) < 0:
        raise ValueError(f"windows of size {list(size)} do not fit the shape {list(extents)}")
    return counts


def convolution(op: AtenCall) -> Sequence[Shape]:
    """One position for each window of the input; of a transposed one, for each that the windows cover."""
    x, weight, bias = shape_of(op.operand("input")), shape_of(op.operand("weight")), op.tensor("bias")
    spaces, groups = len(weight) - 2, op.value("groups")
    batch, x = (x[:1], x[1:]) if len(x) == len(weight) else ((), x)
    if spaces < 1 or len(x) != spaces + 1 or groups < 1:
        raise ValueError(f"a weight of shape {list(weight)} does not fit {list(shape_of(op.operand('input')))}")
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, beyond = (_spread(op, name, spaces) for name in names)
    inside, outside = (weight[0], weight[1] * groups) if op.value("transposed") else (weight[1] * groups, weight[0])
    if weight[0] % groups:
        raise ValueError(f"a weight of shape {list(weight)} does not fall into {groups} groups")
    if x[0] != inside:
        raise ValueError(f"a weight of shape {list(weight)} does not fit {list(shape_of(op.operand('input')))}")
    if bias is not None and shape_of(bias) != (outside,):
        raise ValueError(f"the bias must have the shape {[outside]}, not {list(shape_of(bias))}")
    if op.value("transposed"):
        sizes = zip(x[1:], weight[2:], stride, padding, dilation, beyond, strict=True)
        counts = tuple((n - 1) * s - 2 * p + d * (k - 1) + b + 1 for n, k, s, p, d, b in sizes)
    else:
        counts = _windows(x[1:], weight[2:], stride, padding, dilation)
    return [(*batch, outside, *counts)]


def pool(op: AtenCall) -> Sequence[Shape]:
    """One position for each window of the last dimensions."""
    x, spaces = shape_of(op.operand("self")), _spaces(op)
    if len(x) not in (spaces + 1, spaces + 2):
        raise ValueError(f"a pool over {spaces} dimensions has 1 or 2 before them, got the shape {list(x)}")
    size, padding = _spread(op, "kernel_size", spaces), _spread(op, "padding", spaces)
    stride = _spread(op, "stride", spaces) if op.value("stride") else size
    dilation = _spread(op, "dilation", spaces) if op.has("dilation") else [1] * spaces
    first = len(x) - spaces
    counts = _windows(x[first:], size, stride, padding, dilation, ceil_mode=op.value("ceil_mode"))
    return [(*x[:first], *counts)] * len(op.outputs)


def adaptive_pool(op: AtenCall) -> Sequence[Shape]:
    """`output_size` in the place of the last dimensions."""
    x, spaces = shape_of(op.operand("self")), _spaces(op)
    if len(x) not in (spaces + 1, spaces + 2):
        raise ValueError(f"a pool over {spaces} dimensions has 1 or 2 before them, got the shape {list(x)}")
    return [(*x[: len(x) - spaces], *_spread(op, "output_size", spaces))] * len(op.outputs)


def _spaces(op: AtenCall) -> int:
    """The number in the name of a pool: the dimensions of its windows."""
    return int(op.schema().name.partition("pool")[2][0])
