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

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.linear import Linear, fold_value
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Memory
from deplodock.passes.kernel.emit import PARTS_AT_ONCE, Array, Condition, Emitter, place_of


def fold_cluster(
    emitter: Emitter, op: tile.CombineOp, ranks: Sequence[SSAValue], held: Sequence[Array | SSAValue]
) -> list[Array | SSAValue]:
    """Fold the values held in all CTAs of a cluster.

    From now on each thread's stores happen in one CTA. Returns the results as they are held; in other CTAs they are
    unspecified.
    """
    kept, thread, threads = emitter.axes_of(op.results), emitter.function.thread_id, emitter.function.num_threads
    count, cells = (math.prod(emitter.extent(axis) for axis in axes) for axes in (ranks, kept))
    shape = [*(emitter.extent(axis) for axis in kept), threads]
    types = (MemRefType(result.type, shape, memory_space=tile.MemoryAttr(Memory.SHARED)) for result in op.results)
    buffers = [emitter.add(kernel.AllocOp(type), "part") for type in types]

    def place() -> tuple[AffineMap, list[SSAValue]]:
        return emitter.map([*(fold_value(axis) for axis in kept), Linear.of(thread)])

    with emitter.nest(kept):
        for value, buffer in zip(held, buffers, strict=True):
            stored = emitter.load(value, None) if isinstance(value, Array) else value
            emitter.run(loop.StoreOp(stored, buffer, *place()))
    emitter.run(kernel.ClusterBarrierOp())
    arrays = [emitter.register(result.type, kept, result.name_hint) for result in op.results]
    own = _own_threads(place_of(emitter, ranks), thread, -(-threads // count))
    with emitter.nest(kept):
        for array, identity in zip(arrays, op.identities, strict=True):
            emitter.store(emitter.literal(identity), array)
    with emitter.guarded(own):
        outer = emitter.block
        rank = emitter.map([Linear.of(emitter.enter_loop(count, "rank", unroll=count * cells <= PARTS_AT_ONCE))])
        with emitter.nest(kept):
            parts = [emitter.add(kernel.ClusterLoadOp(buffer, place(), rank)) for buffer in buffers]
            results = emitter.combine(op.combiner, [emitter.load(array, None) for array in arrays], parts)
            for value, array in zip(results, arrays, strict=True):
                emitter.store(value, array)
        emitter.block = outer
    emitter.run(kernel.ClusterBarrierOp())
    emitter.own = own
    emitter.elected |= set(ranks)
    return list(arrays) if kept else [emitter.load(array, None) for array in arrays]


def _own_threads(rank: Linear, thread: SSAValue, share: int) -> list[Condition]:
    """That a thread is among those that the CTA of a rank finishes, `share` of them."""
    first, own = rank * share, Linear.of(thread)
    return [own - first - share, first - own - 1]
