"""pad-smem: pad the rows of shared slabs whose accesses collide in the banks of shared memory.

    %xs = tile.stage %x[%m_b * 32 + d0, d1]           %xs = tile.stage %x[%m_b * 32 + d0, d1]
      : .. to memref<32x32xf32, ..>             ->      : .. to memref<32x32xf32, strided<[36, 1]>, ..>
    %v = loop.load %xs[%t, %i * 4 + %r]               %v = loop.load %xs[%t, %i * 4 + %r]

Subscripts stay; only the type of the slab changes. The padding is the smallest with the fewest wavefronts for the
copies that fill the slab and for its readers, and it keeps the width of each access. All slabs with all their buffers
must fit in the shared memory of a CTA, with as many CTAs to an SM as the launch wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.banks import SlabBanks, Wavefronts
from deplodock.analysis.machine.resources import buffer_bytes, buffer_elements, shared_budget
from deplodock.analysis.machine.targets import BANK_BYTES, BANKS
from deplodock.analysis.operations import label
from deplodock.dialects import loop, tile
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.rule import LaunchRule, Skip, apply_to_any, shared_slabs


@dataclass(frozen=True)
class PadSmemPass(LaunchRule):
    """Pad the rows of shared slabs whose accesses collide in the banks of shared memory."""

    name = "pad-smem"
    after = ("stage-inputs", "tma-copy")
    pad: int | None = option(
        None, Integers((1, 2, 4)), "elements to add to each row of every slab, whether or not accesses collide"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if any(isinstance(op, tile.RingOp) for op in launch.body.walk()):
            raise Skip("the slabs are slots of a ring already; run pad-smem before pipeline-k-outer")
        shared = shared_slabs(launch)
        none = "no slab is staged in shared memory; run stage-inputs first"
        apply_to_any(shared, lambda stage: _pad_slab(rewriter, launch, stage, shared, self.pad), none)


def _pad_slab(
    rewriter: PatternRewriter,
    launch: tile.LaunchOp,
    stage: tile.StageOp,
    shared: Sequence[tile.StageOp],
    pad: int | None,
) -> str | None:
    """Pad a slab where it pays, or by `pad`. Returns the reason where it stays as it is."""
    type, name = loop.memref_of(stage.slab), label(stage.source)
    if not isinstance(type.layout, NoneAttr):
        return f"{name}: its rows are {'swizzled' if isinstance(type.layout, tile.SwizzleAttr) else 'padded'} already"
    if stage.is_tma:
        return f"{name}: it comes in boxes, whose rows lie side by side"
    if len(type.get_shape()) < 2:
        return f"{name}: its slab is a single row"
    banks = SlabBanks(launch, stage)
    room = _room(launch, stage, shared)
    if pad is not None:
        wide, reason = _best(banks, type, [pad], None, room)
    else:
        now = banks.total(type)
        if not now.has_conflicts:
            return f"{name}: no conflicts: {now}"
        period = BANKS * BANK_BYTES // element_bytes(type.element_type)
        wide, reason = _best(banks, type, range(1, period), now, room)
    if wide is None:
        return f"{name}: {reason}"
    rewriter.replace_value_with_new_type(stage.slab, wide)
    return None


def _best(
    banks: SlabBanks, type: MemRefType[Attribute], pads: Sequence[int], now: Wavefronts | None, room: int
) -> tuple[MemRefType[Attribute] | None, str]:
    """The type with the smallest padding of least wavefronts, or None and the reason.

    It must take fewer wavefronts than `now`, where that is given, and `room` bytes at most.
    """
    reason = f"rows of {type.get_shape()[-1]} + {pads[0]} elements would narrow its accesses"
    widths = banks.widths(type)
    least, best = None if now is None else now.needed, None
    for pad in pads:
        wide = padded(type, pad)
        if any(new < old for new, old in zip(banks.widths(wide), widths, strict=True)):
            continue
        if buffer_elements(wide) * element_bytes(type.element_type) > room:
            reason = f"{pad} more elements a row exceed the shared memory of a CTA"
            break
        reason = f"no padding takes fewer than {now}"
        total = banks.total(wide)
        if least is None or total.needed < least:
            best, least = wide, total.needed
        if not total.has_conflicts:
            break
    return best, reason


def padded(type: MemRefType[Attribute], pad: int) -> MemRefType[Attribute]:
    """The type of a slab with `pad` more elements between rows, of rank 2 or more."""
    shape = type.get_shape()
    strides = [1, shape[-1] + pad]
    for extent in reversed(shape[1:-1]):
        strides.append(strides[-1] * extent)
    return MemRefType(type.element_type, shape, StridedLayoutAttr(strides[::-1]), type.memory_space)


def _room(launch: tile.LaunchOp, stage: tile.StageOp, shared: Sequence[tile.StageOp]) -> int:
    """The bytes of shared memory that each buffer of a slab can take beside the other slabs."""
    others = sum(op.depth * buffer_bytes(op.slab) for op in shared if op is not stage)
    return (shared_budget(launch) - others) // stage.depth
