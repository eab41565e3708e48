"""The heuristic width of a kernel whose outputs are independent of each other."""

from __future__ import annotations

from deplodock.analysis.access.alignment import aligned_width
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.shape.nest import Nest
from deplodock.dialects import loop
from deplodock.schedule.choose.sizes import CTA_THREADS, VECTOR


def free_width(nest: Nest, sms: int) -> int:
    """The widest access that suits all accesses of a nest along its last free axis.

    It is 1 where the nest has loops and too few outputs to fill the GPU with a thread for every `VECTOR` of them.
    """
    if not nest.axes:
        return 1
    axis = nest.axes[-1]
    outputs = known_points(nest.axes)
    if nest.row_loops() and outputs < sms * CTA_THREADS * VECTOR:
        return 1
    widths = [VECTOR]
    for op in nest.body.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            buffer = op.source if isinstance(op, loop.LoadOp) else op.destination
            forms = subscripts_of(op)
            if any(form.depends_on(axis) for form in forms):
                widths.append(aligned_width(loop.memref_of(buffer), forms, axis, extent_or_one(axis)))
    return min(widths)
