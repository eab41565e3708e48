"""stream-matmul-k: let a number of CTAs share the steps of all tiles of a contraction, so that they end together.

    tile.launch (%m_b = 4 : block, %n_b = 28 : block, ..) {   ->   tile.launch (.. : block, ..) stream 262 {
      ..                                                             ..
      %acc = loop.reduce {arith.addf} %ko = 0 to 112 : f32 {
      ..

The steps of the tiles, in the order of the block axes, follow each other in one line, and each CTA runs a stretch of
it, all of one length: 48 of the 112 * 112 steps above, where 112 CTAs of a tile each would leave SMs idle. A CTA goes
on with the ring of its slabs from tile to tile. Where a tile has parts of several CTAs, the last of them to arrive adds
the parts, in their order, so that results do not depend on timing, and does what follows the contraction.

With `unit=tile` each CTA takes whole tiles: persistent CTAs, as few as need no more turns. They take tiles as far apart
as there are CTAs, so that those of one turn are neighbours and meet in the L2 cache as the CTAs of a wave do.

The body stays that of a tile: `stream` says who runs what, and `expand-launch` makes the loop of a CTA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import ConstantLike

from deplodock.analysis.affine.linear import known_points, subscripts_of
from deplodock.analysis.operations import label
from deplodock.analysis.order.rings import step_of
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.roles import contraction_of
from deplodock.analysis.shape.shares import Shares
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import has_inactive_tiles
from deplodock.passes.tile.rule import LaunchRule, Skip, folded, require_constant

Unit = Literal["step", "tile"]


@dataclass(frozen=True)
class StreamMatmulKPass(LaunchRule):
    """Let a number of CTAs share the steps of all tiles of a contraction."""

    name = "stream-matmul-k"
    after = ("blockify-launch", "pipeline-k-outer")
    ctas: int | None = option(
        None, Integers((2, 3, 5, 7, 132, 264)), "the most CTAs; without it each CTA runs a tile, or a part of one"
    )

    unit: Unit = option("step", Unit, "what CTAs share: the steps of all tiles, or whole tiles")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if launch.stream is not None:
            raise Skip("CTAs share the steps of all tiles already")
        if (roles := contraction_of(launch)) is None:
            raise Skip("no reduction of the launch is a contraction")
        reduction, steps = roles.reduction, roles.reduction.trips
        if not launch.bound_to(Binding.BLOCK):
            raise Skip("the launch has no block axes; run blockify-launch first")
        if launch.bound_to(Binding.CLUSTER) or any(axis in folded(launch) for axis in launch.ctas):
            raise Skip("k is shared by CTAs already")
        require_constant(launch, launch.axes)
        if steps is None:
            raise Skip(f"the bound of the loop over {label(reduction.iv)} is not constant")
        ring = _ring(launch, reduction)
        _check_points(launch)
        _check_before(launch, reduction)
        _check_slots(reduction)
        if self.ctas is None:
            raise Skip("each CTA runs a tile")
        shares = Shares(known_points(launch.ctas), steps, self.ctas, self.unit == "tile")
        if shares.length < (depth := ring.depth.value.data):
            raise Skip(
                f"{self.ctas} CTAs would run {shares.length} steps each, and the ring has {depth} slots; take fewer"
            )
        launch.stream = IntegerAttr(shares.busy, i64)
        launch.takes_tiles = UnitAttr() if shares.takes_tiles else None
        rewriter.notify_op_modified(launch)


def _ring(launch: tile.LaunchOp, reduction: loop.ReduceOp) -> tile.RingOp:
    """The ring of a launch, which its reduction reads. Raises Skip if it has none, or slabs besides."""
    rings = [op for op in launch.body.walk() if isinstance(op, tile.RingOp)]
    waits = [op for op in reduction.body.block.ops if isinstance(op, tile.WaitOp)]
    if not waits:
        raise Skip("no ring holds the slabs of the contraction; run pipeline-k-outer first")
    others = [op for op in launch.body.walk() if isinstance(op, tile.StageOp | tile.KeepOp)]
    if len(rings) > 1 or others:
        raise Skip("the launch has slabs besides those on the ring of the contraction")
    return rings[0]


def _check_points(launch: tile.LaunchOp) -> None:
    """Raises Skip where whole tiles may be inactive."""
    if has_inactive_tiles(launch):
        raise Skip("some tiles may have no active point, and their steps would count")


def _check_before(launch: tile.LaunchOp, reduction: loop.ReduceOp) -> None:
    """Raises Skip if more than copies of the first steps stands before a reduction: it is of one tile."""
    plain = (loop.IndexOp, loop.WhereOp, tile.RingOp, tile.AllocOp)
    for op in launch.body.block.ops:
        if op is reduction:
            return
        inner = list(op.body.block.ops) if isinstance(op, loop.ForOp) else [op]
        copies = [step for step in inner if isinstance(step, tile.CopyOp)]
        if any(len(step_of(copy).terms) != 1 for copy in copies):
            raise Skip("a copy before the loop is of one step alone")
        rest = [step for step in inner if step not in copies]
        if not all(isinstance(step, plain) or step.has_trait(ConstantLike) for step in rest):
            what = f"{op.name} of {label(op.results[0])}" if op.results else op.name
            raise Skip(f"{what} stands before the contraction, and a CTA goes on from tile to tile after it")


def _check_slots(reduction: loop.ReduceOp) -> None:
    """Raises Skip if an element of a slot depends on the step: slots go on where steps start anew with a tile."""
    if wheres(reduction.body.block):
        raise Skip(f"the loop over {label(reduction.iv)} has a loop.where of its own, so not every step counts")
    for op in reduction.body.walk():
        if isinstance(op, loop.LoadOp) and isinstance(op.source.owner, tile.AllocOp):
            _, *inside = subscripts_of(op)
            if any(form.depends_on(reduction.iv) for form in inside):
                raise Skip(f"where {label(op.result)} lies in a slot depends on {label(reduction.iv)}")
