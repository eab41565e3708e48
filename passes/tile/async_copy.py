"""t:013 async-copy: let shared slabs be filled beside the program, by cp.async.

    %xs = tile.stage %x[%ko * 32 + d0] buffers 3 : ..  ->  %xs = tile.stage %x[%ko * 32 + d0] buffers 3 async : ..

The copy goes from global to shared memory without registers. It is as wide as the alignment of both sides proves, up to
16 bytes, and 4 bytes an element where a slab is transposed on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.alignment import element_bytes
from deplodock.analysis.schedule import Options
from deplodock.analysis.slabs import Slab
from deplodock.analysis.targets import capability, target_of
from deplodock.dialects import loop, tile
from deplodock.dialects.kernel import ASYNC_BYTES
from deplodock.dialects.tile import Memory
from deplodock.dialects.tile_ring import engine_of
from deplodock.passes.tile.rule import Skip, apply_rule, each_launch, positive

FIRST_ARCH = 80
"""The first compute capability with cp.async (PTX ISA, `cp.async`: target sm_80 or higher)."""


@dataclass(frozen=True)
class AsyncCopyPass(ModulePass):
    """Fill shared slabs by asynchronous copies.

    Parameters:
        bytes: the narrowest copies of a thread that are worth it: 4, 8 or 16.
    """

    name = "async-copy"
    bytes: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_rule(self, op, async_copy)


def async_copy(function: func.FuncOp, options: Options) -> None:
    """Make the shared slabs of every launch asynchronous; Skip with the reasons if none can be."""
    narrowest = positive(options, "bytes", min(ASYNC_BYTES))
    if narrowest not in ASYNC_BYTES:
        raise PassFailedException(f"the option bytes must be 4, 8 or 16, got {narrowest}")
    each_launch(function, lambda launch: _narrow(launch, narrowest))


def _narrow(launch: tile.LaunchOp, narrowest: int) -> None:
    module = launch.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    target = target_of(module)
    if capability(target) < FIRST_ARCH:
        raise Skip(f"{target.arch.data} has no asynchronous copies; they need sm_{FIRST_ARCH}")
    stages = [op for op in launch.body.walk() if isinstance(op, tile.StageOp)]
    shared = [op for op in stages if tile.memory_of(op.slab) is Memory.SHARED]
    if not shared:
        raise Skip("no slab is staged in shared memory; run stage-inputs first")
    if not (waiting := [op for op in shared if not engine_of(op)]):
        raise Skip("the slabs are copied asynchronously already")
    refusals = {op: reason for op in waiting if (reason := _refusal(op, narrowest)) is not None}
    if len(refusals) == len(waiting):
        raise Skip("; ".join(dict.fromkeys(refusals.values())))
    for op in waiting:
        if op not in refusals:
            op.properties["async"] = UnitAttr()


def _refusal(op: tile.StageOp, narrowest: int) -> str | None:
    """Why the copy of a slab cannot be asynchronous, or None."""
    slab = Slab(op.source, op.map.data, op.indices, op.slab, loop.memref_of(op.slab).get_shape())
    name, size = f"%{op.source.name_hint or '?'}", element_bytes(slab.type.element_type)
    if size not in ASYNC_BYTES:
        return f"{name}: elements of {size} bytes; a copy moves 4, 8 or 16"
    if (width := slab.copy_width() * size) < narrowest:
        return f"{name}: a thread copies {width} bytes at once, less than {narrowest}"
    return None
