"""How many iterations of a reduction have slabs that fit in shared memory."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.targets import target_of
from deplodock.analysis.shape.footprint import shared_footprint
from deplodock.dialects import loop, tile


def reduce_chunk(launch: tile.LaunchOp, reduction: loop.ReduceOp) -> int | None:
    """The most iterations of a reduction, a power of two, whose slabs fit in the shared memory of a CTA.

    All iterations where they fit together, or where nothing is known to be read; None where its bound is not constant.
    """
    module = launch.get_toplevel_object()
    if reduction.trips is None or not isinstance(module, ModuleOp):
        return None
    inside = [axis for axis in launch.axes if axis not in launch.ctas]
    per_iteration = 0
    for load in reduction.body.walk():
        if isinstance(load, loop.LoadOp) and tile.memory_of(load.source) is None:
            slab = shared_footprint(load, [reduction.iv, *inside])
            size = element_bytes(loop.memref_of(load.source).element_type)
            per_iteration += 0 if slab is None else -(-slab.elements * size // max(reduction.trips, 1))
    budget = target_of(module).fact("shared_per_block")
    if per_iteration * reduction.trips <= budget:
        return reduction.trips
    return 1 << max(budget // per_iteration, 1).bit_length() - 1
