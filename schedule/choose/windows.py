"""The heuristic schedules of kernels with windows: those that reduce them, as pools, and depthwise convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import address, aligned_width
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import REGISTER_BYTES, WARP
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import accumulating_loops, reach, row_chain, summed_products, window_axes
from deplodock.dialects import loop
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import (
    CTA_THREADS,
    IN_FLIGHT,
    NEAR,
    VECTOR,
    WINDOW_OUTPUTS,
    WINDOW_ROWS,
    WINDOW_VALUES,
)
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


def depthwise_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options] | None:
    """The rules of a nest that multiplies windows which overlap, as a depthwise convolution, or None for any other.

    A thread computes as many neighbours as have their windows in its registers and leave every SM a CTA: `VECTOR` along
    contiguous memory, half as many where rows are odd, so that no access takes several, and rows of them. Measured on
    an H200 on windows of 3 x 3 of 16 x 144 x 57 x 57: 26.2 us with four of four rows, 21.7 with two of four, 20.3 with
    two of eight.
    """
    chains = [accumulating_loops(op) for op in nest.reductions()]
    if not chains or not all(map(summed_products, nest.reductions())):
        return None
    if any(op.trips is None for chain in chains for op in chain):
        return None
    axes, values = window_axes(nest), max(prod(op.trips or 1 for op in chain) for chain in chains)
    if not axes or values > WINDOW_VALUES or not _stores_along(nest, nest.axes[-1]):
        return None
    fill = known_points(nest.axes) // (target.fact("sms") * CTA_THREADS)
    widest = VECTOR if _stored_width(nest, nest.axes[-1]) > 1 else VECTOR // 2
    vector = next((size for size in (VECTOR, VECTOR // 2) if size <= min(fill, widest)), 1)
    others = [axis for axis in axes if axis is not nest.axes[-1]]
    rows = 1
    for size in WINDOW_ROWS if others else ():
        cells = {nest.axes[-1]: vector, others[-1]: min(size, extent_or_one(others[-1]))}
        if size * vector <= min(fill, WINDOW_OUTPUTS) and _held(nest, cells) <= WINDOW_VALUES:
            rows = size
    return {
        "tileify": {},
        "blockify-launch": {"threads": CTA_THREADS * vector * rows},
        "register-tile": {"vector": vector, "rows": rows},
        "stage-windows": {},
    }


def _stores_along(nest: Nest, axis: SSAValue) -> bool:
    """Whether all stores walk contiguous memory along an axis."""
    stores = [op for op in nest.body.walk() if isinstance(op, loop.StoreOp)]
    return all(address(loop.memref_of(op.destination), subscripts_of(op)).coefficient(axis) == 1 for op in stores)


def _stored_width(nest: Nest, axis: SSAValue) -> int:
    """The widest access along an axis that suits all stores."""
    stores = [op for op in nest.body.walk() if isinstance(op, loop.StoreOp)]
    return min(
        aligned_width(loop.memref_of(op.destination), subscripts_of(op), axis, extent_or_one(axis)) for op in stores
    )


def _held(nest: Nest, cells: Mapping[SSAValue, int]) -> int:
    """The most elements of a buffer that the windows of so many neighbours along some axes have."""
    reads = [op for op in nest.body.walk() if isinstance(op, loop.LoadOp)]
    return max(
        prod(
            1 + reach(form) + sum((count - 1) * abs(form.coefficient(axis)) for axis, count in cells.items())
            for form in subscripts_of(op)
        )
        for op in reads
    )
