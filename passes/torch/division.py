"""Patterns for rounded division and its remainders."""

from __future__ import annotations

from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from deplodock.dialects.math_ext import FmodOp
from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.pattern import AtenPattern, operand_pair
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerRoundedDiv(AtenPattern):
    """Division rounded down or towards zero; without rounding mode true division.

    In half precision PyTorch rounds after each step, but not where the divisor is one number.
    """

    overloads = ("div.Tensor_mode", "floor_divide")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, y = operand_pair(op, build)
        mode = "floor" if op.schema().name == "floor_divide" else op.value("rounding_mode")
        if mode not in ("floor", "trunc", None):
            raise ValueError(f"rounding_mode must be 'floor' or 'trunc', not '{mode}'")
        if not isinstance(element_of(x), AnyFloat):
            if mode is None:
                raise ValueError("true division needs floats; cast with torch.aten._to_copy")
            return build.map(arith.FloorDivSIOp if mode == "floor" else arith.DivSIOp, x, y)
        divisor = op.tensor("other")
        if divisor is not None and prod(shape_of(divisor)) != 1:
            build = build.in_steps()
        if mode == "floor":
            return _floor_quotient(build, x, y)
        quotient = build.map(arith.DivfOp, x, y, name="quotient")
        return quotient if mode is None else build.map(math.TruncOp, quotient)


class LowerRemainder(AtenPattern):
    """`x - floor(x / y) * y`, which has the sign of the divisor."""

    overloads = ("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, y = operand_pair(op, build)
        rest = _rest(build, x, y)
        return build.select(_signs_differ(build, rest, y), build.apply("add", rest, y, name="shifted"), rest)


class LowerFmod(AtenPattern):
    """`x - trunc(x / y) * y`, which has the sign of the dividend."""

    overloads = ("fmod.Tensor", "fmod.Scalar")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, y = operand_pair(op, build)
        return _rest(build, x, y)


def _rest(build: TensorBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The remainder of the quotient rounded towards zero."""
    return build.map(FmodOp if isinstance(element_of(x), AnyFloat) else arith.RemSIOp, x, y, name="rest")


def _signs_differ(build: TensorBuilder, rest: SSAValue, y: SSAValue) -> SSAValue:
    """Where a remainder is not zero and has the other sign than the divisor."""
    differ = build.map(arith.XOrIOp, build.compare_with("lt", rest, 0), build.compare_with("lt", y, 0), name="differ")
    return build.map(arith.AndIOp, build.compare_with("ne", rest, 0), differ, name="inexact")


def _floor_quotient(build: TensorBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The largest whole number that is not above the exact quotient, found from the remainder as Python does."""
    rest = _rest(build, x, y)
    quotient = build.map(arith.DivfOp, build.map(arith.SubfOp, x, rest), y, name="quotient")
    lower = build.map(arith.SubfOp, quotient, build.constant_like(1, x))
    quotient = build.select(_signs_differ(build, rest, y), lower, quotient, name="quotient")
    floor = build.map(math.FloorOp, quotient, name="floor")
    over = build.compare_with("gt", build.map(arith.SubfOp, quotient, floor), 0.5)
    floor = build.select(over, build.map(arith.AddfOp, floor, build.constant_like(1, x)), floor)
    true = build.map(arith.DivfOp, x, y, name="true")
    zero = build.map(math.CopySignOp, build.constant_like(0, x), true, name="zero")
    whole = build.select(build.compare_with("ne", quotient, 0), floor, zero)
    return build.select(build.compare_with("eq", y, 0), true, whole)
