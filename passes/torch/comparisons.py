"""Patterns for comparison, logic, bits, and choice by a condition."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Operation, SSAValue

from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.pattern import AtenPattern, operand_pair
from deplodock.passes.torch.tensor_builder import TensorBuilder, filling, width_of


class LowerComparison(AtenPattern):
    """Compare at every index; with NaN only `ne` holds."""

    computes = False
    overloads = tuple(
        f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")
    )

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.compare(op.schema().name.partition(".")[0], *operand_pair(op, build))


class LowerIsSpecial(AtenPattern):
    """Where a float is NaN (not equal to itself) or infinite, which an integer never is, or has a minus sign."""

    overloads = ("isnan", "isinf", "signbit")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if op.schema().name == "signbit":
            # Zeros and NaN have a sign, too.
            is_float = isinstance(element_of(x), AnyFloat)
            sign = build.map(math.CopySignOp, build.constant_like(1, x), x, name="sign") if is_float else x
            return build.compare_with("lt", sign, 0)
        if not isinstance(element_of(x), AnyFloat):
            return build.constant(0, i1, shape_of(x))
        if op.schema().name == "isnan":
            return build.compare("ne", x, x)
        return build.compare_with("eq", build.apply("abs", x, name="abs"), inf)


class LowerLogical(AtenPattern):
    """Logic on whether elements are zero."""

    op_classes: ClassVar[dict[str, type[Operation]]] = {
        "logical_and": arith.AndIOp,
        "logical_or": arith.OrIOp,
        "logical_xor": arith.XOrIOp,
    }
    overloads = ("logical_not", *op_classes)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        if op.schema().name == "logical_not":
            return build.compare_with("eq", op.operand("self"), 0)
        x, y = operand_pair(op, build)
        return build.map(self.op_classes[op.schema().name], build.cast(x, i1), build.cast(y, i1))


class LowerBitwise(AtenPattern):
    """Bits of integers and booleans."""

    op_classes: ClassVar[dict[str, type[Operation]]] = {
        "bitwise_and": arith.AndIOp,
        "bitwise_or": arith.OrIOp,
        "bitwise_xor": arith.XOrIOp,
    }
    overloads = ("bitwise_not", *(f"{name}.{kind}" for name in op_classes for kind in ("Tensor", "Scalar")))

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        if op.schema().name == "bitwise_not":
            x = op.operand("self")
            return build.map(arith.XOrIOp, x, build.constant_like(-1, x))
        return build.map(self.op_classes[op.schema().name.partition(".")[0]], *operand_pair(op, build))


class LowerShift(AtenPattern):
    """Shift bits; by less than 0 or the width or more, nothing but copies of the sign is left, to the left zeros."""

    overloads = tuple(
        f"bitwise_{side}_shift.{kind}"
        for side in ("left", "right")
        for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    )

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, amount = operand_pair(op, build)
        last = build.constant_like(width_of(element_of(x)) - 1, x)
        fits = build.map(
            arith.AndIOp, build.compare_with("ge", amount, 0), build.compare("le", amount, last), name="fits"
        )
        amount = build.select(fits, amount, last)
        if "right" in op.schema().name:
            return build.map(arith.ShRSIOp, x, amount)
        shifted = build.map(arith.ShLIOp, x, amount, name="shifted")
        return build.select(fits, shifted, build.constant_like(0, x))


class LowerWhere(AtenPattern):
    """`self` where the condition holds, else `other`; numbers and tensors broadcast."""

    computes = False
    overloads = ("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        element = op.tensor_type.element_type
        values = [
            build.constant(op.value(name), element, ()) if tensor is None else tensor
            for name in ("self", "other")
            for tensor in (op.tensor(name),)
        ]
        condition, x, y = build.broadcast_all(op.operand("condition"), *values)
        return build.select(condition, x, y)


class LowerMaskedFill(AtenPattern):
    """`value` where the mask holds, else `self`."""

    computes = False
    overloads = ("masked_fill.Scalar", "masked_fill.Tensor")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, mask = build.broadcast_all(op.operand("self"), op.operand("mask"))
        value = op.tensor("value")
        if value is None:
            return build.select(mask, build.constant_like(filling(op.value("value"), element_of(x)), x), x)
        return build.select(mask, build.broadcast(value, shape_of(x)), x)
