"""chunk-reduce: split a reduction that is no contraction into chunks, so that the slabs of one chunk fit on chip.

    %d = loop.reduce {arith.addf}            %d = loop.reduce {arith.addf} %ko = 0 to 128 : f32 {
      %k = 0 to 65536 : f32 {                  %0 = loop.reduce {arith.addf} %ki = 0 to 512 : f32 {
      ..                               ->        %k = loop.index [%ko * 512 + %ki] ..
      loop.yield %v : f32                        loop.yield %v : f32
    }                                          }
                                               loop.yield %0 : f32
                                             }

It is the edit of chunk-matmul-k: the nested reductions share their accumulators.
"""

from __future__ import annotations

from dataclasses import dataclass

from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.roles import contraction_of, innermost_reduction
from deplodock.dialects import loop, tile
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import split_loop
from deplodock.passes.tile.rule import LaunchRule, Skip, staged
from deplodock.schedule.choose.slabs import reduce_chunk


@dataclass(frozen=True)
class ChunkReducePass(LaunchRule):
    """Split reductions that are no contraction into chunks whose slabs fit in shared memory."""

    name = "chunk-reduce"
    after = ("cooperative-reduce",)
    size: int | None = option(
        None, Integers((4, 8, 16, 32, 64)), "elements of a chunk; by default the most whose slabs fit"
    )

    def rewrite_launch(self, launch: tile.LaunchOp) -> None:
        _chunk_launch(launch, self.size)


def _chunk_launch(launch: tile.LaunchOp, wanted: int | None) -> None:
    nest = launch_nest(launch)
    reductions = nest.reductions()
    if not reductions:
        raise Skip("no reduction stands in the launch")
    if contraction_of(launch) is not None:
        raise Skip("the reduction is a contraction; chunk-matmul-k divides those")
    if staged(launch):
        raise Skip("inputs are staged; chunk-reduce runs before stage-inputs")
    sizes = [_size(launch, op, wanted) for op in reductions]
    if not any(sizes):
        raise Skip("every reduction fits its chunk, or runs in chunks already")
    for op, size in zip(reductions, sizes, strict=True):
        if size is not None:
            split_loop(op, size)


def _size(launch: tile.LaunchOp, op: loop.ReduceOp, wanted: int | None) -> int | None:
    """The chunk of a reduction, or None where it stays whole."""
    if op.trips is None or innermost_reduction(op) is not op:
        return None
    size = wanted or reduce_chunk(launch, op) or op.trips or 1
    return size if size < op.trips else None
