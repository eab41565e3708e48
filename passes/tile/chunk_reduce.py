"""chunk-reduce: split the loops of a launch that is no contraction into chunks.

    %d = loop.reduce {arith.addf}            %d = loop.reduce {arith.addf} %ko = 0 to 128 : f32 {
      %k = 0 to 65536 : f32 {                  %0 = loop.reduce {arith.addf} %ki = 0 to 512 : f32 {
      ..                               ->        %k = loop.index [%ko * 512 + %ki] ..
      loop.yield %v : f32                        loop.yield %v : f32
    }                                          }
                                               loop.yield %0 : f32
                                             }

It is the edit of chunk-matmul-k: the nested reductions share their accumulators. Without a size, chunks are of
reductions alone, and the largest whose slabs fit on chip. With one, all loops over rows are split, the innermost where
a row has several: unrolled by mark-unroll, a chunk has the reads of all its elements in flight at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.roles import contraction_of, innermost_reduction, row_chain
from deplodock.dialects import loop, tile
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import split_loop
from deplodock.passes.tile.rule import LaunchRule, Skip, staged
from deplodock.schedule.choose.tiling import reduce_chunk


@dataclass(frozen=True)
class ChunkReducePass(LaunchRule):
    """Split the loops of a launch that is no contraction into chunks."""

    name = "chunk-reduce"
    after = ("cooperative-reduce",)
    size: int | None = option(
        None, Integers((2, 4, 8, 16, 32, 64)), "elements of a chunk; by default the most whose slabs fit"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        nest = launch_nest(launch)
        reductions = nest.reductions()
        if not reductions:
            raise Skip("no reduction stands in the launch")
        if contraction_of(launch) is not None:
            raise Skip("the reduction is a contraction; chunk-matmul-k divides those")
        if staged(launch):
            raise Skip("inputs are staged; chunk-reduce runs before stage-inputs")
        if self.size is None:
            sized = [(op, _fitting(launch, op)) for op in reductions]
        else:
            sized = [(row_chain(op)[-1], self.size) for op in nest.row_loops()]
        chunks = [(op, size) for op, size in sized if op.trips is not None and size < op.trips]
        if not chunks:
            raise Skip("every loop fits its chunk, or runs in chunks already")
        for op, size in chunks:
            split_loop(rewriter, op, size)


def _fitting(launch: tile.LaunchOp, op: loop.ReduceOp) -> int:
    """The chunk of a reduction whose slabs fit; all of it where it runs in chunks already."""
    trips = op.trips or 1
    return trips if innermost_reduction(op) is not op else reduce_chunk(launch, op) or trips
