"""double-buffer: give the slabs that a reduction fills in each step several buffers.

    %acc = loop.reduce {arith.addf}              %acc = loop.reduce {arith.addf}
      %ko = 0 to 112 : f32 {                       %ko = 0 to 112 : f32 {
      %xs = tile.stage %x[%ko * 32 + d0]    ->     %xs = tile.stage %x[%ko * 32 + d0] buffers 3
        : .. to memref<32xf32, ..>                   : .. to memref<32xf32, ..>
      ..                                           ..

The depth is what pipeline-k-outer makes a ring of. All buffers must fit in the shared memory of a CTA, with the padding
of their layouts and as many CTAs to an SM as the launch wants.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.machine.resources import buffer_bytes, shared_budget
from deplodock.analysis.order.rings import staged_loops
from deplodock.dialects import tile
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.rule import LaunchRule, Skip, shared_slabs
from deplodock.schedule.choose.sizes import PIPELINE_DEPTH


@dataclass(frozen=True)
class DoubleBufferPass(LaunchRule):
    """Give the slabs that a reduction fills in each step several buffers."""

    name = "double-buffer"
    after = ("stage-inputs",)
    depth: int = option(PIPELINE_DEPTH, Integers((2, 3, 4)), "buffers of each slab; at most the steps of the reduction")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        found = staged_loops(launch)
        if not found:
            raise Skip("no reduction fills a shared slab in each step; run stage-inputs first")
        if self.depth == 1:
            raise Skip("depth 1 is what a slab has without this rule")
        depths = {
            stage: self.depth if reduction.trips is None else min(self.depth, reduction.trips)
            for reduction, stages in found
            for stage in stages
            if stage.buffers is None
        }
        if not depths:
            raise Skip("the slabs have several buffers already")
        deeper = {stage: slots for stage, slots in depths.items() if slots > 1}
        if not deeper:
            raise Skip("the reductions that fill slabs have a single step")
        _check_budget(launch, deeper)
        for stage, slots in deeper.items():
            stage.properties["buffers"] = IntegerAttr(slots, i64)
            rewriter.notify_op_modified(stage)


def _check_budget(launch: tile.LaunchOp, deeper: dict[tile.StageOp, int]) -> None:
    """Skip if the slabs of a launch at these depths exceed the shared memory of a CTA."""
    budget, slabs = shared_budget(launch), shared_slabs(launch)
    single = sum(buffer_bytes(op.slab) for op in slabs)
    total = sum(buffer_bytes(op.slab) * deeper.get(op, op.depth) for op in slabs)
    if total > budget:
        raise Skip(
            f"{max(deeper.values())} buffers take {total} bytes of shared memory, one of each {single}; "
            f"a CTA has {budget} where {launch.ctas_per_sm} share an SM"
        )
