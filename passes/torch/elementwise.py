"""Arithmetic at every index: what it takes one or a few scalar operations to compute, powers, and activations.

Activations are computed as PyTorch does, so that both tails come out right.
"""

from __future__ import annotations

from math import pi
from math import sqrt as root

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, bf16, i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation

from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling
from deplodock.passes.torch.tensors import Tensor, erf, exp, log1p, maximum, minimum, rsqrt, sqrt, tanh, where

_FUNCTIONS: dict[str, type[Operation]] = {
    op_class.name.removeprefix("math."): op_class
    for op_class in (
        *(math.ExpOp, math.Exp2Op, math.ExpM1Op, math.LogOp, math.Log1pOp, math.Log2Op, math.Log10Op),
        *(math.SinOp, math.CosOp, math.TanOp, math.AsinOp, math.AcosOp, math.AtanOp),
        *(math.SinhOp, math.CoshOp, math.TanhOp, math.AsinhOp, math.AcoshOp, math.AtanhOp),
        *(math.ErfOp, math.SqrtOp, math.RsqrtOp),
    )
}
"""Functions that ATen and the dialect `math` call by one name."""

_ROUNDINGS: dict[str, type[Operation]] = {
    "floor": math.FloorOp,
    "ceil": math.CeilOp,
    "trunc": math.TruncOp,
    "round": math.RoundEvenOp,
}


@lowers(*_FUNCTIONS)
def function(self: Tensor, name: str) -> Tensor:
    """The scalar function of that name at every index."""
    return self.map(_FUNCTIONS[name])


@lowers(*_ROUNDINGS)
def rounding(self: Tensor, name: str) -> Tensor:
    """Round to a whole number, halves to the even one; an integer is one already."""
    return self.map(_ROUNDINGS[name]) if self.is_float else self


@lowers("mul.Tensor", "maximum", "minimum", "fmax", "fmin", broadcasts=True)
def binary(self: Tensor, other: Tensor, name: str) -> Tensor:
    """The scalar operation of that name, on both operands broadcast."""
    return self.apply(name, other)


@lowers("add.Tensor", broadcasts=True)
def add(self: Tensor, other: Tensor, alpha: float) -> Tensor:
    """`self + alpha * other`."""
    return self + _scaled(other, alpha)


@lowers("sub.Tensor", broadcasts=True)
def sub(self: Tensor, other: Tensor, alpha: float) -> Tensor:
    """`self - alpha * other`."""
    return self - _scaled(other, alpha)


@lowers("rsub.Scalar")
def rsub(self: Tensor, other: float, alpha: float) -> Tensor:
    """`other - alpha * self`."""
    return other - _scaled(self, alpha)


def _scaled(x: Tensor, alpha: float) -> Tensor:
    return x if alpha == 1 else (x * alpha).named("scaled")


@lowers("div.Tensor", broadcasts=True)
def div(self: Tensor, other: Tensor) -> Tensor:
    """True division of floats; integers were cast when they were captured."""
    return self / other


@lowers("atan2", broadcasts=True)
def atan2(self: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, self)."""
    return self.map(math.Atan2Op, other)


@lowers("copysign.Tensor", broadcasts=True)
def copysign(self: Tensor, other: Tensor) -> Tensor:
    """`|self|` with the sign of `other`."""
    return self.map(math.CopySignOp, other)


@lowers("prims.fma", broadcasts=True)
def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """`a * b + c`, rounded once."""
    return a.map(math.FmaOp, b, c)


@lowers("neg")
def neg(self: Tensor) -> Tensor:
    """`-x`; of an integer `0 - x`."""
    return -self


@lowers("abs")
def absolute(self: Tensor) -> Tensor:
    """`|x|`."""
    return abs(self)


@lowers("sign")
def sign(self: Tensor) -> Tensor:
    """1, -1, or 0 for zeros and NaN; a boolean itself."""
    if self.element == i1:
        return self
    zero = self.like(0)
    below = where(self < zero, -1, zero).named("negative")
    return where(self > zero, 1, below)


@lowers("reciprocal")
def reciprocal(self: Tensor) -> Tensor:
    """`1 / x`."""
    return 1 / self


@lowers("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor")
def clamp(self: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """`minimum(maximum(x, min), max)`, which propagates NaN from all of them; bounds may be left out."""
    value = self if min is None else maximum(self, min)
    return value if max is None else minimum(value, max)


@lowers("hardtanh")
def hardtanh(self: Tensor, min_val: float, max_val: float) -> Tensor:
    """`minimum(maximum(x, min_val), max_val)`; bounds of integers are truncated."""
    return clamp(self, filling(min_val, self.element), filling(max_val, self.element))


@lowers("_to_copy", "type_as", widens=False)
def cast(self: Tensor, element: Attribute) -> Tensor:
    """Convert the elements to the type of the result."""
    return self.cast(element)


@lowers("view.dtype", widens=False)
def bitcast(self: Tensor, dtype: Attribute) -> Tensor:
    """The same bits as elements of another type of their width."""
    if self.element == dtype:
        return self
    # Of the integers i8 and ui8 have the same width.
    return self.cast_bits(dtype) if self.is_float or isinstance(dtype, AnyFloat) else self.cast(dtype)


@lowers("pow.Tensor_Tensor", "pow.Scalar", broadcasts=True)
def power(self: Tensor, exponent: Tensor) -> Tensor:
    """`pow(x, e)`: of floats `math.powf`, of integers `math.ipowi`."""
    return self.apply("pow", exponent)


@lowers("pow.Tensor_Scalar", "square")
def power_of_number(self: Tensor, exponent: float = 2) -> Tensor:
    """`pow(x, e)`: as PyTorch computes it for e in {0, 1, 2, 3, 1/2, -1/2, -1, -2}, else by `math.powf`.

    Integers are raised to a number by repeated squaring. Products of bf16 are each rounded, as PyTorch does it on a
    CPU.
    """
    if not self.is_float:
        return _integer_power(self, exponent)
    x = self.in_steps() if self.build.narrow == bf16 else self
    if exponent in (0, 1, 2, 3):
        return _product(x, int(exponent))
    if exponent == 0.5:
        return sqrt(x)
    if exponent == -0.5:
        return rsqrt(x)
    if exponent in (-1, -2):
        return x.like(1) / _product(x, -int(exponent))
    return x.apply("pow", exponent)


def _product(x: Tensor, count: int) -> Tensor:
    """x multiplied `count` times with itself, from the left."""
    value = x.like(1) if count == 0 else x
    for _ in range(count - 1):
        value = value * x
    return value


def _integer_power(x: Tensor, exponent: float) -> Tensor:
    if exponent < 0 or exponent != int(exponent):
        raise ValueError(f"an integer cannot be raised to {exponent}; cast to a float first")
    power, value, rest = x, None, int(exponent)
    while rest:
        if rest % 2:
            value = power if value is None else value * power
        rest //= 2
        power = power * power if rest else power
    return x.like(1) if value is None else value


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
