"""multiply-reciprocals: divide by what a loop does not change as a product with its reciprocal, which is computed once.

    %sum = loop.reduce {arith.addf} ..                   %sum = loop.reduce {arith.addf} ..
    loop.for %k = 0 to 2048 {                            %r = arith.divf %one, %sum : f32
      %e = ..                                     ->     loop.for %k = 0 to 2048 {
      %v = arith.divf %e, %sum fastmath<arcp>              %e = ..
      loop.store %v, %out[%k]                              %v = arith.mulf %e, %r : f32
    }                                                      loop.store %v, %out[%k]
                                                         }

A division of full accuracy takes about a dozen instructions, a product one. It rounds once more, which
`fastmath<arcp>` allows: the decomposition of attention writes that on the shares of its softmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, ModuleOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.shape.nest import kernels
from deplodock.dialects import loop


@dataclass(frozen=True)
class MultiplyReciprocalsPass(ModulePass):
    """Divide by what a loop does not change as a product with its reciprocal, which is computed once."""

    name = "multiply-reciprocals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            reciprocals: dict[SSAValue, SSAValue] = {}
            for quotient in [inner for inner in function.walk() if isinstance(inner, arith.DivfOp)]:
                if _is_invariant(quotient):
                    _multiply(quotient, reciprocals)


def _is_invariant(quotient: arith.DivfOp) -> bool:
    """Whether a quotient may be a product, and its divisor is computed outside of the loop around it."""
    divisor, around = quotient.rhs.owner, quotient.parent_op()
    is_licensed = FastMathFlag.ALLOW_RECIP in quotient.fastmath.data
    is_outside = isinstance(divisor, Operation) and divisor.parent is not quotient.parent
    return is_licensed and is_outside and isinstance(around, loop.LoopLike)


def _multiply(quotient: arith.DivfOp, reciprocals: dict[SSAValue, SSAValue]) -> None:
    """Replace a quotient by a product with the reciprocal of its divisor, which stands behind that."""
    divisor = quotient.rhs
    if divisor not in reciprocals:
        one = arith.ConstantOp(FloatAttr(1.0, cast(AnyFloat, divisor.type)))
        reciprocal = arith.DivfOp(one.result, divisor)
        for op in (one, reciprocal):
            op.location = quotient.location
        Rewriter.insert_op((one, reciprocal), InsertPoint.after(cast(Operation, divisor.owner)))
        reciprocals[divisor] = reciprocal.result
    product = arith.MulfOp(quotient.lhs, reciprocals[divisor])
    product.location = quotient.location
    product.result.name_hint = quotient.result.name_hint
    Rewriter.replace_op(quotient, product)
