"""The `math_ext` dialect: operations on scalars that MLIR has and xDSL lacks, beside `arith` and `math`."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import Float32Type, f32
from xdsl.dialects.math import FloatingPointLikeBinaryMathOperation
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import Feature, NeedsFeature


@op_definition
class FmodOp(FloatingPointLikeBinaryMathOperation):
    """The remainder of a division truncated towards zero, as C's fmod: exact, with the sign of the dividend.

    It is `arith.remf` of MLIR. NaN where the dividend is infinite or the divisor zero; the dividend where the divisor
    is infinite.

    %r = math_ext.fmod %x, %y : f32
    """

    name = "math_ext.fmod"

    traits = traits_def(Pure(), SameOperandsAndResultType())


DROPPED_BITS = 13
"""The bits of an f32's fraction that TF32 lacks: it has 10 of 23 (PTX ISA, "Alternate floating-point formats")."""


class PartOfF32(IRDLOperation, ABC):
    """A part of an f32, as an f32: one of the two whose sum it is, but for its last bits."""

    value = operand_def(Float32Type)
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32])


@op_definition
class HighPartOp(PartOfF32):
    """The leading part of an f32: what TF32 keeps of it, its last 13 bits dropped.

    So tensor cores read an f32. Infinities stay, and the largest numbers stay finite. NaN stays NaN if it has one of
    the leading 10 bits of its fraction, as all have that computations give.

    %h = math_ext.high_part %x : f32
    """

    name = "math_ext.high_part"


@op_definition
class RoundTf32Op(PartOfF32, NeedsFeature):
    """An f32 rounded to TF32, to nearest and ties to even, as `cvt.rn.tf32.f32` does: its last 13 bits are 0.

    Infinities and NaN stay what they are, and numbers of 2^128 - 2^116 and more become infinite.

    %r = math_ext.round_tf32 %x : f32
    """

    name = "math_ext.round_tf32"

    def needs(self) -> Feature:
        """Which GPUs round so: `cvt.rn.tf32.f32` is for sm_90 or higher (PTX ISA, `cvt`)."""
        return Feature.TF32_ROUNDING


@op_definition
class LowPartOp(PartOfF32):
    """What the leading part of an f32 leaves, for an engine that reads TF32: `x - high_part(x)`, which is exact.

    Half of what TF32 keeps last is added to the magnitude, so that dropping the rest rounds to nearest, ties away from
    zero. Both parts, so read, have the 24 bits of x but 2 or 3; less where the difference is subnormal. It is read as
    -0 where x is infinite or NaN: half of what TF32 keeps last behind the bits of the NaN that a GPU gives, 0x7fffffff.

    %l = math_ext.low_part %x : f32
    """

    name = "math_ext.low_part"


@op_definition
class WithLowPartOp(IRDLOperation):
    """An f32 whose low part is known: x, of which the other operand is `low_part(x)`.

    So a low part that is stored in memory reaches the product of x: the engines of warpgroups read it there.

    %y = math_ext.with_low_part %x, %l : f32
    """

    name = "math_ext.with_low_part"
    value = operand_def(Float32Type)
    low = operand_def(Float32Type)
    result = result_def(Float32Type)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $low attr-dict `:` type($value)"

    def __init__(self, value: SSAValue, low: SSAValue):
        super().__init__(operands=[value, low], result_types=[f32])


MathExt = Dialect("math_ext", [FmodOp, HighPartOp, RoundTf32Op, LowPartOp, WithLowPartOp])
