"""Patterns for arithmetic at every index: what it takes one or a few scalar operations to compute."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Operation, SSAValue

from deplodock.dialects.tensor import element_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.pattern import AtenPattern, operand_pair
from deplodock.passes.torch.tensor_builder import TensorBuilder, filling, width_of


class LowerUnary(AtenPattern):
    """The scalar function of that name at every index."""

    op_classes: ClassVar[dict[str, type[Operation]]] = {
        "exp": math.ExpOp,
        "exp2": math.Exp2Op,
        "expm1": math.ExpM1Op,
        "log": math.LogOp,
        "log1p": math.Log1pOp,
        "log2": math.Log2Op,
        "log10": math.Log10Op,
        "sin": math.SinOp,
        "cos": math.CosOp,
        "tan": math.TanOp,
        "asin": math.AsinOp,
        "acos": math.AcosOp,
        "atan": math.AtanOp,
        "sinh": math.SinhOp,
        "cosh": math.CoshOp,
        "asinh": math.AsinhOp,
        "acosh": math.AcoshOp,
        "atanh": math.AtanhOp,
        "erf": math.ErfOp,
        "sqrt": math.SqrtOp,
        "rsqrt": math.RsqrtOp,
        "tanh": math.TanhOp,
    }
    overloads = tuple(op_classes)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.map(self.op_classes[op.schema().name], op.operand("self"))


class LowerRounding(AtenPattern):
    """Round to a whole number, halves to the even one; an integer is one already."""

    op_classes: ClassVar[dict[str, type[Operation]]] = {
        "floor": math.FloorOp,
        "ceil": math.CeilOp,
        "trunc": math.TruncOp,
        "round": math.RoundEvenOp,
    }
    overloads = tuple(op_classes)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if not isinstance(element_of(x), AnyFloat):
            return x
        return build.map(self.op_classes[op.schema().name], x)


class LowerBinary(AtenPattern):
    """Broadcast both operands, then the scalar operation of that name; `alpha` multiplies the second."""

    operations: ClassVar[dict[str, str]] = {
        "add.Tensor": "add",
        "sub.Tensor": "sub",
        "mul.Tensor": "mul",
        "maximum": "maximum",
        "minimum": "minimum",
        "fmax": "fmax",
        "fmin": "fmin",
    }
    overloads = tuple(operations)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, y = operand_pair(op, build)
        if "alpha" in op.properties:
            y = build.apply("mul", y, build.constant_like(op.value("alpha"), y), name="scaled")
        return build.apply(self.operations[op.schema().name], x, y)


class LowerDiv(AtenPattern):
    """True division of floats; integers were cast when they were captured."""

    overloads = ("div.Tensor",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.map(arith.DivfOp, *operand_pair(op, build))


class LowerBinaryFunction(AtenPattern):
    """The scalar function of two floats: `atan2` is the angle of (other, self), `copysign` has the sign of other."""

    op_classes: ClassVar[dict[str, type[Operation]]] = {"atan2": math.Atan2Op, "copysign.Tensor": math.CopySignOp}
    overloads = tuple(op_classes)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.map(self.op_classes[op.schema().name], *operand_pair(op, build))


class LowerRsub(AtenPattern):
    """`rsub(x, other, alpha) = other - alpha * x`."""

    overloads = ("rsub.Scalar",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if "alpha" in op.properties:
            x = build.apply("mul", x, build.constant_like(op.value("alpha"), x), name="scaled")
        return build.apply("sub", build.constant_like(op.value("other"), x), x)


class LowerNeg(AtenPattern):
    """`-x`; of an integer `0 - x`."""

    overloads = ("neg",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if isinstance(element_of(x), AnyFloat):
            return build.map(arith.NegfOp, x)
        return build.apply("sub", build.constant_like(0, x), x)


class LowerAbs(AtenPattern):
    """`|x|`."""

    overloads = ("abs",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.apply("abs", op.operand("self"))


class LowerSign(AtenPattern):
    """1, -1, or 0 for zeros and NaN; a boolean itself."""

    overloads = ("sign",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        if element_of(x) == i1:
            return x
        zero = build.constant_like(0, x)
        below = build.select(build.compare("lt", x, zero), build.constant_like(-1, x), zero, name="negative")
        return build.select(build.compare("gt", x, zero), build.constant_like(1, x), below)


class LowerReciprocal(AtenPattern):
    """`1 / x`."""

    overloads = ("reciprocal",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return build.map(arith.DivfOp, build.constant_like(1, x), x)


class LowerClamp(AtenPattern):
    """`minimum(maximum(x, min), max)`, which propagates NaN from all of them; bounds may be left out.

    hardtanh truncates its bounds for integers, the others promote.
    """

    overloads = ("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor", "hardtanh")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        value = op.operand("self")
        names = ("min_val", "max_val") if op.schema().name == "hardtanh" else ("min", "max")
        for name, operation in zip(names, ("maximum", "minimum"), strict=True):
            if not op.has(name) or (op.tensor(name) is None and op.value(name) is None):
                continue
            bound = op.tensor(name)
            if bound is None:
                given = op.value(name)
                is_truncated = op.schema().name == "hardtanh"
                bound = build.constant_like(filling(given, element_of(value)) if is_truncated else given, value)
            value = build.apply(operation, *build.broadcast_all(value, bound))
        return value


class LowerCast(AtenPattern):
    """Convert the elements to the type of the result."""

    computes = False
    overloads = ("_to_copy", "type_as")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        return build.cast(op.operand("self"), op.tensor_type.element_type)


class LowerBitcast(AtenPattern):
    """The same bits as elements of another type of their width."""

    computes = False
    overloads = ("view.dtype",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, element = op.operand("self"), op.tensor_type.element_type
        if element_of(x) == element:
            return x
        if i1 in (element_of(x), element) or width_of(element_of(x)) != width_of(element):
            raise ValueError(f"elements of {element_of(x)} are not read as {element}, only as a type of their width")
        # Of the integers i8 and ui8 have the same width.
        of_floats = isinstance(element, AnyFloat) or isinstance(element_of(x), AnyFloat)
        return build.cast_bits(x, element) if of_floats else build.cast(x, element)
