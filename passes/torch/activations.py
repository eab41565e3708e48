"""Activation functions, as PyTorch computes them so that both tails come out right."""

from __future__ import annotations

from math import pi
from math import sqrt as root

from xdsl.dialects.utils import FastMathFlag

from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.tensors import Tensor, erf, exp, log1p, maximum, minimum, tanh, where


@lowers("relu")
def relu(self: Tensor) -> Tensor:
    """`maximum(x, 0)`, which propagates NaN."""
    return maximum(self, 0)


@lowers("leaky_relu")
def leaky_relu(self: Tensor, negative_slope: float) -> Tensor:
    """`x` where it is positive, else `x * negative_slope`."""
    scaled = (self * negative_slope).named("scaled")
    return where(self > 0, self, scaled)


@lowers("sigmoid")
def sigmoid(self: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))`."""
    one = self.like(1)
    return _inexact(one / _denominator(self, one))


@lowers("silu")
def silu(self: Tensor) -> Tensor:
    """`x / (1 + exp(-x))`."""
    return _inexact(self / _denominator(self, self.like(1)))


@lowers("mish")
def mish(self: Tensor) -> Tensor:
    """`x * tanh(log(1 + exp(x)))`, as `x * (n / (n + 2))` with `n = exp(x) * (exp(x) + 2)`.

    The tangent of a logarithm is a quotient of polynomials: with `u = 1 + exp(x)` it is `(u^2 - 1) / (u^2 + 1)`, in
    which nothing cancels if `u^2 - 1` is computed as `n`. Above 20 the quotient is 1, also in FP64.
    """
    e = _inexact(exp(minimum(self, 20).named("bounded"))).named("exp")
    n = (e * (e + 2).named("above")).named("n")
    return self * _inexact(n / (n + 2).named("denominator")).named("share")


def _denominator(x: Tensor, one: Tensor) -> Tensor:
    return (one + _inexact(exp((-x).named("neg"))).named("exp")).named("denominator")


def _inexact(value: Tensor) -> Tensor:
    """A value that may be approximate in FP32 where it is rounded to half precision."""
    return value if value.build.narrow is None else value.allowing(FastMathFlag.APPROX_FUNC)


@lowers("gelu")
def gelu(self: Tensor, approximate: str) -> Tensor:
    """`x / 2 * (1 + erf(x / sqrt 2))`; approximate: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', not '{approximate}'")
    if approximate == "none":
        inner = erf((self * root(0.5)).named("scaled")).named("erf")
    else:
        cube = ((self * self).named("square") * self).named("cube")
        bent = (self + (cube * 0.044715).named("small")).named("bent")
        inner = tanh((bent * root(2 / pi)).named("scaled")).named("tanh")
    half = (self * 0.5).named("half")
    return half * (inner + 1).named("above")


@lowers("softplus")
def softplus(self: Tensor, beta: float, threshold: float) -> Tensor:
    """`log(1 + exp(beta * x)) / beta`, and x itself where beta * x is above the threshold."""
    scaled = self if beta == 1 else (self * beta).named("scaled")
    soft = log1p(exp(scaled).named("exp")).named("soft")
    if beta != 1:
        soft = (soft / beta).named("soft")
    return where(scaled > threshold, self, soft)
