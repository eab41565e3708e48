"""Softmax and the norms."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from xdsl.dialects.builtin import f32
from xdsl.dialects.utils import FastMathFlag

from deplodock.dialects.shapes import wrap_dims
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.reductions import Dims, dims_of, squared_deviations, with_dims
from deplodock.passes.torch.tensors import Ints, Tensor, exp, log, rsqrt, where

REASSOCIATES = FastMathFlag.REASSOC
"""What LLVM asks of functions and quotients for `exp(a) * exp(b) -> exp(a + b)` and `x / z + y / z -> (x + y) / z`."""


@lowers("softmax.int")
def softmax(self: Tensor, dim: int) -> Tensor:
    """`e / sum(e)` with `e = exp(x - max(x))`, along `dim`."""
    dims = wrap_dims([dim], self.rank)
    _, e, total = _exponentials(self, self.max(dims), dims)
    return _share(e, total, dims)


@lowers("log_softmax.int")
def log_softmax(self: Tensor, dim: int) -> Tensor:
    """`x - max(x) - log(sum(exp(x - max(x))))`, along `dim`."""
    dims = wrap_dims([dim], self.rank)
    shifted, _, total = _exponentials(self, self.max(dims), dims)
    return shifted - log(total).named("log").spread(dims, self.shape)


@lowers("logsumexp")
def logsumexp(self: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """`max(x) + log(sum(exp(x - max(x))))`; an infinite maximum is not subtracted."""
    dims = dims_of(self, dim)
    maximum = self.max(dims)
    maximum = where(abs(maximum).named("abs") == inf, 0, maximum).named("max")
    _, _, total = _exponentials(self, maximum, dims)
    return with_dims(log(total).named("log") + maximum, dims, self, keepdim)


@lowers("rms_norm")
def rms_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None, eps: float | None) -> Tensor:
    """`x * rsqrt(mean(x * x) + eps) * weight` over the last dimensions; eps is that of the type unless given."""
    dims = range(input.rank)[-len(normalized_shape) :]
    square = (input * input).named("sq")
    if eps is None:
        # The difference between 1 and the next number: C's FLT_EPSILON and DBL_EPSILON.
        eps = 2.0**-23 if input.element == f32 else 2.0**-52
    scale = _inverse_root(square.mean(dims), eps)
    normal = (input * scale.spread(dims, input.shape)).named("normal")
    return _affine(normal, weight, None)


@lowers("layer_norm")
def layer_norm(input: Tensor, normalized_shape: Ints, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """`(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * weight + bias` over the last dimensions."""
    normal = _normalize(input, range(input.rank)[-len(normalized_shape) :], eps)
    return _affine(normal, weight, bias)


@lowers("group_norm")
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Layer norm of each group of channels, dimension 1, with all that follows; weight and bias are per channel."""
    shape = input.shape
    grouped = input.reshape((shape[0], num_groups, prod(shape[2:]) * (shape[1] // num_groups)))
    return _affine_of_channels(_normalize(grouped, [2], eps).reshape(shape), weight, bias)


@lowers("_native_batch_norm_legit_no_training")
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    shapes: Sequence[Ints],
) -> Sequence[Tensor]:
    """`(x - running_mean) * rsqrt(running_var + eps) * weight + bias`, each per channel, dimension 1.

    The other results are `running_mean` and `rsqrt(running_var + eps)`, or have no elements.
    """
    scale = _inverse_root(running_var, eps)
    centred = (input - _of_channels(running_mean, input)).named("centred")
    normal = (centred * _of_channels(scale, input)).named("normal")
    none = input.build.constant(0, input.element, (0,))
    given = zip((running_mean, scale), shapes[1:], strict=True)
    statistics = [value if value.shape == shape else none for value, shape in given]
    return _affine_of_channels(normal, weight, bias), *statistics


def _normalize(x: Tensor, dims: Sequence[int], eps: float) -> Tensor:
    """`(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps)` over `dims`."""
    mean = x.mean(dims)
    scale = _inverse_root(squared_deviations(x, mean, dims).mean(dims), eps)
    centred = (x - mean.spread(dims, x.shape)).named("centred")
    return (centred * scale.spread(dims, x.shape)).named("normal")


def safe_softmax(x: Tensor, dims: Sequence[int], is_inexact: bool) -> Tensor:
    """The softmax along `dims`, but 0 for rows of -inf, as `at::_safe_softmax` of PyTorch is.

    Its quotients may be products with reciprocals and, where it is inexact, its exponentials approximate.
    """
    maximum = x.max(dims)
    dead = (maximum == -inf).named("dead")
    maximum = where(dead, 0, maximum).named("max")
    _, e, total = _exponentials(x, maximum, dims, *([FastMathFlag.APPROX_FUNC] if is_inexact else []))
    total = where(dead, 1, total).named("sum")
    return _share(e, total, dims, FastMathFlag.ALLOW_RECIP)


def _exponentials(
    x: Tensor, maximum: Tensor, dims: Sequence[int], *flags: FastMathFlag
) -> tuple[Tensor, Tensor, Tensor]:
    """`x - maximum`, its exponential, and the sum of that; sums of the exponentials may be scaled as a whole."""
    shifted = (x - maximum.spread(dims, x.shape)).named("shifted")
    e = exp(shifted).named("exp").allowing(REASSOCIATES, *flags)
    return shifted, e, e.sum(dims)


def _share(e: Tensor, total: Tensor, dims: Sequence[int], *flags: FastMathFlag) -> Tensor:
    """`e / total`; sums of shares may be divided as a whole."""
    return (e / total.spread(dims, e.shape)).allowing(REASSOCIATES, *flags)


def _inverse_root(mean: Tensor, eps: float) -> Tensor:
    return rsqrt((mean + eps).named("mean_eps")).named("rsqrt")


def _affine(value: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Multiply by the weight and add the bias, if there are any."""
    value = value if weight is None else value * weight
    return value if bias is None else value + bias


def _affine_of_channels(value: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Multiply by the weight and add the bias of each channel, if there are any."""
    value = value if weight is None else value * _of_channels(weight, value)
    return value if bias is None else value + _of_channels(bias, value)


def _of_channels(value: Tensor, like: Tensor) -> Tensor:
    """A value of each channel, dimension 1, repeated along the other dimensions."""
    return value.spread([dim for dim in range(like.rank) if dim != 1], like.shape)
