"""tma-copy: let buffered shared slabs be filled by the tensor memory accelerator.

    %ws = tile.stage %w[%n * 64 + d0, %ko * 32 + d1]         %ws = tile.stage %w[%n * 64 + d0, %ko * 32 + d1]
      buffers 3 : ..                                   ->      buffers 3 tma : ..

One thread copies boxes of the source, and their bytes complete a phase. A box keeps the order of dimensions, its rows
and those of the source are multiples of 16 bytes, and what lies outside of the source is zero. Slabs that no box can
fill stay for async-copy; on one ring some can come in boxes and others by copies of all threads. A slab that is filled
once comes in boxes where an engine alone reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.access.boxes import boxes_of
from deplodock.analysis.access.slabs import slab_of
from deplodock.analysis.machine.targets import FIRST_BOXES, capability, target_at
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import readers_of
from deplodock.dialects import loop, tile
from deplodock.dialects.kernel.tma import BOX_UNIT_BYTES
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.engines import fill_by
from deplodock.passes.tile.rule import LaunchRule, Skip


@dataclass(frozen=True)
class TmaCopyPass(LaunchRule):
    """Fill buffered shared slabs by the tensor memory accelerator."""

    name = "tma-copy"
    after = ("stage-inputs", "double-buffer")
    bytes: int = option(
        BOX_UNIT_BYTES, Integers((16, 64, 128), step=BOX_UNIT_BYTES), "the shortest rows of boxes that are worth it"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if capability(target := target_at(launch)) < FIRST_BOXES:
            raise Skip(f"{target.arch.data} has no copies of boxes; they need sm_{FIRST_BOXES}")
        fill_by(rewriter, "tma", launch, lambda op: _refusal(op, self.bytes))


def _is_of_engine(op: tile.StageOp) -> bool:
    """Whether a slab that is filled once is read by engines alone, which want it as boxes lay it out."""
    loads = [use.operation for use in op.slab.uses if isinstance(use.operation, loop.LoadOp)]
    is_refilled = any(isinstance(around, loop.LoopLike) and around.trips != 1 for around in ancestors(op))
    return not is_refilled and all(readers_of(load) != [load] for load in loads)


def _refusal(op: tile.StageOp, shortest: int) -> str | None:
    """Why a slab cannot come in boxes, or None."""
    name, type = label(op.source), loop.memref_of(op.slab)
    if op.depth == 1 and not _is_of_engine(op):
        return f"{name}: its slab has one buffer; run double-buffer first"
    if isinstance(boxes := boxes_of(slab_of(op)), str):
        return f"{name}: {boxes}"
    if (row := boxes.map.extents[-1] * element_bytes(type.element_type)) < shortest:
        return f"{name}: the rows of its boxes have {row} bytes, less than {shortest}"
    return None
