"""The heuristic schedule of a streaming reduction of products, such as attention: its tile, and who shares its rows."""

from __future__ import annotations

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one, known_points
from deplodock.analysis.machine.targets import ACCESS_BYTES, RESERVED
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.streaming import StreamedProduct
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import STREAM_KEYS, STREAM_LANES, STREAM_ROWS, VECTOR
from deplodock.schedule.steps import Options

SHARING = 2
"""CTAs of 256 threads that are to share an SM: one computes while the other waits for its slabs."""

FEWEST_STEPS = 4
"""The least steps of a CTA that shares a row with others: what it leaves for the last one is then small beside them."""


def stream_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules for a streaming reduction of products and their options; None where no tile fits on chip.

    The tile has as many rows as there are, up to `STREAM_ROWS`, and the longest steps that let CTAs share an SM. Where
    tiles leave SMs idle, several CTAs share a row.
    """
    rows = rows_of(found)
    tiles = [
        (m, n)
        for m in (STREAM_ROWS, STREAM_ROWS // 2, STREAM_LANES)
        for n in (2 * STREAM_KEYS, STREAM_KEYS)
        if m == STREAM_LANES or m // 2 < rows
    ]
    most, share = target.fact("shared_per_block"), target.fact("shared_per_sm") // SHARING - RESERVED
    fitting = [tile for tile in tiles if stream_bytes(found, *tile) <= min(most, share)]
    fitting = fitting or [tile for tile in tiles if stream_bytes(found, *tile) <= most]
    if not fitting:
        return None
    m, n = fitting[0]
    ctas = -(-known_points(nest.axes) // extent_or_one(found.columns) // rows) * -(-rows // m)
    steps = -(-(found.reduction.trips or 0) // n)
    sms = target.fact("sms")
    parts = max(1, min(SHARING * sms // ctas, steps // FEWEST_STEPS)) if 2 * ctas <= sms else 1
    shared = {"s": parts} if parts > 1 else {}
    return {
        "tileify": {},
        "stream-tile": {"m": m, "n": n, **shared},
        "async-copy": {},
        "pad-smem": {},
        "mark-unroll": {},
    }


def rows_of(found: StreamedProduct) -> int:
    """The rows that have the same keys and values: queries, or heads of one query that share them."""
    if found.rows is not None:
        return extent_or_one(found.rows)
    return 1 if found.shared is None else found.shared[1]


def stream_bytes(found: StreamedProduct, m: int, n: int) -> int:
    """The bytes of shared memory of a tile of m rows and n elements a step: rows, keys, values, and weights.

    Each row is taken with the padding that keeps accesses of 16 bytes.
    """
    size = element_bytes(found.reduction.results[0].type)
    pad, strip = ACCESS_BYTES // size, STREAM_LANES * VECTOR
    products = (found.scores.trips or 0) + pad
    columns = -(-extent_or_one(found.columns) // strip) * strip + pad
    return size * ((m + n) * products + n * columns + m * weights_pitch(n))


def weights_pitch(n: int) -> int:
    """The elements from a row of weights to the next: half the banks are between the two rows that a warp stores."""
    return n if n % (2 * STREAM_LANES) else n + STREAM_LANES
