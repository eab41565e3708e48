"""What combines over block and cluster axes share: CTAs leave their parts in memory, and fold those of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import Linear
from deplodock.dialects import loop, tile
from deplodock.dialects.interfaces import Place
from deplodock.passes.kernel.emit import Array, Emitter, Held

PARTS_AT_ONCE = 256
"""The most parts of other CTAs that a thread reads in unrolled code; of more, it reads those of one CTA at once."""


def place_of(emitter: Emitter, axes: Sequence[SSAValue]) -> Linear:
    """The linear coordinate of some axes, the last one fastest."""
    place, stride = Linear(), 1
    for axis in reversed(axes):
        place, stride = Linear.of(axis, stride) + place, stride * emitter.extent(axis)
    return place


def leave_parts(
    emitter: Emitter,
    held: Sequence[Held],
    buffers: Sequence[SSAValue],
    kept: Sequence[SSAValue],
    place: Callable[[], Place],
) -> None:
    """Store values to a buffer each, at all coordinates of the kept register axes."""
    with emitter.nest(kept):
        for value, buffer in zip(held, buffers, strict=True):
            emitter.run(loop.StoreOp(emitter.read(value), buffer, *place()))


def fold_parts(
    emitter: Emitter,
    op: tile.CombineOp,
    arrays: Sequence[Array],
    loop_over: tuple[int, str],
    read: Callable[[Linear], Sequence[SSAValue]],
) -> None:
    """Fold the parts of so many CTAs into accumulators, in order; `read` emits the reads of the parts of one."""
    (count, name), kept, outer = loop_over, arrays[0].axes, emitter.block
    cells = math.prod(emitter.extent(axis) for axis in kept)
    cta = Linear.of(emitter.enter_loop(count, name, unroll=count * cells <= PARTS_AT_ONCE))
    with emitter.nest(kept):
        emitter.fold_into(arrays, op.combiner, read(cta))
    emitter.block = outer
