"""The heuristic schedule of a kernel that reduces columns along strided memory."""

from __future__ import annotations

from collections.abc import Mapping

from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.shape.nest import Nest
from deplodock.schedule.choose.flight import steps_in_flight
from deplodock.schedule.choose.sizes import CTA_THREADS, THREAD_VALUES
from deplodock.schedule.steps import Options


def column_options(nest: Nest, sms: int) -> dict[str, int | str] | None:
    """Threads for each column of a kernel that reduces along strided memory, or None if one will do.

    Neighbouring threads stay on neighbouring columns; each column gets the power of two that gives every SM two CTAs,
    while a thread keeps at least `THREAD_VALUES` elements.
    """
    extents = [op.trips for op in nest.reductions()]
    if not extents or not nest.axes or any(extent is None for extent in extents):
        return None
    outputs = known_points(nest.axes)
    threads = 1
    while threads < WARP and outputs * threads < 2 * sms * CTA_THREADS:
        if min(extent or 0 for extent in extents) < 2 * threads * THREAD_VALUES:
            break
        threads *= 2
    return {"threads": threads, "lanes": "free"} if threads > 1 else None


def column_schedule(nest: Nest, columns: dict[str, int | str]) -> Mapping[str, Options]:
    """A warp on neighbouring columns, and the loads of several rows in flight in each thread at once."""
    threads = int(columns["threads"])
    steps = steps_in_flight(nest, threads)
    schedule: dict[str, Options] = {
        "tileify": {},
        "cooperative-reduce": columns,
        "blockify-launch": {"threads": max(CTA_THREADS, WARP * threads)},
    }
    if steps > 1:
        schedule["chunk-reduce"] = {"size": steps}
    schedule["stage-inputs"] = {}
    schedule["mark-unroll"] = {}
    return schedule
