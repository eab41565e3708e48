"""The heuristic schedule of a kernel that reduces columns along strided memory."""

from __future__ import annotations

from collections.abc import Mapping

from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.shape.dependence import varying_bound
from deplodock.analysis.shape.nest import Nest
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.flight import holds_row, is_read_again, steps_in_flight
from deplodock.schedule.choose.sizes import CTA_THREADS, THREAD_VALUES, VECTOR
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

HELD_THREADS = 512
"""The most threads of a CTA whose columns are in their registers. Measured on an H200 on a softmax of 64 x 500 x 300
over the 500, with 16 threads for each column: 25.6 us with 512, 28.4 with 256, which read 64 bytes of each row, and
32.6 with 1,024, of which an SM has one CTA at once, so that it does not read while it computes."""


def column_options(nest: Nest, sms: int) -> dict[str, int | str] | None:
    """Threads for each column of a kernel that reduces along strided memory, or None if one will do.

    Neighbouring threads stay on neighbouring columns; each column gets the power of two that gives every SM two CTAs,
    while a thread keeps at least `THREAD_VALUES` elements, or the GPU `WAVES` of them, while it keeps `LONG` ones.
    Columns that are read again fill the SMs, and get at least the threads that hold them in registers, each `VECTOR`
    neighbours, which it folds beside each other. Measured on an H200 on a softmax of 64 x 500 x 300 over the 500: 93.3,
    58.5 and 38.5 us with 4, 8 and 16 threads that read chunks three times, 25.6 with 16 that hold the column.
    """
    extents = [op.trips for op in nest.reductions()]
    if not extents or not nest.axes or any(extent is None for extent in extents):
        return None
    outputs, shortest = known_points(nest.axes), min(extent or 0 for extent in extents)
    is_again, threads = is_read_again(nest), 1
    fill = sms * (SM_THREADS if is_again else 2 * CTA_THREADS)
    while threads < WARP:
        is_filled = outputs * threads >= fill
        if is_filled and outputs * threads >= WAVES * sms * SM_THREADS:
            break
        if shortest < 2 * threads * (LONG if is_filled else THREAD_VALUES):
            break
        threads *= 2
    if is_again:
        threads = max(threads, _holding_threads(nest))
    if threads == 1:
        return None
    is_held = is_again and holds_row(nest, threads) and not any(map(varying_bound, nest.row_loops()))
    return {"threads": threads, "lanes": "free", **({"vector": VECTOR} if is_held else {})}


def column_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options] | None:
    """A warp or more on neighbouring columns, and the loads of several rows in flight in each thread at once.

    None for a nest that reduces none, or where a thread for each is enough.
    """
    if (columns := column_options(nest, target.fact("sms"))) is None:
        return None
    threads = int(columns["threads"])
    is_long = all((op.trips or 0) >= LONG * threads for op in nest.reductions())
    steps = steps_in_flight(nest, threads)
    most = HELD_THREADS if is_read_again(nest) and holds_row(nest, threads) else MOST_THREADS
    together = min(LONG_COLUMNS if is_long else WARP, most // threads)
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


def _holding_threads(nest: Nest) -> int:
    """The fewest threads that hold a column in registers, or 1 where more than a warp would have to."""
    counts = (1 << power for power in range(WARP.bit_length()))
    return next((threads for threads in counts if holds_row(nest, threads)), 1)
