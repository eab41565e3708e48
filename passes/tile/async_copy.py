"""async-copy: let shared slabs be filled beside the program, by cp.async.

    %xs = tile.stage %x[%ko * 32 + d0] buffers 3 : ..  ->  %xs = tile.stage %x[%ko * 32 + d0] buffers 3 async : ..

The copy goes from global to shared memory without registers. It is as wide as the alignment of both sides proves, up to
16 bytes, and one element where a slab is transposed on the way: elements of 4 bytes or more.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.slabs import slab_of
from deplodock.analysis.machine.targets import FIRST_ASYNC_COPIES, capability, target_at
from deplodock.analysis.operations import label
from deplodock.dialects import tile
from deplodock.dialects.kernel.move import ASYNC_BYTES
from deplodock.passes.options import OneOf, option
from deplodock.passes.tile.engines import fill_by
from deplodock.passes.tile.rule import LaunchRule, Skip


@dataclass(frozen=True)
class AsyncCopyPass(LaunchRule):
    """Fill shared slabs by asynchronous copies."""

    name = "async-copy"
    after = ("stage-inputs", "tma-copy")
    bytes: int = option(min(ASYNC_BYTES), OneOf(ASYNC_BYTES), "the narrowest copies of a thread that are worth it")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if capability(target := target_at(launch)) < FIRST_ASYNC_COPIES:
            raise Skip(f"{target.arch.data} has no asynchronous copies; they need sm_{FIRST_ASYNC_COPIES}")
        fill_by(rewriter, "async", launch, lambda op: _refusal(op, self.bytes))


def _refusal(op: tile.StageOp, narrowest: int) -> str | None:
    """Why the copy of a slab cannot be asynchronous, or None."""
    name, width = label(op.source), slab_of(op).copy_bytes()
    if width not in ASYNC_BYTES:
        return f"{name}: a thread copies {width} bytes at once; an asynchronous copy moves 4, 8 or 16"
    if width < narrowest:
        return f"{name}: a thread copies {width} bytes at once, less than {narrowest}"
    return None
