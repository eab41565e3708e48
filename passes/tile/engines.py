"""What async-copy and tma-copy share: they say by which engine the shared slabs of a launch are filled."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import UnitAttr
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects import tile
from deplodock.dialects.tile.ring import engine_of
from deplodock.passes.tile.rule import Skip, shared_slabs


def fill_by(
    rewriter: PatternRewriter, engine: str, launch: tile.LaunchOp, refusal: Callable[[tile.StageOp], str | None]
) -> None:
    """Let an engine, `async` or `tma`, fill the shared slabs of a launch that none fills yet.

    `refusal` says why a slab stays as it is, or gives None. Raises Skip with the reasons if all do.
    """
    if not (shared := shared_slabs(launch)):
        raise Skip("no slab is staged in shared memory; run stage-inputs first")
    if not (waiting := [op for op in shared if not engine_of(op)]):
        raise Skip("the slabs are copied asynchronously already")
    refusals = {op: reason for op in waiting if (reason := refusal(op)) is not None}
    if len(refusals) == len(waiting):
        raise Skip("; ".join(dict.fromkeys(refusals.values())))
    for op in waiting:
        if op not in refusals:
            op.properties[engine] = UnitAttr()
            rewriter.notify_op_modified(op)
