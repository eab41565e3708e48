"""What tiles of a streaming reduction of products take: their rows, and bytes of shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.shape.streaming import StreamedProduct
from deplodock.dialects import loop
from deplodock.dialects.engines import engine_names, reads_slabs
from deplodock.dialects.loop import memref_of
from deplodock.schedule.choose.sizes import STREAM_LANES, THREADS, VECTOR


def rows_of(found: StreamedProduct) -> int:
    """The rows that have the same keys and values: queries, or heads of one query that share them."""
    if found.rows is not None:
        return extent_or_one(found.rows)
    return 1 if found.shared is None else found.shared[1]


def stream_bytes(
    found: StreamedProduct, m: int, n: int, engine: str = THREADS, slots: int = 1, lanes: int = STREAM_LANES
) -> int:
    """The bytes of shared memory of a tile of m rows and n elements a step: rows, weights, keys and values of `slots`.

    Each row is taken with the padding that keeps accesses of 16 bytes, which warpgroups have no need of. Of threads,
    `lanes` hold the columns of a row side by side, neighbours each, and as often as there are more. The engines of
    warps and of warpgroups keep weights in registers.
    """
    features, outputs = found.scores.trips or 0, extent_or_one(found.columns)
    if engine in engine_names():
        size = element_bytes(memref_of(next(_factors(found)).source).element_type)
        wide, narrow = (_whole(elements) for elements in (features, outputs))
        if not reads_slabs(engine):
            wide, narrow = row_pitch(wide, size), row_pitch(narrow, size)
        return size * (m * wide + slots * n * (wide + narrow))
    size = element_bytes(found.reduction.results[0].type)
    pad, strip = ACCESS_BYTES // size, lanes * neighbours_of(outputs, lanes)
    columns = -(-outputs // strip) * strip + pad
    return size * (m * (features + pad + weights_pitch(n)) + slots * n * (features + pad + columns))


def _factors(found: StreamedProduct) -> Iterator[loop.LoadOp]:
    return (op for op in found.scores.walk() if isinstance(op, loop.LoadOp))


def _whole(elements: int) -> int:
    """Elements of a row in whole instructions, at most 16 along either side."""
    return -(-elements // 16) * 16


def row_pitch(elements: int, size: int) -> int:
    """The elements from a row of a slab to the next, an odd number of 16 bytes: 8 rows then lie in different banks.

    The rows have so many elements of a size in bytes.
    """
    unit = ACCESS_BYTES // size
    return (-(-elements // unit) // 2 * 2 + 1) * unit


def neighbours_of(columns: int, lanes: int) -> int:
    """The neighbouring columns of a thread: as many as it moves at once, unless half of them do for all lanes."""
    return next(width for width in (VECTOR, 2, 1) if columns % width == 0 and lanes * (width // 2) < columns)


def weights_pitch(n: int) -> int:
    """The elements from a row of weights to the next: half the banks are between the two rows that a warp stores."""
    return n if n % (2 * STREAM_LANES) else n + STREAM_LANES
