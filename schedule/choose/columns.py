"""The heuristic schedule of a kernel that reduces columns along strided memory."""

from __future__ import annotations

from collections.abc import Mapping

from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.shape.nest import Nest
from deplodock.schedule.choose.flight import steps_in_flight
from deplodock.schedule.choose.sizes import CTA_THREADS, THREAD_VALUES
from deplodock.schedule.steps import Options

LONG = 512
"""The least elements of a column for each of its threads, so that these level out the last wave of CTAs. Measured on an
H200 on 128 x 4096 x 4095 along the middle: 2,361 us with 4 threads for a column, 128 columns of a CTA and 16 loads at
once, 2,534 with a thread for each, in two waves; 2,589 with 8 threads and 32 columns."""

WAVES = 4
"""The least waves of CTAs for long columns."""

SM_THREADS = 2048
"""The threads of a full SM."""

MOST_THREADS = 1024
"""The most threads of a CTA."""

LONG_COLUMNS = 128
"""Neighbouring columns of a CTA where they are long, so that it reads 512 bytes of each row."""

LONG_IN_FLIGHT = 2
"""How many times the loads of others a thread of a long column has in flight."""


def column_options(nest: Nest, sms: int) -> dict[str, int | str] | None:
    """Threads for each column of a kernel that reduces along strided memory, or None if one will do.

    Neighbouring threads stay on neighbouring columns; each column gets the power of two that gives every SM two CTAs,
    while a thread keeps at least `THREAD_VALUES` elements, or the GPU `WAVES` of them, while it keeps `LONG` ones.
    """
    extents = [op.trips for op in nest.reductions()]
    if not extents or not nest.axes or any(extent is None for extent in extents):
        return None
    outputs, shortest = known_points(nest.axes), min(extent or 0 for extent in extents)
    threads = 1
    while threads < WARP:
        is_filled = outputs * threads >= 2 * sms * CTA_THREADS
        if is_filled and outputs * threads >= WAVES * sms * SM_THREADS:
            break
        if shortest < 2 * threads * (LONG if is_filled else THREAD_VALUES):
            break
        threads *= 2
    return {"threads": threads, "lanes": "free"} if threads > 1 else None


def column_schedule(nest: Nest, columns: dict[str, int | str]) -> Mapping[str, Options]:
    """A warp or more on neighbouring columns, and the loads of several rows in flight in each thread at once."""
    threads = int(columns["threads"])
    is_long = all((op.trips or 0) >= LONG * threads for op in nest.reductions())
    together = min(LONG_COLUMNS, MOST_THREADS // threads) if is_long else WARP
    steps = steps_in_flight(nest, threads)
    schedule: dict[str, Options] = {
        "tileify": {},
        "cooperative-reduce": columns,
        "blockify-launch": {"threads": max(CTA_THREADS, together * threads)},
    }
    if steps > 1:
        schedule["chunk-reduce"] = {"size": steps * LONG_IN_FLIGHT if is_long else steps}
    schedule["stage-inputs"] = {}
    schedule["mark-unroll"] = {}
    return schedule
