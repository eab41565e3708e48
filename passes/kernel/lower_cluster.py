"""Lowers `tile.combine` over cluster axes: each CTA of a cluster folds the parts of some threads, and finishes those.

    %acc = tile.combine {arith.addf} %p          %part = kernel.alloc : memref<16x128xf32, #tile.memory<shared>>
      over (%s) : f32                            loop.store %p, %part[%r, %thread]
    loop.store %acc, %out[%m, %n]          ->    kernel.cluster_barrier
                                                 loop.guard where (%thread < %s * 32 + 32, %s * 32 < %thread + 1) {
                                                   ..  kernel.cluster_load %part[%r, %thread] of %rank  ..
                                                 }
                                                 kernel.cluster_barrier
                                                 loop.guard where (%thread < %s * 32 + 32, %s * 32 < %thread + 1) {
                                                   loop.store %acc, %out[%m, %n]
                                                 }

The parts are folded in the order of their ranks. The second barrier keeps all CTAs until nobody reads their memory.
What follows runs in all CTAs, so that it may hold what all threads must reach, but only the folded values are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import Linear
from deplodock.dialects import kernel, tile
from deplodock.dialects.interfaces import Place
from deplodock.dialects.tile import Memory
from deplodock.passes.kernel.builder import Condition
from deplodock.passes.kernel.emit import Emitter, Held
from deplodock.passes.kernel.parts import fold_parts, leave_parts, place_of


def fold_cluster(emitter: Emitter, op: tile.CombineOp, ranks: Sequence[SSAValue], held: Sequence[Held]) -> list[Held]:
    """Fold the values held in all CTAs of a cluster.

    From now on each thread's stores happen in one CTA. Returns the results as they are held; in other CTAs they are
    unspecified.
    """
    kept, thread, threads = emitter.axes_of(op.results), emitter.thread, emitter.threads
    count = math.prod(emitter.extent(axis) for axis in ranks)
    shape = [*(emitter.extent(axis) for axis in kept), threads]
    buffers = [emitter.allocate(result.type, shape, Memory.SHARED, "part") for result in op.results]

    def place() -> Place:
        return emitter.map([*kept, thread])

    def read(rank: Linear) -> list[SSAValue]:
        return [emitter.add(kernel.ClusterLoadOp(buffer, place(), emitter.map([rank]))) for buffer in buffers]

    leave_parts(emitter, held, buffers, kept, place)
    emitter.run(kernel.ClusterBarrierOp())
    arrays = emitter.accumulators(op, kept)
    own = _own_threads(place_of(emitter, ranks), thread, -(-threads // count))
    with emitter.guarded(own):
        fold_parts(emitter, op, arrays, (count, "rank"), read)
    emitter.run(kernel.ClusterBarrierOp())
    emitter.own = own
    emitter.elected |= set(ranks)
    return list(arrays) if kept else [emitter.load(array) for array in arrays]


def _own_threads(rank: Linear, thread: SSAValue, share: int) -> list[Condition]:
    """That a thread is among those that the CTA of a rank finishes, `share` of them."""
    first, own = rank * share, Linear.of(thread)
    return [own - first - share, first - own - 1]
