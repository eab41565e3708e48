"""The heuristic schedule of several products of few rows in registers, such as the gates of a recurrent cell.

Such a kernel is over when its weights, which lie in L2, have been read once, so nothing is staged: a few lanes share
each sum along k, read neighbours of both factors, and add up what they have by shuffles. A thread computes several rows
of each product, so that it reads a weight once for all of them: it takes accesses of L1, not multiplications, to be the
limit, and there are (rows + products) of them for rows * products sums. Fewer lanes mean fewer shuffles, and fewer
threads that compute what follows from the same sums; more lanes, enough warps for all SMs.
"""

from __future__ import annotations

from math import prod

from deplodock.analysis.affine.linear import extent_or_one, known_points
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.shape.roles import Contraction
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.rows import row_width
from deplodock.schedule.choose.sizes import VECTOR

MOST_ROWS = 16
"""Above, slabs of both factors pay."""

SUMS = 8
"""The sums of a thread, each of 4 registers, one for each element of an access. All lanes compute what follows from
them: with 20 a step of 6 layers of a GRU of 256 units took 8 us on an H200, most of it in that, one row after the
other."""

SM_WARPS = 4
"""The warps of an SM that hide each other's waits, as each has some accesses of 16 bytes on their way."""

THREADS = 64
"""Threads of a CTA of two columns or more: many small ones are spread over the SMs most evenly."""


def shared_sums(found: Contraction, target: TargetAttr) -> dict[str, dict[str, int | str]] | None:
    """The rules for several products of few rows that are read along k, and their options; None for any other."""
    m, products, k = known_points(found.m), len(found.products), found.innermost.trips
    is_small = products > 1 and m <= MOST_ROWS and extent_or_one(found.m[-1]) == m
    if not is_small or k is None or k < WARP * VECTOR or row_width(found.innermost) < VECTOR:
        return None
    cells = min(m, max(1, SUMS // products))
    groups = -(-m // cells)
    outputs = groups * prod(map(known_points, (found.n, found.batch)))
    lanes = WARP // 4
    while lanes < WARP and outputs * lanes < target.fact("sms") * SM_WARPS * WARP:
        lanes *= 2
    columns = 2
    # Shuffles are for whole warps.
    while 2 * columns * groups * lanes <= THREADS or columns * groups * lanes % WARP:
        columns *= 2
    rules: dict[str, dict[str, int | str]] = {
        "tileify": {},
        "cooperative-reduce": {"threads": lanes, "vector": VECTOR},
        "blockify-launch": {"m": MOST_ROWS, "n": columns},
    }
    if cells > 1:
        rules["register-tile"] = {"m": cells, "n": 1}
    return rules | {"mark-unroll": {}}
