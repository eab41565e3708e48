"""The heuristic schedule of a streaming reduction of products, such as attention: its tile."""

from __future__ import annotations

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.shape.streaming import StreamedProduct
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import STREAM_KEYS, STREAM_LANES, STREAM_ROWS, VECTOR
from deplodock.schedule.steps import Options

WIDE = 128
"""The most columns of which a thread holds the outputs of 8 rows without spilling registers."""


def stream_options(found: StreamedProduct, target: TargetAttr) -> dict[str, Options] | None:
    """The rules for a streaming reduction of products and their options; None where no tile fits on chip.

    The tile has as many rows as there are, up to the most that registers and shared memory hold.
    """
    rows = extent_or_one(found.rows)
    for m in (STREAM_ROWS, STREAM_ROWS // 2, STREAM_LANES):
        if m > STREAM_LANES and m // 2 >= rows:
            continue
        if stream_bytes(found, m, STREAM_KEYS) <= target.fact("shared_per_block"):
            return {
                "tileify": {},
                "stream-tile": {"m": m, "n": STREAM_KEYS},
                "async-copy": {},
                "pad-smem": {},
                "mark-unroll": {},
            }
    return None


def stream_bytes(found: StreamedProduct, m: int, n: int) -> int:
    """The bytes of shared memory of a tile of m rows and n elements a step: rows, keys, values, and weights.

    Each row is taken with the padding that keeps accesses of 16 bytes.
    """
    size = element_bytes(found.reduction.results[0].type)
    pad, strip = ACCESS_BYTES // size, STREAM_LANES * VECTOR
    products = (found.scores.trips or 0) + pad
    columns = -(-extent_or_one(found.columns) // strip) * strip + pad
    return size * ((m + n) * products + n * columns + m * (n + pad))
