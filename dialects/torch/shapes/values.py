"""The shapes of the results of elementwise operations, reductions and norms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deplodock.dialects.shapes import Shape, broadcast_shape, check_broadcast, wrap_dims
from deplodock.dialects.tensor.indexing import shape_of
from deplodock.dialects.torch.schema import AtenCall


def broadcast(op: AtenCall) -> Sequence[Shape]:
    """The shape that all operands broadcast to."""
    return [broadcast_shape(*map(shape_of, op.tensors))]


def first(op: AtenCall) -> Sequence[Shape]:
    """The shape of the first operand for each result; any `dim` must be a dimension of it."""
    shape = shape_of(op.tensors[0])
    if op.has("dim"):
        wrap_dims([op.value("dim")], len(shape))
    return [shape] * len(op.outputs)


def broadcast_to_first(op: AtenCall) -> Sequence[Shape]:
    """The shape of the first operand, to which the others broadcast."""
    shape, *others = map(shape_of, op.tensors)
    for other in others:
        check_broadcast(other, shape)
    return [shape]


def masked_fill(op: AtenCall) -> Sequence[Shape]:
    """The shape that `self` and `mask` broadcast to; `value` is one number."""
    value = op.tensor("value") if op.schema().name == "masked_fill.Tensor" else None
    if value is not None and shape_of(value) != ():
        raise ValueError(f"value must have no dimensions, not the shape {list(shape_of(value))}")
    return [broadcast_shape(shape_of(op.operand("self")), shape_of(op.operand("mask")))]


def reduced(op: AtenCall) -> Sequence[Shape]:
    """Without the dimensions `dim`, all if there are none; `keepdim` leaves them as ones."""
    shape, given = shape_of(op.operand("self")), op.value("dim") if op.has("dim") else None
    empty_is_all = op.schema().name not in ("any.dims", "all.dims")
    if given is None or (given == () and empty_is_all):
        dims = list(range(len(shape)))
    else:
        dims = wrap_dims([given] if isinstance(given, int) else given, len(shape))
    keeps = op.has("keepdim") and op.value("keepdim")
    kept = tuple(1 if dim in dims else n for dim, n in enumerate(shape) if keeps or dim not in dims)
    return [kept] * len(op.outputs)


def layer_norm(op: AtenCall) -> Sequence[Shape]:
    """That of the input, which ends in `normalized_shape`, as weight and bias have it."""
    shape, normalized = shape_of(op.operand("input")), op.value("normalized_shape")
    if not normalized or shape[-len(normalized) :] != normalized:
        raise ValueError(f"normalized_shape {list(normalized)} must be the last dimensions of the shape {list(shape)}")
    for name in ("weight", "bias"):
        factor = op.tensor(name) if op.has(name) else None
        if factor is not None and shape_of(factor) != normalized:
            raise ValueError(f"the {name} must have the shape {list(normalized)}, not {list(shape_of(factor))}")
    return [shape]


def _of_channels(op: AtenCall, names: Iterable[str]) -> Shape:
    """The shape of the input, after a check that these operands have an element for each of its channels."""
    shape = shape_of(op.operand("input"))
    for name in names:
        value = op.tensor(name)
        if value is not None and (len(shape) < 2 or shape_of(value) != shape[1:2]):
            raise ValueError(
                f"the {name} must have an element for each channel, dimension 1 of the shape {list(shape)}"
            )
    return shape


def group_norm(op: AtenCall) -> Sequence[Shape]:
    """That of the input, whose channels fall into groups."""
    shape, groups = _of_channels(op, ("weight", "bias")), op.value("num_groups")
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise ValueError(f"{groups} groups do not divide the channels, dimension 1 of the shape {list(shape)}")
    return [shape]


def batch_norm(op: AtenCall) -> Sequence[Shape]:
    """That of the input; the statistics have an element for each channel on a GPU, and none on a CPU."""
    shape = _of_channels(op, ("weight", "bias", "running_mean", "running_var"))
    return [shape, *(shape[1:2] if shape_of(statistic) == shape[1:2] else (0,) for statistic in op.outputs[1:])]
