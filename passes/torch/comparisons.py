"""Comparison, logic, bits, and choice by a condition."""

from __future__ import annotations

from math import inf

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation

from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.scalars import filling, width_of
from deplodock.passes.torch.tensors import Tensor, where

_LOGIC: dict[str, type[Operation]] = {"and": arith.AndIOp, "or": arith.OrIOp, "xor": arith.XOrIOp}


@lowers(
    *(f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")),
    broadcasts=True,
    widens=False,
)
def comparison(self: Tensor, other: Tensor, name: str) -> Tensor:
    """Compare at every index; with NaN only `ne` holds."""
    return self.compare(name, other)


@lowers("isnan")
def isnan(self: Tensor) -> Tensor:
    """Where a float is NaN (not equal to itself), which an integer never is."""
    return self != self if self.is_float else self.build.constant(0, i1, self.shape)


@lowers("isinf")
def isinf(self: Tensor) -> Tensor:
    """Where a float is infinite, which an integer never is."""
    return abs(self).named("abs") == inf if self.is_float else self.build.constant(0, i1, self.shape)


@lowers("signbit")
def signbit(self: Tensor) -> Tensor:
    """Where a number has a minus sign; zeros and NaN have a sign, too."""
    return (self.like(1).map(math.CopySignOp, self).named("sign") if self.is_float else self) < 0


@lowers("logical_not")
def logical_not(self: Tensor) -> Tensor:
    """Where elements are zero."""
    return self == 0


@lowers(*(f"logical_{name}" for name in _LOGIC), broadcasts=True)
def logical(self: Tensor, other: Tensor, name: str) -> Tensor:
    """Logic on whether elements are zero."""
    return self.cast(i1).map(_LOGIC[name.removeprefix("logical_")], other.cast(i1))


@lowers("bitwise_not")
def bitwise_not(self: Tensor) -> Tensor:
    """The other bits of integers and booleans."""
    return self ^ -1


@lowers(*(f"bitwise_{name}.{kind}" for name in _LOGIC for kind in ("Tensor", "Scalar")), broadcasts=True)
def bitwise(self: Tensor, other: Tensor, name: str) -> Tensor:
    """Bits of integers and booleans."""
    return self.map(_LOGIC[name.removeprefix("bitwise_")], other)


@lowers(
    *(f"bitwise_{side}_shift.{kind}" for side in ("left", "right") for kind in ("Tensor", "Tensor_Scalar")),
    *("bitwise_left_shift.Scalar_Tensor", "bitwise_right_shift.Scalar_Tensor"),
    broadcasts=True,
)
def shift(self: Tensor, other: Tensor, name: str) -> Tensor:
    """Shift bits; by less than 0 or the width or more, nothing but copies of the sign is left, to the left zeros."""
    last = self.like(width_of(self.element) - 1)
    fits = ((other >= 0) & (other <= last)).named("fits")
    amount = where(fits, other, last)
    if name == "bitwise_right_shift":
        return self.map(arith.ShRSIOp, amount)
    shifted = self.map(arith.ShLIOp, amount).named("shifted")
    return where(fits, shifted, 0)


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", broadcasts=True, widens=False)
def choice(condition: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """`self` where the condition holds, else `other`; numbers and tensors broadcast."""
    return where(condition, self, other)


@lowers("masked_fill.Scalar", broadcasts=True, widens=False)
def masked_fill_with_number(self: Tensor, mask: Tensor, value: float) -> Tensor:
    """`value` where the mask holds, else `self`."""
    return where(mask, filling(value, self.element), self)


@lowers("masked_fill.Tensor", broadcasts=True, widens=False)
def masked_fill(self: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """`value` where the mask holds, else `self`."""
    return where(mask, value, self)
