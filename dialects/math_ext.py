"""The `math_ext` dialect: operations on scalars that MLIR has and xDSL lacks, beside `arith` and `math`."""

from __future__ import annotations

from xdsl.dialects.math import FloatingPointLikeBinaryMathOperation
from xdsl.ir import Dialect
from xdsl.irdl import traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from deplodock.dialects.formats import op_definition


@op_definition
class FmodOp(FloatingPointLikeBinaryMathOperation):
    """The remainder of a division truncated towards zero, as C's fmod: exact, with the sign of the dividend.

    It is `arith.remf` of MLIR. NaN where the dividend is infinite or the divisor zero; the dividend where the divisor
    is infinite.

    %r = math_ext.fmod %x, %y : f32
    """

    name = "math_ext.fmod"

    traits = traits_def(Pure(), SameOperandsAndResultType())


MathExt = Dialect("math_ext", [FmodOp])
