"""coalesce-loops: run through a row in one loop where a reduction of the row does.

    %sum = loop.reduce .. %k = 0 to 4096 : f32 {..}       %sum = loop.reduce .. %k = 0 to 4096 : f32 {..}
    loop.for %i = 0 to 64 {                               loop.for %i = 0 to 4096 {
      loop.for %j = 0 to 64 {                               %i_1 = loop.index [%i floordiv 64]
        %v = loop.load %x[%m, %i * 64 + %j]          ->     %j = loop.index [%i mod 64]
        ..                                                  %v = loop.load %x[%m, %i_1 * 64 + %j]
        loop.store %w, %out[%m, %i, %j]                     ..
                                                            loop.store %w, %out[%m, %i_1, %j]

A reduction sees a row in one dimension where the result of the kernel has it in several, as softmax does of the pixels
of an image. The threads that share the row then share each loop over it, which the innermost of several would be too
short for. Addresses are sums of the digits, which fold to the loop's variable where the row is contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear, to_map
from deplodock.analysis.shape.nest import kernels
from deplodock.analysis.shape.roles import row_chain
from deplodock.dialects import loop


@dataclass(frozen=True)
class CoalesceLoopsPass(ModulePass):
    """Run through a row in one loop where a reduction of the row does."""

    name = "coalesce-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernels(op):
            chains = [row_chain(inner) for inner in function.walk() if isinstance(inner, loop.ForOp)]
            for chain in filter(_is_reduced, chains):
                _coalesce(chain)


def _is_reduced(chain: Sequence[loop.LoopLike]) -> bool:
    """Whether one loop beside several, none of which reduces, reduces as many elements as these run through."""
    around, points = chain[0].parent, prod(level.trips or 0 for level in chain)
    if len(chain) < 2 or not points or around is None:
        return False
    beside = [op for op in around.ops if isinstance(op, loop.ReduceOp)]
    is_free = all(isinstance(level, loop.ForOp) for level in chain)
    return is_free and any(op.trips == points and len(row_chain(op)) == 1 for op in beside)


def _coalesce(chain: Sequence[loop.LoopLike]) -> None:
    """Put one loop in the place of a chain of loops, whose variables are the digits of its own."""
    points = prod(level.trips or 0 for level in chain)
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = chain[0].iv.name_hint
    made = loop.ForOp(points, Region(body), unroll=False)
    for level in chain:
        size = level.trips or 0
        points //= size
        digit = loop.IndexOp(*to_map([Linear.of(body.args[0]) // points % size]))
        digit.result.name_hint = level.iv.name_hint
        body.add_op(digit)
        level.iv.replace_all_uses_with(digit.result)
        for op in list(level.body.block.ops):
            if op not in chain:
                op.detach()
                body.add_op(op)
    Rewriter.insert_op(made, InsertPoint.before(chain[0]))
    Rewriter.erase_op(chain[0])
