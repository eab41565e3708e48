"""Patterns for softmax and the norms."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.index_maps import wrap_dims
from deplodock.passes.torch.pattern import AtenPattern, reduced_dims, with_dims
from deplodock.passes.torch.reductions import squared_deviations
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerSoftmax(AtenPattern):
    """`e / sum(e)` with `e = exp(x - max(x))`, along `dim`."""

    overloads = ("softmax.int",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return softmax(build, x, wrap_dims([op.value("dim")], len(shape_of(x))))


class LowerLogSoftmax(AtenPattern):
    """`x - max(x) - log(sum(exp(x - max(x))))`, along `dim`."""

    overloads = ("log_softmax.int",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        dims = wrap_dims([op.value("dim")], len(shape_of(x)))
        maximum = build.reduce("maximum", x, dims, name="max")
        shifted, _, total = _exponentials(build, x, maximum, dims)
        log = build.map(math.LogOp, total, name="log")
        return build.map(arith.SubfOp, shifted, build.spread(log, dims, shape_of(x)))


class LowerLogSumExp(AtenPattern):
    """`max(x) + log(sum(exp(x - max(x))))`; an infinite maximum is not subtracted."""

    overloads = ("logsumexp",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        dims = reduced_dims(op, len(shape_of(x)))
        maximum = build.reduce("maximum", x, dims, name="max")
        infinite = build.compare_with("eq", build.apply("abs", maximum, name="abs"), inf)
        maximum = build.select(infinite, build.constant_like(0, maximum), maximum, name="max")
        _, _, total = _exponentials(build, x, maximum, dims)
        value = build.map(arith.AddfOp, build.map(math.LogOp, total, name="log"), maximum)
        return with_dims(op, build, value, dims, shape_of(x))


class LowerRmsNorm(AtenPattern):
    """`x * rsqrt(mean(x * x) + eps) * weight` over the last dimensions; eps is that of the type unless given."""

    overloads = ("rms_norm",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("input")
        dims = _normalized_dims(op, x)
        square = build.map(arith.MulfOp, x, x, name="sq")
        eps = op.value("eps") if op.value("eps") is not None else _epsilon(element_of(x))
        scale = _inverse_root(build, build.mean(square, dims), eps)
        normal = build.map(arith.MulfOp, x, build.spread(scale, dims, shape_of(x)), name="normal")
        return _affine(op, build, normal)


class LowerLayerNorm(AtenPattern):
    """`(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * weight + bias` over the last dimensions, in two passes."""

    overloads = ("layer_norm",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("input")
        return _affine(op, build, _normalize(build, x, _normalized_dims(op, x), op.value("eps")))


class LowerGroupNorm(AtenPattern):
    """Layer norm of each group of channels, dimension 1, with all that follows; weight and bias are per channel."""

    overloads = ("group_norm",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, groups = op.operand("input"), op.value("num_groups")
        shape = shape_of(x)
        if len(shape) < 2 or groups < 1 or shape[1] % groups:
            raise ValueError(f"{groups} groups do not divide the channels, dimension 1 of the shape {list(shape)}")
        grouped = build.reshape(x, (shape[0], groups, prod(shape[2:]) * (shape[1] // groups)))
        normal = build.reshape(_normalize(build, grouped, [2], op.value("eps")), shape)
        return _affine_of_channels(op, build, normal)


class LowerBatchNorm(AtenPattern):
    """`(x - running_mean) * rsqrt(running_var + eps) * weight + bias`, each per channel, dimension 1.

    The statistics of the batch, the other results, have no elements outside training.
    """

    overloads = ("_native_batch_norm_legit_no_training",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> Sequence[SSAValue]:
        x, mean, variance = op.operand("input"), op.operand("running_mean"), op.operand("running_var")
        scale = _inverse_root(build, variance, op.value("eps"))
        centred = build.map(arith.SubfOp, x, _of_channels(build, "running_mean", mean, x), name="centred")
        normal = build.map(arith.MulfOp, centred, _of_channels(build, "running_var", scale, x), name="normal")
        none = build.constant(0, element_of(x), (0,))
        return _affine_of_channels(op, build, normal), none, none


def _normalize(build: TensorBuilder, x: SSAValue, dims: Sequence[int], eps: float) -> SSAValue:
    """`(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps)` over `dims`."""
    mean = build.mean(x, dims)
    variance = build.mean(squared_deviations(build, x, mean, dims), dims)
    scale = _inverse_root(build, variance, eps)
    centred = build.map(arith.SubfOp, x, build.spread(mean, dims, shape_of(x)), name="centred")
    return build.map(arith.MulfOp, centred, build.spread(scale, dims, shape_of(x)), name="normal")


def softmax(build: TensorBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """The softmax along `dims`; rows of -inf are NaN."""
    maximum = build.reduce("maximum", x, dims, name="max")
    _, exp, total = _exponentials(build, x, maximum, dims)
    return build.map(arith.DivfOp, exp, build.spread(total, dims, shape_of(x)))


def safe_softmax(build: TensorBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """The softmax along `dims`, but 0 for rows of -inf, as `at::_safe_softmax` of PyTorch is."""
    maximum = build.reduce("maximum", x, dims, name="max")
    dead = build.compare_with("eq", maximum, -inf, name="dead")
    maximum = build.select(dead, build.constant_like(0, maximum), maximum, name="max")
    _, exp, total = _exponentials(build, x, maximum, dims)
    total = build.select(dead, build.constant_like(1, total), total, name="sum")
    return build.map(arith.DivfOp, exp, build.spread(total, dims, shape_of(x)))


def _exponentials(
    build: TensorBuilder, x: SSAValue, maximum: SSAValue, dims: Sequence[int]
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """`x - maximum`, its exponential, and the sum of that."""
    shifted = build.map(arith.SubfOp, x, build.spread(maximum, dims, shape_of(x)), name="shifted")
    exp = build.map(math.ExpOp, shifted, name="exp")
    return shifted, exp, build.reduce("add", exp, dims, name="sum")


def _normalized_dims(op: AtenOp, x: SSAValue) -> list[int]:
    shape, normalized = shape_of(x), op.value("normalized_shape")
    if not normalized or shape[-len(normalized) :] != normalized:
        raise ValueError(f"normalized_shape {list(normalized)} must be the last dimensions of the shape {list(shape)}")
    return list(range(len(shape) - len(normalized), len(shape)))


def _inverse_root(build: TensorBuilder, mean: SSAValue, eps: float) -> SSAValue:
    shifted = build.map(arith.AddfOp, mean, build.constant_like(eps, mean), name="mean_eps")
    return build.map(math.RsqrtOp, shifted, name="rsqrt")


def _affine(op: AtenOp, build: TensorBuilder, value: SSAValue) -> SSAValue:
    """Multiply by the weight and add the bias, if there are any."""
    for name, op_class in (("weight", arith.MulfOp), ("bias", arith.AddfOp)):
        factor = op.tensor(name)
        if factor is None:
            continue
        if shape_of(factor) != op.value("normalized_shape"):
            wanted = list(op.value("normalized_shape"))
            raise ValueError(f"the {name} must have the shape {wanted}, not {list(shape_of(factor))}")
        value = build.map(op_class, value, build.broadcast(factor, shape_of(value)))
    return value


def _affine_of_channels(op: AtenOp, build: TensorBuilder, value: SSAValue) -> SSAValue:
    """Multiply by the weight and add the bias of each channel, if there are any."""
    for name, op_class in (("weight", arith.MulfOp), ("bias", arith.AddfOp)):
        factor = op.tensor(name)
        if factor is not None:
            value = build.map(op_class, value, _of_channels(build, name, factor, value))
    return value


def _of_channels(build: TensorBuilder, name: str, value: SSAValue, like: SSAValue) -> SSAValue:
    """A value of each channel, dimension 1, repeated along the other dimensions."""
    shape = shape_of(like)
    if len(shape) < 2 or shape_of(value) != shape[1:2]:
        raise ValueError(f"the {name} must have an element for each channel, dimension 1 of the shape {list(shape)}")
    return build.spread(value, [dim for dim in range(len(shape)) if dim != 1], shape)


def _epsilon(element: Attribute) -> float:
    """The difference between 1 and the next number: C's FLT_EPSILON and DBL_EPSILON."""
    return 2.0**-23 if element == f32 else 2.0**-52
