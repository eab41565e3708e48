"""Rounded division and its remainders."""

from __future__ import annotations

from math import prod

from xdsl.dialects import arith, math

from deplodock.dialects.math_ext import FmodOp
from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.tensors import Tensor, alike, broadcast, floor, trunc, where


@lowers("div.Tensor_mode", "floor_divide")
def rounded_div(self: Tensor | float, other: Tensor | float, rounding_mode: str | None = "floor") -> Tensor:
    """Division rounded down or towards zero; without rounding mode true division.

    In half precision PyTorch rounds after each step, but not where the divisor is one number.
    """
    if rounding_mode not in ("floor", "trunc", None):
        raise ValueError(f"rounding_mode must be 'floor' or 'trunc', not '{rounding_mode}'")
    x, y = broadcast(*alike(self, other))
    if not x.is_float:
        if rounding_mode is None:
            raise ValueError("true division needs floats; cast with torch.aten._to_copy")
        return x.map(arith.FloorDivSIOp if rounding_mode == "floor" else arith.DivSIOp, y)
    if isinstance(other, Tensor) and prod(other.shape) != 1:
        x, y = x.in_steps(), y.in_steps()
    if rounding_mode == "floor":
        return _floor_quotient(x, y)
    quotient = (x / y).named("quotient")
    return quotient if rounding_mode is None else trunc(quotient)


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", broadcasts=True)
def remainder(self: Tensor, other: Tensor) -> Tensor:
    """`x - floor(x / y) * y`, which has the sign of the divisor."""
    rest = _rest(self, other)
    return where(_signs_differ(rest, other), (rest + other).named("shifted"), rest)


@lowers("fmod.Tensor", "fmod.Scalar", broadcasts=True)
def fmod(self: Tensor, other: Tensor) -> Tensor:
    """`x - trunc(x / y) * y`, which has the sign of the dividend."""
    return _rest(self, other)


def _rest(x: Tensor, y: Tensor) -> Tensor:
    """The remainder of the quotient rounded towards zero."""
    return x.map(FmodOp if x.is_float else arith.RemSIOp, y).named("rest")


def _signs_differ(rest: Tensor, y: Tensor) -> Tensor:
    """Where a remainder is not zero and has the other sign than the divisor."""
    differ = ((rest < 0) ^ (y < 0)).named("differ")
    return ((rest != 0) & differ).named("inexact")


def _floor_quotient(x: Tensor, y: Tensor) -> Tensor:
    """The largest whole number that is not above the exact quotient, found from the remainder as Python does."""
    rest = _rest(x, y)
    quotient = ((x - rest) / y).named("quotient")
    lower = quotient - 1
    quotient = where(_signs_differ(rest, y), lower, quotient).named("quotient")
    below = floor(quotient).named("floor")
    whole = where(quotient - below > 0.5, below + 1, below)
    true = (x / y).named("true")
    zero = x.like(0).map(math.CopySignOp, true).named("zero")
    whole = where(quotient != 0, whole, zero)
    return where(y == 0, true, whole)
