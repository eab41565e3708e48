"""Lowers `tile.combine` over block axes: CTAs leave their parts in memory, the last of them goes on with their fold.

    %acc = tile.combine {arith.addf} %p          loop.store %p, %acc_part[%tile, %s, %r, %thread]
      over (%s) : f32                            kernel.fence
    loop.store %acc, %out[%m, %n]          ->    %last = kernel.ticket %turns[%tile] of 4
                                                 loop.guard where (0 < %last) {
                                                   kernel.fence
                                                   ..                     // folds the 4 parts in order
                                                   loop.store %acc, %out[%m, %n]
                                                 }

The parts of neighbouring threads are neighbours in memory. They are folded in the order of the axis, whoever comes
last, so results do not depend on timing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.affine.linear import Linear
from deplodock.dialects import kernel, loop, tile
from deplodock.passes.kernel.emit import Emitter, Held
from deplodock.passes.kernel.lower_access import move
from deplodock.passes.kernel.parts import Element, Parts, place_of


def fold_blocks(emitter: Emitter, op: tile.CombineOp, blocks: Sequence[SSAValue], held: Sequence[Held]) -> list[Held]:
    """Leave the values held in memory and fold those of all CTAs along some block axes.

    What is emitted from now on runs in the last of those CTAs alone. Returns the results as they are held.
    """
    workspace, kept = emitter.workspaces[op], emitter.axes_of(op.results)
    others = [axis for axis in emitter.launch.ctas if axis not in blocks]
    tile_place, count = place_of(emitter, others), math.prod(emitter.extent(axis) for axis in blocks)

    parts = Parts(emitter, workspace.parts, kept)

    def read(buffer: SSAValue, part: Linear, to: Element) -> None:
        move(emitter, parts.width, (buffer, *parts.at([tile_place, part])), to)

    parts.leave(held, [tile_place, place_of(emitter, blocks)])
    elect_last(emitter, workspace.counters, tile_place, Linear(constant=count))
    emitter.elected |= set(blocks)
    arrays = emitter.accumulators(op, kept)
    parts.fold(op, arrays, count, read)
    return list(arrays) if kept else [emitter.load(array) for array in arrays]


def elect_last(emitter: Emitter, counters: SSAValue, counter: Linear, ctas: Linear) -> None:
    """Emit for the last of some CTAs only from now on, which sees what all of them did."""
    emitter.run(kernel.FenceOp())
    last = emitter.add(kernel.TicketOp(counters, emitter.map([counter]), emitter.map([ctas])), "last")
    comes_last = AffineMap(1, 0, (AffineExpr.constant(0), AffineExpr.dimension(0)))
    body = Block()
    emitter.run(loop.GuardOp(comes_last, [last], Region(body)))
    emitter.block = body
    emitter.run(kernel.FenceOp())
