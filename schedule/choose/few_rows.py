"""The heuristic schedule of a product of few rows, as of a model that makes one token for each of some requests.

Such a product reads its weights once, so its time is that of their bytes, as long as enough of them are on their way:
at 4.8 TB/s and the 1 us of a read under load, 36 KB for each of 132 SMs. A lane keeps `READS` accesses of 16 bytes in
flight, a warp 4 KB, and the 16 warps that an SM holds at 128 registers 64 KB. So weights go from memory straight to the
fragments of `mma`, with the columns of the output as the rows of the instruction: a ring of slabs would hold as many
bytes in shared memory, but pay a wait, an arrival and the start of boxes in each step, and few CTAs of large tiles end
together. The warps of a CTA share k, as they are more than the tiles, and add their sums once.

More than the 8 rows of an instruction of a warp are read again for each of 32 columns, beside the weights. Warpgroups,
where there are any, then take 64 columns as their rows and read slabs in boxes, where that ends first. On an H200 18944
columns of 3584 take 36.2 us for 32 rows, against 42.6 straight to fragments, and 3584 of 18944 39.7 against 46.9; for 8
rows fragments take 37.6 and 38.8. A ring fills the shared memory that a CTA has, and k is split where too few SMs would
have one, or its steps take a CTA longer than the bytes.

The tile of warps is the one whose grid ends first, by bytes from DRAM, by those from L2, where every CTA reads all rows
of the other factor, and by the steps along k, each of which waits for memory once; nothing hides the wait of the first
one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.atoms import walks_neighbours
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import L2_BYTES_PER_CYCLE, RESERVED
from deplodock.analysis.shape.masking import runs_in_chunks
from deplodock.analysis.shape.roles import Contraction, read_of
from deplodock.dialects import loop
from deplodock.dialects.buffers import LINE_BYTES
from deplodock.dialects.engines import MMA, WGMMA, Engine
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.wgmma import COLUMNS, ROWS
from deplodock.schedule.choose.sizes import PRODUCER, READS
from deplodock.schedule.choose.tiling import MIN_STEPS, takes_boxes

MOST_ROWS = 32
"""Above, the fragments of the rows take more registers than those of the weights."""

MOST_SPLIT = 24 * 32
"""The most outputs of a warp whose factors are in parts, which take the registers of sums, too: more are spilled. On an
H200 32 rows by 18944 columns of 3584 take 153 us in tiles of 32 columns, 128 in those of 16."""

SM_WARPS = 16
"""Warps of an SM, of 128 registers a lane."""

STEP_NS = 1300.0
"""The time of a step: a read from DRAM under load, the products behind it."""

L2_SHARE = 0.65
"""The share of the peak of L2 that an SM gets while all read: 82 bytes a ns, measured on an H200 on 64 x 64 slabs."""

DIRECT_ROWS = 8
"""The most rows that warps read straight to fragments where warpgroups could read boxes: those of one instruction."""

WARPGROUP_CTAS = 3
"""The most CTAs of warpgroups that share an SM."""

WARPGROUP_SLABS = 16
"""The most slabs of a CTA on their way, being read, or waiting for their last reader."""

BEHIND = 2
"""The slabs of a ring that are not on their way: one is being read, one waits for its last reader."""

CTA_STEP_NS = 220.0, 340.0
"""The least times of a step of a CTA whose boxes a producer starts, and of one whose threads do that, too: on an H200,
32 rows by 5632 columns of 2048 take 9.2 us in 32 steps, and by 3584 of 18944 in two parts 50.8 us in 148."""

TICKET_NS = 1500.0
"""What CTAs that add their parts take, beside moving them: 0.6 to 2.9 us for 32 rows on an H200 (5632 columns of 2048
in three parts, 3584 of 3584 in four, 3584 of 18944 in five)."""

COPY_SHARE = 0.87
"""The share of the bandwidth of DRAM that a copy reaches (measured on an H200)."""

TOLERANCE = 1.03
"""Tiles with more bytes on their way are taken if they are slower by no more than this factor."""


@dataclass(frozen=True)
class FewRows:
    """A CTA tile of `n` columns of each of some products, whose k `slices` warps share."""

    n: int
    slices: int
    products: int
    size: int
    """Bytes of an element of the factors."""
    is_split: bool = False
    """Whether they are split into parts."""

    @property
    def side(self) -> int:
        """The columns that a warp computes."""
        return min(self.n, 32)

    @property
    def warps(self) -> int:
        """The warps of a CTA."""
        return self.slices * self.n // self.side

    @property
    def chunk(self) -> int:
        """The elements of k of a step: of each lane, `READS` accesses along the columns of a warp.

        Of parts there are fewer along a few columns: the rows take as many registers for each element.
        """
        reads = READS * self.side // 32 if self.is_split else READS
        return self.slices * reads * 512 // (self.side * self.products * self.size)


def few_rows_options(
    found: Contraction, row: Engine, has_warpgroups: bool, target: TargetAttr, *, is_split: bool = False
) -> dict[str, dict[str, int | str]] | None:
    """The rules for a product of few rows by weights that are read along k, and their options; None for any other.

    Factors that are split into parts have no boxes.
    """
    m, n, k = extent_or_one(found.m[-1]), extent_or_one(found.n[-1]), found.reduction.trips
    reads = [read for factor in found.operands if (read := read_of(factor)) is not None]
    is_near = all(walks_neighbours(read, found.innermost.iv) for read in reads)
    if not (m <= MOST_ROWS and n >= row.m and k is not None and is_near):
        return None
    known = len(found.products), row.size, is_split
    tiles = [FewRows(n, slices, *known) for n in (16, 32, 64) for slices in (1, 2, 4, 8, 16)]
    tiles = [tile for tile in tiles if tile.chunk <= k and tile.n <= n and tile.warps <= SM_WARPS]
    tiles = [tile for tile in tiles if not is_split or m * tile.side <= MOST_SPLIT]
    tiles = [tile for tile in tiles if runs_in_chunks(found.reduction, tile.chunk)]
    if not tiles:
        return None
    problem = _Reading.of(found, target)
    times = {tile: problem.time(tile) for tile in tiles}
    good = [tile for tile in tiles if times[tile] <= min(times.values()) * TOLERANCE]
    tile = min(good, key=lambda tile: (-problem.warps(tile), times[tile]))
    boxes = _boxes(found, row, target) if has_warpgroups and not is_split else None
    if boxes is not None and boxes.time() < problem.direct(tile):
        return boxes.options()
    padded = -(-m // row.n) * row.n
    return {
        "tileify": {},
        **({"chunk-matmul-k": {"bk": tile.chunk, "kv": 1}} if tile.chunk < k else {}),
        "blockify-launch": {"m": m, "n": tile.n, "occupancy": SM_WARPS // tile.warps},
        "tensor-tile": {"engine": MMA, "m": padded, "n": tile.side, "rows": "n", "slices": tile.slices},
        "mark-unroll": {},
    }


def _boxes(found: Contraction, row: Engine, target: TargetAttr) -> _Boxes | None:
    """The grid of warpgroups that ends first, for one product of few rows that boxes take; None for others."""
    m, n, k = extent_or_one(found.m[-1]), extent_or_one(found.n[-1]), found.reduction.trips or 0
    is_one = len(found.products) == 1 and not found.batch and len(found.m) == len(found.n) == 1
    if not (is_one and m > DIRECT_ROWS and m % COLUMNS.step == 0 and n >= ROWS and takes_boxes(found)):
        return None
    sides = ((found.m[0], m), (found.n[0], ROWS))
    reads = [read for factor in found.operands if (read := read_of(factor))]
    if not all(lies_in_boxes(read, *side) for read in reads for side in sides):
        return None
    chunk = LINE_BYTES // row.size
    steps = -(-k // chunk)
    whole = [parts for parts in range(1, steps // MIN_STEPS + 1) if runs_in_chunks(found.reduction, parts * chunk)]
    grids = [_Boxes(m, n, steps, chunk, parts, target) for parts in whole]
    grids = [grid for grid in grids if grid.depth > BEHIND and (grid.parts == 1 or grid.is_one_wave)]
    return min(grids, key=lambda grid: grid.time(), default=None)


@dataclass(frozen=True)
class _Boxes:
    """CTAs of a warpgroup with 64 columns each, whose k, of steps of `chunk` elements, is in parts."""

    m: int
    n: int
    steps: int
    chunk: int
    parts: int
    target: TargetAttr

    @property
    def ctas(self) -> int:
        """The CTAs of the grid."""
        return -(-self.n // ROWS) * self.parts

    @property
    def is_one_wave(self) -> bool:
        """Whether all CTAs run at once."""
        return self.ctas <= self.target.fact("sms") * WARPGROUP_CTAS

    @property
    def occupancy(self) -> int:
        """The CTAs of an SM."""
        return min(WARPGROUP_CTAS, -(-self.ctas // self.target.fact("sms")))

    @property
    def slab(self) -> int:
        """The bytes of a step."""
        return (self.m + ROWS) * LINE_BYTES

    @property
    def depth(self) -> int:
        """The slabs of a ring."""
        held = (self.target.fact("shared_per_sm") // self.occupancy - RESERVED) // self.slab
        held = min(held, self.target.fact("shared_per_block") // self.slab)
        return min(WARPGROUP_SLABS, held, self.steps // self.parts)

    def time(self) -> float:
        """Nanoseconds of weights from DRAM, or slabs by what is on its way or SMs take; and of the parts."""
        rates = Rates.of(self.target)
        ctas = min(self.ctas, rates.sms * self.occupancy)
        weights, slabs = self.n * self.steps * LINE_BYTES, self.ctas * -(-self.steps // self.parts) * self.slab
        flight = ctas * (self.depth - BEHIND) * self.slab / STEP_NS
        taken = min(ctas, rates.sms) * _l2_rate(rates)
        time = max(weights / (rates.bytes * COPY_SHARE), slabs / min(flight, taken))
        time = max(time, -(-self.steps // self.parts) * CTA_STEP_NS[self.parts > 1])
        return time + (TICKET_NS + rates.moving_ns(2 * self.parts * self.m * self.n * 4) if self.parts > 1 else 0)

    def options(self) -> dict[str, dict[str, int | str]]:
        """The rules of the grid, and their options; threads that meet at a ticket have no producer beside them."""
        distance = {"distance": self.depth - BEHIND, "barrier": "mbarrier"}
        return {
            "tileify": {},
            "chunk-matmul-k": {"bk": self.chunk, "kv": 1},
            **({"split-matmul-k": {"s": self.parts, "over": "ticket"}} if self.parts > 1 else {}),
            "blockify-launch": {"m": self.m, "n": ROWS, "occupancy": self.occupancy},
            "stage-inputs": {"memory": "shared", "transpose": "never"},
            "tensor-tile": {"engine": WGMMA, "m": self.m, "n": ROWS, "rows": "n", "slices": 1},
            "double-buffer": {"depth": self.depth},
            **{"tma-copy": {}, "split-inner-for-swizzle": {}, "async-copy": {}, "pad-smem": {}},
            "pipeline-k-outer": distance if self.parts > 1 else {"distance": PRODUCER},
            "mark-unroll": {},
        }


@dataclass(frozen=True)
class _Reading:
    """The extents of a product, of `batch` grids, and the rates of the target."""

    m: int
    n: int
    k: int
    batch: int
    rates: Rates

    @staticmethod
    def of(found: Contraction, target: TargetAttr) -> _Reading:
        m, n = extent_or_one(found.m[-1]), known_points(found.n)
        return _Reading(m, n, found.reduction.trips or 0, known_points((*found.batch, *found.m[:-1])), Rates.of(target))

    def time(self, tile: FewRows) -> float:
        """Nanoseconds of the grid: its waves one after the other."""
        return sum(self._wave(tile, ctas) for ctas in self._waves(tile))

    def direct(self, tile: FewRows) -> float:
        """Nanoseconds of what is read: the weights from DRAM, and the rows again from L2 in each CTA, behind them."""
        ctas = -(-self.n // tile.n) * self.batch
        rows = ctas * self.m * self.k * tile.size
        weights = self.n * self.batch * tile.products * self.k * tile.size
        return weights / (self.rates.bytes * COPY_SHARE) + rows / (self.rates.sms * _l2_rate(self.rates))

    def warps(self, tile: FewRows) -> int:
        """The warps of the first wave, each with as many bytes on their way as any other."""
        return next(self._waves(tile)) * tile.warps

    def _waves(self, tile: FewRows) -> Iterator[int]:
        """The CTAs of each wave."""
        ctas, slots = -(-self.n // tile.n) * self.batch, self.rates.sms * (SM_WARPS // tile.warps)
        for start in range(0, ctas, slots):
            yield min(slots, ctas - start)

    def _wave(self, tile: FewRows, ctas: int) -> float:
        weights, rows = (ctas * side * self.k * tile.size for side in (tile.n * tile.products, self.m))
        sms = min(ctas, self.rates.sms)
        cached = (weights + rows) / (sms * _l2_rate(self.rates))
        shared = SM_WARPS * 2 * tile.side * tile.products * self.m * 4 / 128 / self.rates.cycles
        steps = math.ceil(self.k / tile.chunk)
        return max(max(weights / self.rates.bytes, cached) + STEP_NS, steps * STEP_NS) + shared


def _l2_rate(rates: Rates) -> float:
    """The bytes that an SM gets from L2 in a nanosecond while all read."""
    return L2_BYTES_PER_CYCLE * L2_SHARE * rates.cycles


def slab_rows(load: loop.LoadOp, axis: SSAValue, size: int) -> int:
    """The rows of a factor's slab, along the axis of the output of which a tile takes so many coordinates.

    It has those between the coordinates, too, where memory is walked in steps; and one for each coordinate where they
    do not follow each other, as those of a rolled factor.
    """
    if _walks_alone(subscripts_of(load), axis):
        return size
    forms, place = _at_tile(load, axis, size)
    inner = [form.split(lambda root: root is not place)[1] for form in forms]
    if any(isinstance(atom, Division) for form in inner for atom, _ in form.terms):
        return size
    ranges = [bounds for form in inner if (bounds := form.range()) is not None]
    return prod(last - first + 1 for first, last in ranges)


def lies_in_boxes(load: loop.LoadOp, axis: SSAValue, size: int) -> bool:
    """Whether the coordinates of a tile along an axis are neighbours in memory, along one dimension, as in a box."""
    return _walks_alone(subscripts_of(load), axis) or _walks_alone(*_at_tile(load, axis, size))


def _walks_alone(forms: Sequence[Linear], coordinate: SSAValue) -> bool:
    """Whether a coordinate is a step of 1 in one of some subscripts at most."""
    walked = [form for form in forms if form.depends_on(coordinate)]
    return len(walked) <= 1 and all(
        list(form.roots()).count(coordinate) == form.coefficient(coordinate) == 1 for form in walked
    )


class TileSlabs:
    """`slab_rows` and `lies_in_boxes` of the loads of one problem, found once for each size of its tiles."""

    def __init__(self) -> None:
        self._rows: dict[tuple[loop.LoadOp, int], int] = {}
        self._boxes: dict[tuple[loop.LoadOp, int], bool] = {}

    def rows(self, load: loop.LoadOp, axis: SSAValue, size: int) -> int:
        """See `slab_rows`; a load has one axis."""
        if (load, size) not in self._rows:
            self._rows[load, size] = slab_rows(load, axis, size)
        return self._rows[load, size]

    def in_boxes(self, load: loop.LoadOp, axis: SSAValue, size: int) -> bool:
        """See `lies_in_boxes`; a load has one axis."""
        if (load, size) not in self._boxes:
            self._boxes[load, size] = lies_in_boxes(load, axis, size)
        return self._boxes[load, size]


def _at_tile(load: loop.LoadOp, axis: SSAValue, size: int) -> tuple[list[Linear], SSAValue]:
    """The subscripts of a load over the tiles of an axis and the place in one, and that place."""
    place, tiles = stand_in(size), -(-extent_or_one(axis) // size)
    form = Linear.of(place) if tiles == 1 else Linear.of(stand_in(tiles), size) + Linear.of(place)
    return [each.substitute(axis, form) for each in subscripts_of(load)], place
