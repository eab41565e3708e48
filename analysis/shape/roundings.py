"""What rounds on the way to the results of a program, and how large an error it may make: the error bar of a result."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects import math as math_ir
from xdsl.dialects.builtin import BFloat16Type, ModuleOp, f16, f32, f64
from xdsl.ir import Attribute, Operation

from deplodock.analysis.shape.reductions import longest_path, longest_reduction
from deplodock.dialects.precision import MEDIUM, coarsest_precision, precision_of

FP32_ULP, FP64_ULP = 2.0**-23, 2.0**-52
"""The distances from 1 to the next number of both types in which sums are computed."""

TF32_ROUNDOFF = 2.0**-11
"""The unit roundoff of factors that are rounded to TF32, which has 11 bits."""

_ULPS: dict[Attribute, float] = {BFloat16Type(): 2.0**-7, f16: 2.0**-10, f32: FP32_ULP}
"""The ulps of what a value may be cast to from a wider float."""

_NARROW = 1.5
"""The error of a rounding to a narrow type that is allowed, in unit roundoffs; that of normal numbers is 0.41."""

MOST = 8.0
"""The most roundings to the type of the sums that count besides those of the sums."""

_FUNCTION = 4.0
"""The roundings that a function of a number makes: two ulps."""

_EXACT = (math_ir.AbsFOp, math_ir.CeilOp, math_ir.CopySignOp, math_ir.FloorOp, math_ir.RoundEvenOp, math_ir.TruncOp)

_FACTORS = 3.0
"""The error of a product of factors of TF32, in unit roundoffs: rounded ones make 0.6, those that are cut off 1.6."""


@dataclass(frozen=True)
class Roundings:
    """What rounds on the way to the results of a program, along the path on which most does.

    `sums` is the longest chain of additions. `narrow` is the root of the sum of squares of the unit roundoffs of casts
    to narrower floats, and `factors` the sum of those of products whose factors may be rounded to TF32. `others` is
    that root of the other roundings, in unit roundoffs of FP32 or float64, where it is known, and 8 at most.
    """

    sums: int = 1
    narrow: float = 0.0
    factors: float = 0.0
    others: float = MOST

    def bar(self, ulp: float) -> float:
        """The relative error that a result may have whose type has this distance from 1 to the next number.

        A result of a type narrower than FP32 is rounded to it at least once.
        """
        narrow = max(self.narrow, ulp / 2 if ulp > FP32_ULP else 0.0)
        return _NARROW * narrow + self._of_sums(ulp) + _FACTORS * self.factors

    def noise(self, ulp: float, *, is_rounded: bool, is_factor: bool) -> float:
        """The largest random error of a value that stands for what rounds there: one, uniform, of so much moves as far.

        Args:
            ulp: the distance from 1 to the next number of the type of the value.
            is_rounded: whether the value was rounded to that type, as a result is, and an input is not.
            is_factor: whether it is a factor of a product of FP32.
        """
        narrow = _NARROW * ulp / 2 if is_rounded and ulp > FP32_ULP else 0.0
        factor = _FACTORS * TF32_ROUNDOFF / math.sqrt(2) if is_factor and self.factors else 0.0
        return math.sqrt(3) * max(narrow, factor, self._of_sums(ulp))

    def _of_sums(self, ulp: float) -> float:
        """The relative error of sums: the reference is rounded as sums of float64 are."""
        unit = ulp if ulp <= FP64_ULP else min(ulp, FP32_ULP) / 2
        return unit * (self.others + math.sqrt(self.sums))


def roundings(module: ModuleOp) -> Roundings:
    """What rounds on the way to the results of the entry function of a module at tensor, loop or tile level.

    Raises as `longest_reduction`.
    """
    narrow, factors = longest_path(module, _narrowed), longest_path(module, _rounded_factors)
    # At tile level a contraction adds to accumulators on its own, past the path.
    least = TF32_ROUNDOFF if coarsest_precision(module) == MEDIUM else 0.0
    others = max(1.0, math.sqrt(longest_path(module, _rounded)))
    return Roundings(longest_reduction(module), math.sqrt(narrow), max(factors, least), min(MOST, others))


def _narrowed(op: Operation) -> float:
    """The square of the unit roundoff of a rounding to a narrower type; 0 of what does not round so."""
    if not isinstance(op, arith.TruncFOp | arith.FloatingPointLikeBinaryOperation):
        return 0.0
    type = op.results[0].type
    is_narrow = isinstance(op, arith.TruncFOp) or type != f32
    return (_ULPS.get(type, 0.0) / 2) ** 2 if is_narrow else 0.0


def _rounded(op: Operation) -> float:
    """The square of the unit roundoffs that an operation of FP32 or float64 makes."""
    if not op.results or op.results[0].type not in (f32, f64) or isinstance(op, _EXACT):
        return 0.0
    if isinstance(op, arith.FloatingPointLikeBinaryOperation | arith.TruncFOp):
        return 1.0
    return _FUNCTION**2 if op.name.startswith("math.") else 0.0


def _rounded_factors(op: Operation) -> float:
    return TF32_ROUNDOFF if precision_of(op) == MEDIUM else 0.0
