"""mark-unroll: mark small loops to be unrolled in the printed code.

    %0 = loop.reduce {arith.addf}          %0 = loop.reduce {arith.addf} %kio = 0 to 4 : f32 {
      %ki = 0 to 32 : f32 {                  %1 = loop.reduce {arith.addf} %kii = 0 to 8 unroll : f32 {
      ..                             ->        %ki = loop.index [%kio * 8 + %kii] ..
      loop.yield %p : f32                      loop.yield %p : f32
    }                                        }
                                             loop.yield %1 : f32
                                           }

A loop is marked when its iterations, with all that is unrolled in them, take at most `limit` instructions: more starve
the instruction cache. The chunk of a contraction that is too long is split, so that as much of it as fits is unrolled.
Loops around the copies of slabs stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.shape.roles import contraction_of, is_part_of
from deplodock.dialects import loop, tile
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import split_loop, unroll
from deplodock.passes.tile.instructions import Instructions
from deplodock.passes.tile.rule import LaunchRule, Skip
from deplodock.schedule.choose.sizes import LOOP_BODY


@dataclass(frozen=True)
class MarkUnrollPass(LaunchRule):
    """Mark small loops to be unrolled."""

    name = "mark-unroll"
    after = ("chunk-matmul-k", "chunk-reduce", "cooperative-reduce")
    limit: int = option(LOOP_BODY, Integers((200, 600, 1100)), "the most instructions of an unrolled loop")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        marking = Marking(rewriter, launch, self.limit)
        known = -1
        while known < marking.marked:
            known = marking.marked
            marking.mark(launch.body.block)
        if not marking.marked:
            raise Skip(f"no loop takes at most {self.limit} instructions unrolled")


class Marking:
    """Marks the loops of one launch, the innermost first."""

    def __init__(self, rewriter: PatternRewriter, launch: tile.LaunchOp, limit: int) -> None:
        self.rewriter = rewriter
        self.launch = launch
        self.limit = limit
        self.instructions = Instructions(launch)
        self.marked = 0

    def mark(self, block: Block) -> None:
        """Mark the loops of a block, and those in them."""
        for op in list(block.ops):
            if isinstance(op, loop.LoopLike):
                self.mark(op.body.block)
                self._mark_loop(op)

    def _mark_loop(self, op: loop.LoopLike) -> None:
        if op.unroll or op.trips is None or not _is_straight(op):
            return
        fits = self.limit // max(self.instructions.of_block(op.body.block), 1)
        if op.trips <= fits:
            unroll(self.rewriter, op)
            self.marked += 1
            return
        factor = max((f for f in range(2, fits + 1) if op.trips % f == 0), default=1)
        if factor > 1 and isinstance(op, loop.ReduceOp) and self._is_chunk(op):
            _, inner = split_loop(self.rewriter, op, factor)
            unroll(self.rewriter, inner)
            self.marked += 1

    def _is_chunk(self, op: loop.ReduceOp) -> bool:
        """Whether a reduction is a contraction that runs in one chunk, or a chunk of one."""
        roles = contraction_of(self.launch)
        if roles is None or not roles.reduction.is_ancestor(op):
            return False
        outer = op.parent_op()
        return op is roles.reduction or (isinstance(outer, loop.ReduceOp) and is_part_of(op, outer))


def _is_straight(op: loop.LoopLike) -> bool:
    """Whether all loops in a loop's body are unrolled and no slab is filled there."""
    return not any(
        inner.name.startswith("tile.") or (isinstance(inner, loop.LoopLike) and not inner.unroll)
        for inner in op.body.walk()
    )
