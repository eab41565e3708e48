"""delay-monotone: apply a function that keeps the order of its arguments to a maximum, not to all that it is taken of.

    %max = loop.reduce {arith.maximumf} %k = 0 to 4 {       %max = loop.reduce {arith.maximumf} %k = 0 to 4 {
      %v = loop.load %x[%i, %k]                               %v = loop.load %x[%i, %k]
      %w = math.tanh %v : f32                          ->     loop.yield %v : f32
      loop.yield %w : f32                                   }
    }                                                       %w = math.tanh %max : f32

So it is with a minimum. The functions are those of one argument, and sums, products and maxima with a constant, that
never fall as that argument grows, in floating point as in exact arithmetic: rounding keeps the order, and NaN stays NaN
in all of them and in the maximum. A point must count, or the identity, which they would change, was the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.nest import kernels
from deplodock.analysis.shape.roles import accumulating_loops
from deplodock.dialects import loop

_FUNCTIONS = (math.TanhOp, math.ExpOp, math.Exp2Op, math.ExpM1Op, math.ErfOp, math.AtanOp, math.CeilOp, math.FloorOp)
"""Functions of one argument that are defined everywhere and never fall."""

_WITH_CONSTANTS = (arith.AddfOp, arith.SubfOp, arith.MaximumfOp, arith.MinimumfOp)
"""Operations that never fall as the first operand grows, whatever finite constant is the second."""

_WITH_POSITIVES = (arith.MulfOp, arith.DivfOp)
"""Operations that never fall as the first operand grows where the second is a positive constant."""


@dataclass(frozen=True)
class DelayMonotonePass(ModulePass):
    """Apply functions that keep the order of their arguments to maxima and minima."""

    name = "delay-monotone"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            for reduction in [inner for inner in function.walk() if isinstance(inner, loop.ReduceOp)]:
                if not isinstance(reduction.parent_op(), loop.ReduceOp):
                    _delay(reduction)


def _delay(reduction: loop.ReduceOp) -> None:
    """Move the functions at the end of a reduction behind it, where it is of an extreme and all its points count."""
    loops = accumulating_loops(reduction)
    if not _is_extreme(reduction) or any(not op.trips or wheres(op.body.block) for op in loops):
        return
    delayed = list(_monotone(loops[-1]))
    if not delayed:
        return
    place, value = reduction, reduction.results[0]
    for op in reversed(delayed):
        op.detach()
        Rewriter.insert_op(op, InsertPoint.after(place))
        value.replace_uses_with_if(op.results[0], lambda use, own=op: use.operation is not own)
        place, value = op, op.results[0]
    terminator = loops[-1].body.block.last_op
    assert terminator is not None
    terminator.operands = [delayed[-1].operands[0]]
    delayed[-1].operands[0] = reduction.results[0]


def _is_extreme(reduction: loop.ReduceOp) -> bool:
    """Whether a reduction is a maximum or a minimum of floating-point numbers."""
    combiner = list(reduction.combiner.block.ops)
    return len(combiner) == 2 and isinstance(combiner[0], arith.MaximumfOp | arith.MinimumfOp)


def _monotone(reduction: loop.ReduceOp) -> Iterator[Operation]:
    """The functions by which the value of a reduction's body ends, the last one first."""
    value = reduction.yielded[0]
    while isinstance(op := value.owner, Operation) and op.parent is reduction.body.block and value.has_one_use():
        if not _is_monotone(op):
            return
        yield op
        value = op.operands[0]


def _is_monotone(op: Operation) -> bool:
    """Whether the result of an operation never falls as its first operand grows."""
    if isinstance(op, _FUNCTIONS):
        return True
    if isinstance(op, _WITH_CONSTANTS):
        return (constant := _constant(op.operands[1])) is not None and abs(constant) < inf
    return isinstance(op, _WITH_POSITIVES) and 0 < (_constant(op.operands[1]) or 0) < inf


def _constant(value: SSAValue) -> float | None:
    """The number that a constant of floating point is."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(number := op.value, FloatAttr):
        return None
    return float(number.value.data)
