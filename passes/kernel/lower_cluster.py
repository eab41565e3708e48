"""Lowers `tile.combine` over cluster axes: CTAs of a cluster fold each other's parts, and each finishes its share.

    %acc = tile.combine {arith.addf} %p          %part = kernel.alloc : memref<16x128x4xf32, #tile.memory<shared>>
      over (%s) at (%j = %l * 4 + %i) : f32      kernel.move 4 %packed[0] to %part[%j, %thread, 0]
    loop.store %acc, %out[%m, %l * 16 + ..]  ->  kernel.cluster_barrier
                                                 ..  kernel.cluster_move 4 %part[%s * 4 + %i, %thread, 0] of %part ..
                                                 kernel.cluster_barrier
                                                 loop.store %acc, %out[%m, %s * 16 + ..]

The parts are folded in the order of their ranks. The second barrier keeps all CTAs until nobody reads their memory.

Without `at` a CTA folds the parts of some warps. What follows runs in all CTAs, so that it may hold what all threads
must reach, but only the folded values are stored:

    loop.guard where (%thread < %s * 32 + 32, %s * 32 < %thread + 1) {
      loop.store %acc, %out[%m, %n]
    }
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import Linear, forms_of
from deplodock.analysis.machine.targets import WARP
from deplodock.dialects import kernel, tile
from deplodock.dialects.tile import Memory
from deplodock.passes.kernel.builder import Condition
from deplodock.passes.kernel.emit import Array, Emitter, Held
from deplodock.passes.kernel.parts import Element, Parts, place_of
from deplodock.passes.kernel.workspace import part_shape


def fold_cluster(emitter: Emitter, op: tile.CombineOp, ranks: Sequence[SSAValue], held: Sequence[Held]) -> list[Held]:
    """Fold the values held in all CTAs of a cluster.

    From now on each CTA goes on with its share of them, or each thread's stores happen in one CTA. Returns the results
    as they are held; in other CTAs they are unspecified.
    """
    left = held[0].axes if isinstance(held[0], Array) else ()
    kept = emitter.axes_of(op.results)
    count = math.prod(emitter.extent(axis) for axis in ranks)
    types = [result.type for result in op.results]
    shape = part_shape([emitter.extent(axis) for axis in left], types, emitter.threads)
    buffers = [emitter.allocate(type, shape, Memory.SHARED, "part") for type in types]
    parts = Parts(emitter, buffers, left)
    taken = dict(zip(op.at.moved, forms_of(op.at.map, op.at.axes), strict=True))

    def read(buffer: SSAValue, rank: Linear, to: Element) -> None:
        emitter.run(kernel.ClusterMoveOp(parts.width, (buffer, *parts.at([], taken)), emitter.map([rank]), to))

    parts.leave(held, [])
    emitter.run(kernel.ClusterBarrierOp())
    arrays = emitter.accumulators(op, kept)
    # Whole warps: what follows may exchange values between the lanes of a warp.
    share = -(-emitter.threads // (count * WARP)) * WARP
    own = [] if taken else _own_threads(place_of(emitter, ranks), emitter.thread, share)
    with emitter.guarded(own):
        parts.fold(op, arrays, count, read)
    emitter.run(kernel.ClusterBarrierOp())
    emitter.own = own
    emitter.elected |= set(ranks)
    return list(arrays) if kept else [emitter.load(array) for array in arrays]


def _own_threads(rank: Linear, thread: SSAValue, share: int) -> list[Condition]:
    """That a thread is among those that the CTA of a rank finishes, `share` of them."""
    first, own = rank * share, Linear.of(thread)
    return [own - first - share, first - own - 1]
