"""The heuristic schedule of a kernel that reduces windows which overlap, such as pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import REGISTER_BYTES, WARP
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import row_chain
from deplodock.dialects import loop
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import CTA_THREADS, IN_FLIGHT, NEAR
from deplodock.schedule.steps import Options


def window_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options] | None:
    """The rules of a nest that reduces windows, or None where it does not, or has too few outputs for a target.

    Windows along the contiguous dimension alone come from a slab in shared memory, which asynchronous copies fill: a
    thread has several outputs, a CTA's threads apart, so that the elements that the CTA loads once take `IN_FLIGHT`
    bytes of each thread. Windows of several dimensions are read from the L1 cache, all elements of one at once, but
    where neighbouring threads read elements that are so far apart that they share no sector.
    """
    windows = list(_windows(nest))
    fill = known_points(nest.axes) // (target.fact("sms") * CTA_THREADS)
    if not windows or not fill:
        return None
    along = [window for window in windows if window.axis is nest.axes[-1]]
    if len(windows) > 1 and all(window.step < NEAR for window in along):
        return {"tileify": {}, "blockify-launch": {"threads": CTA_THREADS}, "mark-unroll": {}}
    outputs = 1
    if len(windows) == len(along):
        while outputs < min(fill, IN_FLIGHT // REGISTER_BYTES) and 2 * outputs * WARP <= extent_or_one(nest.axes[-1]):
            outputs *= 2
    schedule: dict[str, Options] = {"tileify": {}, "blockify-launch": {"threads": CTA_THREADS * outputs}}
    schedule["stage-inputs"] = {"memory": "shared"}
    if outputs > 1:
        schedule["register-tile"] = {"vector": outputs}
        schedule["permute-register-tile"] = {"n": "strided"}
    schedule["async-copy"] = {}
    schedule["mark-unroll"] = {}
    return schedule


@dataclass(frozen=True)
class _Window:
    """A loop of a reduction that walks a dimension together with a free axis, and how far a step of the axis goes."""

    loop: loop.LoopLike
    axis: SSAValue
    step: int


def _windows(nest: Nest) -> Iterator[_Window]:
    """The windows of a nest's reductions: those that overlap, and short ones side by side."""
    seen: set[loop.LoopLike] = set()
    for op in (inner for each in nest.reductions() for inner in row_chain(each)):
        trips = op.trips or 0
        for load in [inner for inner in op.body.walk() if isinstance(inner, loop.LoadOp)]:
            for form in subscripts_of(load):
                reach = form.coefficient(op.iv) * trips
                for axis in nest.axes:
                    step = form.coefficient(axis)
                    if op not in seen and (0 < step < reach or 0 < step == reach < WARP):
                        seen.add(op)
                        yield _Window(op, axis, step)
