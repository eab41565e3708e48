"""The heuristic schedule of a streaming reduction of few rows that read many elements, as one token's query does.

Such rows read each key and value once, so their time is that of the bytes, as long as enough of them are on their way:
at 4.8 TB/s and the 1 us of a read under load, 36 KB for each of 132 SMs. A CTA has a ring of steps on chip, and the
heads that share keys are the rows of its tile. Its warps share the elements of a step, and the row is shared among CTAs
(`split-stream`) until each SM has one; a second launch folds what those leave, and starts early. On an H200 28 heads of
128 in halves on 32,768 keys of 4 heads, 67 MB, take 21.7 us, where a copy moves as many bytes in 18.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one, known_points
from deplodock.analysis.machine.atoms import NoAtomError, streamed_engine
from deplodock.analysis.machine.targets import ACCESS_BYTES, RESERVED, WARP, has_feature
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import factors_of, read_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct
from deplodock.dialects import loop
from deplodock.dialects.engines import MMA, engine_names, reads_slabs
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.loop import memref_of
from deplodock.schedule.choose.sizes import STREAM_LANES, STREAM_WARP, THREADS, VECTOR
from deplodock.schedule.steps import Options, RuleStep, Schedule

SLICES = 4
"""Warps of a CTA, one for each scheduler of an SM, that share the elements of a step."""

STEP_BYTES = 32768
"""Bytes of a step of few rows: as many as an SM has on their way while it computes another step."""

SLOTS = (5, 4, 3, 2)
"""Steps on chip of a CTA that has an SM to itself, as many as fit. On an H200 28 heads of 128 on 32,768 keys of 4 heads
take 21.7 us with 5, and 22.5 by two CTAs that share an SM and have 2 each; 32 heads of 64 take 12.4 and 13.1."""

HELD = 64
"""The most elements of rows that a thread holds in registers to multiply keys with."""

ALONE = 1.15
"""What a step takes of a CTA that has an SM to itself, to one of two CTAs that share it and wait in turn."""

START_STEPS = 1.5
"""What the start and the end of a CTA take, in steps of `STEP_BYTES`: 1.1 us each at 30 bytes a ns of an SM."""

FOLD_STEPS = 2
"""What the launch that folds parts takes, in such steps, and one more for each `FOLDED` parts of a row."""

FOLDED = 64
"""Parts of a row whose reads take a step's time."""

FEWEST_STEPS = 4
"""The least steps of a part of many rows: what it leaves for the fold is then small beside them."""

FOLD_PARTS = 8
"""Parts of an output that a thread folds: their reads are in flight together."""

FOLD_WARPS = 4
"""The least warps of a CTA that folds parts."""


def long_row_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules for a streaming reduction of few rows and their options; None where it has more, or no tile fits."""
    if (rows := rows_of(found)) > STREAM_WARP:
        return None
    is_narrow = _is_narrow(found, target)
    tiles = [_Tile.of(found, rows, keys, is_narrow) for keys in (64, 32, 16, 8) if keys >= 16 or not is_narrow]
    small = [tile for tile in tiles if tile.step_bytes <= STEP_BYTES] or tiles[-1:]
    own = target.fact("shared_per_block")
    alone = [(1, slots, own) for slots in SLOTS]
    # Threads wait for their own products, too, and each other's bytes hide that.
    limits = alone if is_narrow else [(2, 2, _share(target)), *alone]
    fitting = [(tile, ctas, slots) for ctas, slots, most in limits for tile in small if tile.bytes(slots) <= most]
    if not fitting:
        return None
    tile, ctas, slots = fitting[0]
    return {
        "tileify": {},
        "stream-tile": {**tile.options, "occupancy": ctas},
        "double-buffer": {"depth": slots},
        "async-copy": {},
        **({} if is_narrow else {"pad-smem": {}}),
        "pipeline-k-outer": {"distance": slots - 1},
        "mark-unroll": {},
    }


@dataclass(frozen=True)
class _Tile:
    """The tile of a CTA: `m` rows, and `n` elements of each slice in a step."""

    found: StreamedProduct
    m: int
    n: int
    team: Mapping[str, int] | None
    """Rows side by side, the threads of each, and those of them that share a score; None for tensor cores."""

    @staticmethod
    def of(found: StreamedProduct, rows: int, keys: int, is_narrow: bool) -> _Tile:
        """The tile of so many elements of a slice, where a warp has up to four rows side by side."""
        if is_narrow:
            return _Tile(found, STREAM_WARP, keys, None)
        features = found.scores.trips or 0
        shares = [each for each in (1, 2, 4, 8, 16) if features % (each * VECTOR) == 0]
        share = next((each for each in shares if rows * features <= HELD * each and WARP // each <= keys), None)
        if share is not None and share > 1:
            return _Tile(found, rows, keys, {"side": 1, "lanes": WARP, "features": share})
        side = next(side for side in (1, 2, 4) if side >= min(rows, 4))
        return _Tile(found, -(-rows // side) * side, max(keys, WARP // side), {"side": side, "lanes": WARP // side})

    @property
    def engine(self) -> str:
        """What multiplies."""
        return MMA if self.team is None else THREADS

    @property
    def options(self) -> Options:
        """The options of stream-tile."""
        team: Options = {"engine": MMA} if self.team is None else self.team
        return {"m": self.m, "n": self.n, "slices": SLICES, **team}

    @property
    def step_bytes(self) -> int:
        """The bytes of what a step reads."""
        (product,) = summed_products(self.found.scores)
        read = read_of(factors_of(product)[0][0])
        size = 4 if read is None else element_bytes(memref_of(read.source).element_type)
        return SLICES * self.n * size * ((self.found.scores.trips or 0) + extent_or_one(self.found.columns))

    def bytes(self, slots: int) -> int:
        """The bytes of shared memory with so many steps on chip, and those through which slices add their sums."""
        lanes = 4 if self.team is None else self.team["lanes"]
        folded = SLICES * self.m * (extent_or_one(self.found.columns) + 2 * lanes) * 4
        return stream_bytes(self.found, self.m, SLICES * self.n, self.engine, slots, lanes) + folded


def _share(target: TargetAttr) -> int:
    """The bytes of shared memory of each of two CTAs of an SM."""
    return target.fact("shared_per_sm") // 2 - RESERVED


def _is_narrow(found: StreamedProduct, target: TargetAttr) -> bool:
    """Whether tensor cores take both products, of half precision."""
    try:
        row = streamed_engine(found, MMA)
    except NoAtomError:
        return False
    return has_feature(target, Feature.MMA) and row.packed > 1


def _tiles(found: StreamedProduct, nest: Nest, tile_rows: int) -> int:
    """The tiles of so many rows that a nest has."""
    rows = rows_of(found)
    return known_points(nest.axes) // extent_or_one(found.columns) // rows * -(-rows // tile_rows)


def split_options(
    found: StreamedProduct, nest: Nest, target: TargetAttr, options: dict[str, Options]
) -> dict[str, Options]:
    """The options of a tile, with those of split-stream where CTAs are to share a row.

    The parts are those with which the grid ends first, by waves of CTAs, each with its steps, its start, and the launch
    that folds them. Rows of which a condition leaves elements out stay whole, as parts would have unlike times.
    """
    tile = options["stream-tile"]
    step = int(tile["n"]) * int(tile.get("slices", 1))
    steps = -(-(found.reduction.trips or 0) // step)
    tiles, sms = _tiles(found, nest, int(tile["m"])), target.fact("sms")
    resident = int(tile.get("occupancy", 1))
    is_masked = bool(wheres(found.reduction.body.block))

    def time(parts: int) -> float:
        ctas = tiles * parts
        step = ALONE if resident == 1 or ctas <= sms else resident
        own = -(-steps // parts) * step + START_STEPS
        return -(-ctas // (sms * resident)) * own + (FOLD_STEPS + parts / FOLDED if parts > 1 else 0)

    most = 1 if is_masked else min(resident * sms, steps // (1 if "slices" in tile else FEWEST_STEPS))
    best = min(range(1, max(1, most) + 1), key=time)
    if "slices" in tile:
        options = {**options, **_ring(int(options["double-buffer"]["depth"]), -(-steps // best), is_masked)}
    if best == 1:
        return options
    early: dict[str, Options] = {"start-early": {}} if has_feature(target, Feature.EARLY_LAUNCHES) else {}
    return {"tileify": {}, "split-stream": {"s": best, "unit": step}, **options, **early}


def _ring(slots: int, steps: int, is_masked: bool) -> dict[str, Options]:
    """The ring of a CTA that runs so many steps: all of them at once on chip, or as far ahead as slots allow.

    Where a mask may leave steps out, a slot is spare.
    """
    depth = max(2, min(slots, steps))
    distance = depth if depth == steps and not is_masked else depth - 1
    return {"double-buffer": {"depth": depth}, "pipeline-k-outer": {"distance": distance}}


def fold_steps(output: str, parts: int) -> Schedule:
    """The steps for the launch that folds so many parts and stores to `output`: warps on neighbouring outputs.

    What is scaled to the largest maximum is read before that is known.
    """
    threads = 1
    while threads < WARP and parts > threads * FOLD_PARTS:
        threads *= 2
    shared = (RuleStep("cooperative-reduce", {"threads": threads, "lanes": "free"}, output),) if threads > 1 else ()
    return (
        *shared,
        RuleStep("blockify-launch", {"threads": max(FOLD_WARPS, threads) * WARP}, output),
        RuleStep("stage-inputs", {"memory": "register"}, output),
    )


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
