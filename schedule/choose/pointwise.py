"""The heuristics of a kernel whose outputs are independent of each other."""

from __future__ import annotations

from deplodock.analysis.access.alignment import aligned_width
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import has_feature
from deplodock.analysis.shape.nest import Nest
from deplodock.dialects import loop, math_ext
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import CTA_THREADS, VECTOR

SM_CTAS = 8
"""The CTAs of `CTA_THREADS` that an SM holds."""

LOW_WIDTH = 2
"""The least width where a low part is stored: on an H200 that of 256x2048 takes 0.1 us less in all threads that the
SMs hold, 2 elements each, than in half as many, and 1.2 us more in twice as many."""


def early_options(nest: Nest, target: TargetAttr) -> dict[str, dict[str, int | str]]:
    """That a kernel starts early which stores the low part of a factor: the product behind it does, too.

    On an H200 32x2048x2048 in parts of FP32 takes 11.9 us without and 10.6 us with that.
    """
    is_early = _stores_low_part(nest) and has_feature(target, Feature.EARLY_LAUNCHES)
    return {"start-early": {}} if is_early else {}


def free_width(nest: Nest, sms: int) -> int:
    """The widest access that suits all accesses of a nest along its last free axis.

    It is over `VECTOR` where a thread for so many outputs fills the GPU, and 1 where the nest has loops and not even
    one for every `VECTOR` does. Low parts are stored in as many threads as SMs hold.
    """
    if not nest.axes:
        return 1
    axis = nest.axes[-1]
    fill = known_points(nest.axes) // (sms * CTA_THREADS)
    if nest.row_loops() and fill < VECTOR:
        return 1
    widths: list[int] = []
    for op in nest.body.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            buffer = op.source if isinstance(op, loop.LoadOp) else op.destination
            forms = subscripts_of(op)
            if any(form.depends_on(axis) for form in forms):
                widths.append(aligned_width(loop.memref_of(buffer), forms, axis, extent_or_one(axis)))
    width = min(widths, default=VECTOR)
    most = max(LOW_WIDTH, -(-fill // SM_CTAS)) if _stores_low_part(nest) else max(VECTOR, fill)
    while width > most:
        width //= 2
    return width


def _stores_low_part(nest: Nest) -> bool:
    """Whether a nest computes what TF32 leaves of a factor."""
    return any(isinstance(op, math_ext.LowPartOp) for op in nest.body.walk())
