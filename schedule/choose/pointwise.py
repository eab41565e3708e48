"""The heuristics of a kernel whose outputs are independent of each other."""

from __future__ import annotations

from collections.abc import Mapping

from deplodock.analysis.access.alignment import address, aligned_width
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import WARP, has_feature
from deplodock.analysis.shape.nest import Nest
from deplodock.dialects import loop, math_ext
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import CTA_THREADS, VECTOR, cta_rules, holds_row, is_read_again, steps_in_flight
from deplodock.schedule.steps import Options

APART = 4
"""Outputs of a thread, a CTA's threads apart, where no access takes several neighbours: a GPU starts a CTA each 0.6 ns,
and one of 256 threads with an output each moves too little in that time. Measured on an H200 on the batch norm of
24 x 100 x 37 x 37, of images of 37 x 37: 54.1, 20.8 and 14.4 us in CTAs of 37, 111 and 222 outputs, 9.5 in CTAs of 703,
four of a thread."""

SM_CTAS = 8
"""The CTAs of `CTA_THREADS` that an SM holds."""

LOW_WIDTH = 2
"""The least width where a low part is stored: on an H200 that of 256x2048 takes 0.1 us less in all threads that the
SMs hold, 2 elements each, than in half as many, and 1.2 us more in twice as many."""


def point_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options]:
    """The rules of a nest whose outputs have a thread each, or several of a thread."""
    sms = target.fact("sms")
    vector = free_width(nest, sms)
    apart = apart_schedule(nest, sms) if vector == 1 else None
    cta = cta_rules(CTA_THREADS * vector, steps_in_flight(nest, width=vector), vector)
    return {**(apart or {"tileify": {}, **cta}), **early_options(nest, target)}


def early_options(nest: Nest, target: TargetAttr) -> dict[str, dict[str, int | str]]:
    """That a kernel starts early which stores the low part of a factor: the product behind it does, too.

    On an H200 32x2048x2048 in parts of FP32 takes 11.9 us without and 10.6 us with that.
    """
    is_early = _stores_low_part(nest) and has_feature(target, Feature.EARLY_LAUNCHES)
    return {"start-early": {}} if is_early else {}


def free_width(nest: Nest, sms: int) -> int:
    """The widest access that suits all accesses of a nest along its last free axis.

    It is over `VECTOR` where a thread for so many outputs fills the GPU, and 1 where the nest has loops and not even
    one for every `VECTOR` does. Low parts are stored in as many threads as SMs hold. Columns that are read again, and
    that a thread holds in registers, stay there: so many of them as it holds.
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
    if is_read_again(nest) and holds_row(nest):
        while not holds_row(nest, width=width):
            width //= 2
    return width


def apart_schedule(nest: Nest, sms: int) -> Mapping[str, Options] | None:
    """The schedule of a nest without loops whose threads have `APART` outputs each, or None where they do not.

    Those fill the GPU, a row has a warp's outputs, and all accesses that depend on the last free axis walk contiguous
    memory along it. So the L1 cache has what rows share, such as a bias, and nothing is staged.
    """
    fill = known_points(nest.axes) // (sms * CTA_THREADS)
    if not nest.axes or nest.row_loops() or fill < APART or extent_or_one(nest.axes[-1]) < WARP:
        return None
    accesses = [op for op in nest.body.walk() if isinstance(op, loop.LoadOp | loop.StoreOp)]
    buffers = [op.source if isinstance(op, loop.LoadOp) else op.destination for op in accesses]
    places = [address(loop.memref_of(buffer), subscripts_of(op)) for op, buffer in zip(accesses, buffers, strict=True)]
    if any(place.depends_on(nest.axes[-1]) and place.coefficient(nest.axes[-1]) != 1 for place in places):
        return None
    return {
        "tileify": {},
        "blockify-launch": {"threads": CTA_THREADS * APART},
        "register-tile": {"vector": APART},
        "permute-register-tile": {"n": "strided"},
    }


def _stores_low_part(nest: Nest) -> bool:
    """Whether a nest computes what TF32 leaves of a factor."""
    return any(isinstance(op, math_ext.LowPartOp) for op in nest.body.walk())
