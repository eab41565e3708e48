"""start-early: let a launch start while the launches before it still run, and wait for them on the GPU.

    tile.launch (%m = 28 : block, %d = 128 : thread) {   ->   tile.launch (%m = 28 : block, %d = 128 : thread) early {
      ..                                                        ..

What the GPU does between two launches, to see that one has ended and to start the CTAs of the next, then is done while
the first one runs (CUDA: programmatic dependent launch). The kernel begins with `kernel.await_launches`, before it
touches memory: it waits there until all launches before have ended, so their results are seen as ever. Then the next
launch may start, if it is early, too.

That pays where launches are short. The CTAs that wait take their share of an SM, so those of a launch that fills the
GPU may find the SMs unevenly free.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects import tile
from deplodock.dialects.interfaces import Feature
from deplodock.passes.tile.rule import LaunchRule, Skip, require_feature


@dataclass(frozen=True)
class StartEarlyPass(LaunchRule):
    """Let a launch start while the launches before it still run, and wait for them on the GPU."""

    name = "start-early"

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if launch.early is not None:
            raise Skip("it starts early already")
        require_feature(launch, Feature.EARLY_LAUNCHES)
        launch.early = UnitAttr()
        rewriter.notify_op_modified(launch)
