"""The CTA tile of a contraction for tensor cores, and into how many parts its k is split: whose grid finishes first.

A step of a CTA takes `alone` ns on an SM of its own and `shared` ns beside as many others as the SM holds; between the
two it is taken to grow with their number. It is 128 bytes of k: 64 halves, or bytes, which tensor cores multiply twice
as fast. Both times are measured on an H200 in boxes (2048x3584x3584, 4096x4096x4096, 512x3584x18944 and 128x3584x3584,
bf16); other targets are taken to have the same ratios. Warpgroups, where there are any, multiply twice as fast as
warps.

A CTA alone waits for its slabs: with twice as many on their way a step takes half as long, but never less than its
share of a full SM, which is as fast as copies or products go. So few CTAs have deep rings, and where even those leave
SMs without work, warpgroups take tiles of fewer columns, so that all waves are full, or k is split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one, known_points
from deplodock.analysis.machine.atoms import walks_neighbours, warp_share
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import CLUSTER_CTAS, GPC_SMS, RESERVED, TPC_SMS, WARP, has_feature
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.masking import runs_in_chunks
from deplodock.analysis.shape.roles import Contraction, low_read_of, read_of
from deplodock.dialects import loop
from deplodock.dialects.engines import MMA, WGMMA, Engine, reads_slabs
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.roles import WARPGROUP
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.schedule.choose.few_rows import COPY_SHARE, TileSlabs
from deplodock.schedule.choose.tiling import MASK_STEP, MAX_PARTS, MIN_STEPS, TOLERANCE, boxes_take

CHUNKS = (128, 64, 32)
"""Bytes of k in a slab: rows of 128 are those that swizzles and boxes take whole; fewer where k is short."""

LINE_WORDS = 32
"""Elements of f32 of a line of a swizzled slab."""

FEWEST_OUTPUTS = 32
"""The fewest rows and columns of a product of FP32 parts that warpgroups take: fewer are read once, by warps."""

LINE = 64
"""Elements of a line of a swizzled slab, 128 bytes."""

PAD = 16
"""Bytes that pad-smem may add to a row of a slab."""

COLUMNS = 8
"""Columns of an instruction: parts have a multiple of them."""

MOST_WAVES = 3
"""The most waves of CTAs, for each product, that tiles of fewer columns fill: in more, the last one matters little."""

SHARED_READS = 1.2
"""How much longer the right factor takes to come from memory where several tiles of rows read it: on an H200 128 rows
by 3584 columns of 18944 take 43 us in tiles of all rows, 54 in tiles of 64, in clusters of four and two CTAs."""

LAUNCH_NS = 2000.0
"""What a launch that adds parts takes behind tensor cores, besides moving them. This and the next are fitted to 128
rows on an H200, in us: 2048 columns of 2048 by a launch 8.0 (tiles of 64x96 in three parts), by a ticket 8.5 (64x128,
four) and 7.8 (64x64, two), by clusters 6.95 (64x64, two); of 5632 by a launch 12.2 (64x128, four), by a ticket 12.1
(the same) and 11.9 (64x96, three); 256 of 2048 by a launch 4.3 and by clusters 3.9 (64x64, eight); 3584 of 3584 13.3
by a launch (64x112, two) and 12.7 by clusters (128x128, four); of 18944 45.2 (128x112) and 42.0 (128x128, four)."""

EARLY_NS = 600.0
"""What such a launch takes that starts early: on an H200 32 rows by 256 columns of 2048, in parts of FP32, take 22.0 us
in 64 steps and 4.5 in four of 16 parts, 0.3 a step."""

TICKET_NS = 1100.0
"""The time of a ticket, besides moving parts and adding them."""

LAST_CTA_RATE = 180.0
"""Bytes per nanosecond at which the last CTA of a tile reads and adds parts, 16 bytes at once."""

HELD_NS = 690.0
"""The most time of a step of one CTA on an SM whose threads hold a factor: on an H200 4096x4096x4096 takes 354 us in
512 steps of 256x128 outputs, and 512x18944x3584 209 in tiles of these and 287 of 128x128."""

CLUSTER_NS = 1100.0
"""The time of the barriers of a cluster whose CTAs fold each other's parts."""

CLUSTER_RATE = 40.0
"""Bytes per nanosecond that a CTA reads from the shared memory of its cluster."""

MOST_SLABS = 8
"""Slabs in flight of a CTA that has an SM of its own."""


@dataclass(frozen=True)
class TensorTile:
    """A CTA tile of m x n outputs in warps, or warpgroups, of `part` outputs, meant for `occupancy` CTAs per SM.

    Of `depth` slabs in flight, as many as `behind` are being read or waiting for their last reader.
    """

    m: int
    n: int
    part: tuple[int, int]
    occupancy: int
    depth: int
    alone: float
    shared: float
    behind: int = 2

    def of_each(self, products: int) -> TensorTile:
        """The tile of several products whose sums take the registers of this one, in as many parts."""
        columns = self.part[1] // products // COLUMNS * COLUMNS
        return replace(self, n=self.n // self.part[1] * columns, part=(self.part[0], columns))

    def held(self) -> TensorTile:
        """The tile where threads hold the factor of its rows."""
        if self.occupancy > 1:
            return self
        return replace(self, alone=min(self.alone, HELD_NS), shared=min(self.shared, HELD_NS))

    def along(self, side: str) -> TensorTile:
        """The tile whose columns run along this side of the output; its own run along n."""
        return self if side == "n" else replace(self, m=self.n, n=self.m)

    def narrowed(self, columns: int, products: int, side: str) -> TensorTile:
        """The tile of fewer columns of each product along a side, whose steps take as long as their slabs are large."""
        sides = {"m": self.m, "n": self.n} | {side: columns}
        share = (sides["m"] + products * sides["n"]) / (self.m + products * self.n)
        part = (self.part[0], columns)
        return replace(self, **sides, part=part, alone=self.alone * share, shared=self.shared * share)

    def step(self, ctas: int, depth: int) -> float:
        """The time of a step of so many CTAs on one SM, in ns, where one alone has so many slabs in flight."""
        waits = (self.depth - self.behind) / max(depth - self.behind, self.depth - self.behind)
        alone = max(self.alone * waits, self.shared / self.occupancy)
        others = (ctas - 1) / (self.occupancy - 1) if self.occupancy > 1 else 0.0
        return alone + (self.shared - alone) * others


TILES = {
    MMA: (
        TensorTile(128, 256, (64, 64), occupancy=1, depth=4, alone=1500, shared=1500),
        TensorTile(128, 128, (64, 32), occupancy=2, depth=3, alone=980, shared=1730),
        TensorTile(128, 64, (64, 32), occupancy=2, depth=4, alone=720, shared=910),
        TensorTile(64, 64, (32, 32), occupancy=3, depth=4, alone=510, shared=750),
    ),
    WGMMA: (
        TensorTile(128, 256, (64, 256), occupancy=1, depth=4, alone=810, shared=810),
        TensorTile(128, 128, (64, 128), occupancy=2, depth=3, alone=490, shared=870, behind=1),
        TensorTile(64, 128, (64, 128), occupancy=1, depth=8, alone=240, shared=240, behind=1),
        TensorTile(64, 128, (64, 128), occupancy=2, depth=4, alone=400, shared=570, behind=1),
        TensorTile(64, 64, (64, 64), occupancy=3, depth=4, alone=330, shared=600, behind=1),
    ),
}
"""The tiles of each engine: m is the side of the instruction's rows."""

PART_TILES: dict[str, tuple[TensorTile, ...]] = {
    MMA: (
        TensorTile(128, 128, (64, 32), occupancy=1, depth=4, alone=3000, shared=3000),
        TensorTile(128, 64, (64, 32), occupancy=2, depth=3, alone=2000, shared=3000),
        TensorTile(64, 64, (32, 32), occupancy=3, depth=4, alone=1200, shared=2250),
        TensorTile(32, 64, (32, 16), occupancy=3, depth=5, alone=700, shared=1150),
    ),
    WGMMA: (
        TensorTile(128, 192, (64, 192), occupancy=1, depth=3, alone=1540, shared=1540),
        TensorTile(128, 160, (64, 160), occupancy=1, depth=3, alone=1260, shared=1260),
        TensorTile(128, 128, (64, 128), occupancy=1, depth=4, alone=960, shared=960),
        TensorTile(64, 128, (64, 128), occupancy=1, depth=5, alone=640, shared=640),
        TensorTile(128, 64, (64, 64), occupancy=1, depth=6, alone=610, shared=610),
        TensorTile(64, 64, (64, 64), occupancy=2, depth=8, alone=360, shared=640),
        TensorTile(64, 32, (64, 32), occupancy=3, depth=8, alone=340, shared=680),
    ),
}
"""The tiles of products of FP32 parts."""


@dataclass(frozen=True)
class TensorGrid:
    """The tile of a grid and its engine, the parts of k, of `steps` each, and an SM's CTAs, each with `depth` slabs."""

    engine: str
    tile: TensorTile
    parts: int
    steps: int
    occupancy: int
    depth: int
    time: float
    busy: float
    """The time of the steps, which memory may let wait."""
    ctas: int
    room: int
    """The bytes of shared memory that slabs of boxes leave to a CTA which is alone on its SM."""
    side: str = "n"
    """The axis of the output, m or n, that an instruction's columns run along."""
    over: str = "ticket"
    """How the parts are combined, as split-matmul-k has it."""

    def within(self, sides: tuple[int, int]) -> tuple[int, int]:
        """The rows and columns of a tile, of at most so many."""
        return min(self.tile.m, sides[0]), min(self.tile.n, sides[1])


def is_masked(found: Contraction) -> bool:
    """Whether a mask leaves out outputs of a contraction."""
    return bool(wheres(found.reduction.parent_block() or Block()))


def best_grid(grids: Sequence[TensorGrid]) -> TensorGrid:
    """The grid that ends first; with fewer parts, or in one launch, if it hardly does."""
    best = min(grid.time for grid in grids)
    good = (grid for grid in grids if grid.time <= best * TOLERANCE)
    return min(good, key=lambda grid: (grid.parts, grid.over == "block", grid.time, grid.busy))


def tensor_grids(problem: TensorProblem, has_warpgroups: bool) -> list[TensorGrid]:
    """The grids of all tiles for a problem; none where no tile suits it."""
    return grids_of(problem, list(_tiles(has_warpgroups, problem)))


def grids_of(problem: TensorProblem, tiles: Sequence[tuple[str, TensorTile]]) -> list[TensorGrid]:
    """The grids of these tiles, each of an engine."""
    ways = [(parts, over) for parts in problem.parts() for over in problem.ways(parts)]
    return [
        grid
        for engine, wide in tiles
        for parts, over in ways
        for tile in problem.narrowed(engine, wide, parts, over)
        if not (problem.is_masked and (MASK_STEP % tile.m or MASK_STEP % tile.n)) and problem.takes(engine, tile)
        if (grid := problem.grid(engine, tile, parts, over)) is not None
    ]


def _tiles(has_warpgroups: bool, problem: TensorProblem) -> Iterator[tuple[str, TensorTile]]:
    """The tiles for a problem, with their engines; warpgroups have whole lines of columns."""
    rows, columns = problem.sides if problem.side == "n" else problem.sides[::-1]
    for engine, tiles in reversed(TILES.items()):
        for wide in tiles:
            tile = wide.of_each(problem.products)
            is_whole = tile.m <= rows and min(tile.n, columns) % problem.columns == 0
            if not reads_slabs(engine):
                yield engine, tile
            elif has_warpgroups and is_whole:
                yield engine, (tile.held() if problem.right is not None else tile).along(problem.side)


def right_side(found: Contraction) -> str | None:
    """Which axis of the output, m or n, the factor varies along that warpgroups read, where threads hold the other.

    They hold what does not lie along k, of FP32, and of factors in parts the one whose low part is not stored. None
    where they hold neither, or cannot read the other.
    """
    if len(found.products) != 1:
        return None
    (factors,) = found.factors
    loads, k = [read_of(factor) for factor in factors], found.innermost.iv
    known = [factor for factor in factors if low_read_of(factor) is not None]
    if not known and precision_of(found.products[0]) != HIGH:
        pairs = zip(factors, loads, strict=True)
        known = [each for each, load in pairs if load and load.result.type == f32 and walks_neighbours(load, k)]
    if len(known) != 1 or not boxes_take(known[0], k):
        return None
    return "m" if any(axis in found.m for axis in Dependence().of(known[0])) else "n"


def _reads(found: Contraction) -> list[tuple[loop.LoadOp, bool]]:
    dependence = Dependence()
    loads = [read for factor in found.operands for read in (read_of(factor), low_read_of(factor))]
    return [(load, any(axis in found.m for axis in dependence.of(load.result))) for load in loads if load is not None]


@dataclass(frozen=True)
class TensorProblem:
    """The extents of a contraction, the steps along its k, and the rates of the target."""

    found: Contraction
    reads: Sequence[tuple[loop.LoadOp, bool]]
    """The reads of its factors, and whether they are the left ones."""
    target: TargetAttr
    row: Engine
    """The instruction of a warp."""
    sides: tuple[int, int]
    """The most rows and columns of a tile."""
    rates: Rates
    m: int
    n: int
    batch: int
    chunk: int
    steps: int
    size: int
    """Bytes of an element of the factors."""
    right: str | None
    """See `right_side`."""
    is_masked: bool
    """Whether a mask leaves out outputs, whole tiles of `MASK_STEP` rows and columns."""
    is_early: bool = False
    """Whether launches start early: then parts are added by one of their own."""
    slabs: TileSlabs = field(default_factory=TileSlabs, compare=False)

    @staticmethod
    def of(found: Contraction, row: Engine, sides: tuple[int, int], chunk: int, target: TargetAttr) -> TensorProblem:
        """The problem of a contraction for an instruction, in tiles of at most so many rows and columns."""
        m, n, batch = map(known_points, (found.m, found.n, found.batch))
        steps = -(-(found.reduction.trips or 1) // chunk)
        reads = _reads(found)
        size = max(element_bytes(load.result.type) for load, _ in reads)
        rates, right, masked = Rates.of(target), right_side(found), is_masked(found)
        return TensorProblem(found, reads, target, row, sides, rates, m, n, batch, chunk, steps, size, right, masked)

    @property
    def side(self) -> str:
        """The axis of the output, m or n, that the columns of a warpgroup's instruction run along."""
        return self.right or "n"

    @property
    def products(self) -> int:
        """The products of one loop, each with its own sums."""
        return len(self.found.products)

    @property
    def columns(self) -> int:
        """What the columns of warpgroups are a multiple of: where they walk memory, they fill the lines of slabs.

        Those of bytes are a multiple of 16 (`columns_of`).
        """
        k = self.found.innermost.iv
        if self.side == "m":
            return COLUMNS
        if self.size == 1:
            return 2 * COLUMNS
        return COLUMNS if all(is_left or walks_neighbours(load, k) for load, is_left in self.reads) else LINE

    def takes(self, engine: str, tile: TensorTile) -> bool:
        """Whether a CTA can compute a tile: its threads are not too many, and warpgroups read boxes of what they read.

        Where threads hold the left factors, warpgroups read the right ones alone.
        """
        if not reads_slabs(engine):
            return self._threads(engine, tile) <= self.target.fact("threads_per_block")
        read = [read for read in self.reads if self.right is None or read[1] == (self.right == "m")]
        return all(self.slabs.in_boxes(load, *self._side(tile, is_left)) for load, is_left in read)

    def _threads(self, engine: str, tile: TensorTile) -> int:
        """The threads of a CTA: warps share a tile in equal parts of whole instructions."""
        sides = [min(own, most) for own, most in zip((tile.m, tile.n), self.sides, strict=True)]
        if reads_slabs(engine):
            return WARPGROUP * max(1, prod(sides) // prod(tile.part))
        atoms = self.row.m, self.row.n
        shares = [warp_share(*each) or 1 for each in zip(sides, tile.part, atoms, strict=True)]
        return WARP * prod(sides) // prod(shares)

    def _side(self, tile: TensorTile, is_left: bool) -> tuple[SSAValue, int]:
        """The axis of the output that a factor varies along, and what a tile takes of it."""
        return (self.found.m[-1], tile.m) if is_left else (self.found.n[-1], tile.n)

    def parts(self) -> Iterator[int]:
        """The numbers of parts that may be chosen, all of which run at once, in as many whole chunks of k."""
        yield 1
        most = 1 if self.is_masked else min(MAX_PARTS, self.steps // MIN_STEPS)
        for parts in range(2, 1 + most):
            if runs_in_chunks(self.found.reduction, parts * self.chunk):
                yield parts

    def ways(self, parts: int) -> Iterator[str]:
        """How so many parts may be combined, where there are clusters also by their CTAs.

        On an H200 those of 48 rows by 1280 columns of 1280 halves in 5 parts, by warps, take 5.2 us, by a ticket 6.0.
        """
        if parts == 1 or not self.is_early:
            yield "ticket"
        if parts > 1:
            yield "block"
        if not self.is_early and 1 < parts <= CLUSTER_CTAS and has_feature(self.target, Feature.CLUSTERS):
            yield "cluster"

    def narrowed(self, engine: str, tile: TensorTile, parts: int, over: str) -> Iterator[TensorTile]:
        """A tile, and those whose grid is a few full waves of a CTA for each SM, of more than half its columns.

        The CTAs of a cluster share whole blocks of columns.
        """
        unit = math.lcm(self.columns, COLUMNS * parts) if over == "cluster" else self.columns
        if over != "cluster" or tile.n % unit == 0:
            yield tile
        axes, most = (self.found.m, tile.m) if self.side == "m" else (self.found.n, tile.n)
        extent = extent_or_one(axes[-1])
        down = self.ctas(replace(tile, **{self.side: extent}), parts)
        for waves in range(1, MOST_WAVES * self.products + 1):
            across = waves * self.rates.sms // down
            if reads_slabs(engine) and across:
                columns = -(-extent // (across * unit)) * unit
                if most < 2 * columns < 2 * most:
                    yield tile.narrowed(columns, self.products, self.side)

    def ctas(self, tile: TensorTile, parts: int) -> int:
        """The CTAs of a grid, whose tiles are of the innermost axes."""
        ctas = self.m * self.n * self.batch * parts
        for axes, size in ((self.found.m, tile.m), (self.found.n, tile.n)):
            side = extent_or_one(axes[-1])
            ctas = ctas // side * -(-side // size)
        return ctas

    def grid(self, engine: str, tile: TensorTile, parts: int, over: str) -> TensorGrid | None:
        """The grid of a tile: its steps in full waves, and a last one of fewer CTAs on each SM, and the parts' sum.

        None where parts do not all run at once, or leave no room for the ring.
        """
        ctas = self.ctas(tile, parts)
        is_cluster = over == "cluster"
        pad = 0 if is_cluster and reads_slabs(engine) else PAD
        together = min(tile.occupancy, self.target.fact("threads_per_sm") // self._threads(engine, tile))
        occupancy, depth = self._ring(tile, together, ctas, self._part_bytes(tile) if is_cluster else 0, pad)
        if parts > 1 and ctas > self._at_once(occupancy if is_cluster else tile.occupancy, parts, over):
            return None
        if is_cluster and depth < min(tile.depth, self.steps):
            return None
        waves, rest = divmod(ctas, self.rates.sms * occupancy)
        step = waves * tile.step(occupancy, depth)
        if rest:
            step += tile.step(-(-rest // self.rates.sms), depth)
        steps = -(-self.steps // parts)
        busy = step * steps
        time = max(busy, self._reading(tile)) + (self._sum(tile, parts, over) if parts > 1 else 0)
        room = self.rates.shared_bytes - depth * self._slab_rows(tile) * self.chunk * self.size
        side = self.side if reads_slabs(engine) else "n"
        return TensorGrid(engine, tile, parts, steps, occupancy, depth, time, busy, ctas, room, side, over)

    def _at_once(self, occupancy: int, parts: int, over: str) -> int:
        """The CTAs that run at once; those of a cluster, on SMs of one GPC, of which one may be smaller than others."""
        if over != "cluster" or parts == TPC_SMS:
            return self.rates.sms * occupancy
        return (self.rates.sms // GPC_SMS - 1) * (GPC_SMS * occupancy // parts) * parts

    def _sum(self, tile: TensorTile, parts: int, over: str) -> float:
        """Nanoseconds in which parts are left and added: by the CTAs of a cluster, each a share of its tile; by the
        last CTA of a tile; or by another launch.
        """
        size = self._part_bytes(tile)
        if over == "cluster":
            return CLUSTER_NS + size / CLUSTER_RATE
        moved = self.rates.moving_ns(2 * parts * self.batch * self.m * self.n * 4 * self.products)
        if over == "block":
            return moved + (EARLY_NS if self.is_early else LAUNCH_NS)
        return moved + TICKET_NS + parts * size / LAST_CTA_RATE

    def _part_bytes(self, tile: TensorTile) -> int:
        """The bytes of a tile's sums."""
        m, n = extent_or_one(self.found.m[-1]), extent_or_one(self.found.n[-1])
        return min(tile.m, m) * min(tile.n, n) * 4 * self.products

    def _reading(self, tile: TensorTile) -> float:
        """Nanoseconds in which the factors come from memory, each once; longer where several tiles of rows read one."""
        elements = (self.m + self.n * self.products) * self.batch * (self.found.reduction.trips or 1)
        share = COPY_SHARE if tile.m >= self.m else COPY_SHARE / SHARED_READS
        return self.rates.moving_ns(elements * self.size) / share

    def _ring(self, tile: TensorTile, together: int, ctas: int, left: int, pad: int) -> tuple[int, int]:
        """CTAs per SM, at most `together`, and slabs in flight: the most CTAs, then slabs, that shared memory holds.

        Each CTA of a cluster has so many bytes `left` for others besides, and each row of a slab `pad` more.
        """
        slab = self._slab_rows(tile) * (self.chunk * self.size + pad)
        per_block, per_sm = self.rates.shared_bytes, self.target.fact("shared_per_sm")
        wanted = min(together, -(-ctas // self.rates.sms))
        most = tile.depth if wanted > 1 or ctas > self.rates.sms else MOST_SLABS
        for occupancy in range(wanted, 0, -1):
            for depth in range(min(most, self.steps), 1, -1):
                size = depth * slab + left
                if size <= per_block and occupancy * (size + RESERVED) <= per_sm:
                    return occupancy, depth
        return 1, 1

    def _slab_rows(self, tile: TensorTile) -> int:
        """The rows of all slabs of a step: those of the tile for each buffer that is read along m, or n."""
        rows = {load.source: self.slabs.rows(load, *self._side(tile, is_left)) for load, is_left in self.reads}
        return sum(rows.values())
