"""Arithmetic at every index: what it takes one or a few scalar operations to compute."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Attribute, Operation

from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling
from deplodock.passes.torch.tensors import Tensor, maximum, minimum, where

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
