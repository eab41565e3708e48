"""The CTA tile of a contraction, and into how many parts its reduction is split: those whose grid finishes first.

The model adds up waves of CTAs, each at the rate of its tile and of the CTAs that share an SM, and what the parts cost:
their way through memory, and a launch more (`block`) or the time in which the last CTA of a tile adds them (`ticket`).
Sources, measured on an H100 (132 SMs) if no other card is named:

* `PEAK_SHARE`: 50.5 of 66.9 TFLOP/s, 128x128 tiles at 4096x4096x4096
* `IDLE_LOSS`: CTAs with an SM to themselves, on an H200: 417 us for 512x3584x3584 in tiles of 128x128 that would take
  307 with two on an SM, 139 us for 128 rows in tiles of 64x64 (87 with four), 74 us for 32 rows in tiles of 32x32 (38
  with eight). That is 0.74, 0.63 and 0.52 of the full rate: half of it, and half of the share of CTAs that are there
* `START_NS`: the first slabs come after the latency of DRAM, 700 ns, and the launch
* `LAST_CTA_RATE`: one CTA that adds 8 to 10 parts of 64 KB takes 10 to 20 us, its latencies included
* `L2_SPEEDUP`: what one kernel writes and the next reads goes at 5.5 to 7 TB/s below 20 of the 50 MB of L2, else at the
  3.35 of DRAM
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from deplodock.analysis.linear import extent_of
from deplodock.analysis.roles import Contraction, innermost_reduction
from deplodock.dialects.kernel import TargetAttr

CHUNK = 32
"""Elements of k in a slab: fewer spend more on the ring's steps (16 lost to 32, measured on an H100)."""

MAX_PARTS = 16
"""The most parts of k."""

MIN_STEPS = 4
"""The fewest slabs of a part: below, the ring of slabs is hardly full before it drains."""

PEAK_SHARE = 0.755
IDLE_LOSS = 0.5
START_NS = 1000.0
LAST_CTA_RATE = 40.0
L2_SPEEDUP = 1.6
L2_SHARE = 0.4

TOLERANCE = 1.02
"""Fewer parts are taken if they are slower by no more than this factor."""


@dataclass(frozen=True)
class Tile:
    """A CTA tile of m x n outputs, cells_m x cells_n for each thread, meant for `occupancy` CTAs per SM.

    `rate` is the share of the largest tile's speed that it reaches where the grid fills the GPU: measured on an H100 at
    2048x3584x3584, the smallest two estimated.
    """

    m: int
    n: int
    cells_m: int
    cells_n: int
    occupancy: int
    rate: float


TILES = (
    Tile(128, 128, 16, 8, 2, 1.0),
    Tile(64, 128, 8, 8, 3, 0.97),
    Tile(64, 64, 8, 4, 4, 0.88),
    Tile(32, 64, 4, 4, 4, 0.7),
    Tile(32, 32, 4, 4, 8, 0.5),
    Tile(16, 16, 1, 1, 2, 0.16),
)


@dataclass(frozen=True)
class Tiling:
    """A tile, the parts of k, and how they are combined: `block` or `ticket`, as split-matmul-k has it."""

    tile: Tile
    parts: int
    over: str


def best_tiling(found: Contraction, size: int, target: TargetAttr) -> Tiling:
    """The tiling of a contraction whose elements have `size` bytes."""
    problem = _Problem.of(found, size, target)
    tiles = [tile for tile in TILES if tile.cells_m * tile.cells_n * size <= 512]
    options = [Tiling(tile, parts, over) for tile in tiles for parts in problem.parts() for over in ("block", "ticket")]
    times = {option: problem.time(option) for option in options}
    limit = min(times.values()) * TOLERANCE
    good = (option for option in options if times[option] <= limit)
    return min(good, key=lambda option: (option.parts, times[option]))


@dataclass(frozen=True)
class _Problem:
    """The extents of a contraction, and the target. `steps` are the chunks of k, None where they are not known."""

    m: int
    n: int
    batch: int
    steps: int | None
    size: int
    target: TargetAttr

    @staticmethod
    def of(found: Contraction, size: int, target: TargetAttr) -> _Problem:
        m, n, batch = (math.prod(extent_of(axis) or 1 for axis in axes) for axes in (found.m, found.n, found.batch))
        is_single = innermost_reduction(found.reduction) is found.reduction
        trips = found.reduction.trips if is_single else None
        return _Problem(m, n, batch, None if trips is None else -(-trips // CHUNK), size, target)

    def parts(self) -> Iterator[int]:
        """The numbers of parts that may be chosen."""
        yield 1
        yield from range(2, 1 + min(MAX_PARTS, (self.steps or 0) // MIN_STEPS))

    def time(self, tiling: Tiling) -> float:
        """Nanoseconds of the launches."""
        grid = self._grid(tiling.tile, tiling.parts)
        return grid + self._sum(tiling) if tiling.parts > 1 else grid

    def _grid(self, tile: Tile, parts: int) -> float:
        """Nanoseconds of the contraction: full waves, then what is left, spread over the SMs."""
        sms = self.target.fact("sms")
        blocks = parts * self.batch * -(-self.m // tile.m) * -(-self.n // tile.n)
        operations = 2 * tile.m * tile.n * CHUNK * -(-(self.steps or 1) // parts)
        cta = operations * sms / (self.target.fact("fp32_gflops") * PEAK_SHARE * tile.rate)
        waves, left = divmod(blocks, sms * tile.occupancy)
        shared = -(-left // sms)
        last = START_NS + cta * shared / (1 - IDLE_LOSS * (1 - shared / tile.occupancy)) if left else 0
        return waves * (START_NS + cta * tile.occupancy) + last

    def _sum(self, tiling: Tiling) -> float:
        """Nanoseconds to store the parts, to read them and to add them."""
        outputs, parts = self.batch * self.m * self.n * self.size, tiling.parts
        is_cached = parts * outputs <= L2_SHARE * self.target.fact("l2_bytes")
        moved = 2 * parts * outputs / (self.target.fact("dram_gbps") * (L2_SPEEDUP if is_cached else 1))
        if tiling.over == "block":
            return moved + self.target.fact("launch_ns") + START_NS
        return moved + parts * tiling.tile.m * tiling.tile.n * self.size / LAST_CTA_RATE
