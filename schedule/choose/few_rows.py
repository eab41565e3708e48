"""The heuristic schedule of a product of few rows, as of a model that makes one token for each of some requests.

Such a product reads its weights once, so its time is that of their bytes, as long as enough of them are on their way:
at 4.8 TB/s and the 1 us of a read under load, 36 KB for each of 132 SMs. A lane keeps `READS` accesses of 16 bytes in
flight, a warp 4 KB, and the 16 warps that an SM holds at 128 registers 64 KB. So weights go from memory straight to the
fragments of `mma`, with the columns of the output as the rows of the instruction: a ring of slabs would hold as many
bytes in shared memory, but pay a wait, an arrival and the start of boxes in each step, and few CTAs of large tiles end
together. The warps of a CTA share k, as they are more than the tiles, and add their sums once.

The tile is the one whose grid ends first, by bytes from DRAM, by those from L2, where every CTA reads all rows of the
other factor, and by the steps along k, each of which waits for memory once; nothing hides the wait of the first one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from deplodock.analysis.affine.linear import extent_or_one, known_points
from deplodock.analysis.machine.atoms import walks_neighbours
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import L2_BYTES_PER_CYCLE
from deplodock.analysis.shape.roles import Contraction, read_of
from deplodock.dialects.engines import Engine
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import READS, WARPS

MOST_ROWS = 32
"""Above, the fragments of the rows take more registers than those of the weights."""

SM_WARPS = 16
"""Warps of an SM, of 128 registers a lane."""

STEP_NS = 1300.0
"""The time of a step: a read from DRAM under load, the products behind it."""

L2_SHARE = 0.65
"""The share of the peak of L2 that an SM gets while all read: 82 bytes a ns, measured on an H200 on 64 x 64 slabs."""

TOLERANCE = 1.03
"""Tiles with more bytes on their way are taken if they are slower by no more than this factor."""


@dataclass(frozen=True)
class FewRows:
    """A CTA tile of `n` columns of each of some products, whose k `slices` warps share."""

    n: int
    slices: int
    products: int

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
        """The elements of k of a step: of each lane, `READS` accesses along the columns of a warp."""
        return self.slices * READS * 256 // (self.side * self.products)


def few_rows_options(found: Contraction, row: Engine, target: TargetAttr) -> dict[str, dict[str, int | str]] | None:
    """The rules for a product of few rows by weights that are read along k, and their options; None for any other."""
    m, n, k = extent_or_one(found.m[-1]), extent_or_one(found.n[-1]), found.reduction.trips
    reads = [read for factor in found.operands if (read := read_of(factor)) is not None]
    is_near = all(walks_neighbours(read, found.innermost.iv) for read in reads)
    if not (m <= MOST_ROWS and n >= row.m and k is not None and is_near):
        return None
    tiles = [FewRows(n, slices, len(found.products)) for n in (16, 32, 64) for slices in (1, 2, 4, 8, 16)]
    tiles = [tile for tile in tiles if tile.chunk <= k and tile.n <= n and tile.warps <= SM_WARPS]
    if not tiles:
        return None
    problem = _Reading.of(found, target)
    times = {tile: problem.time(tile) for tile in tiles}
    good = [tile for tile in tiles if times[tile] <= min(times.values()) * TOLERANCE]
    tile = min(good, key=lambda tile: (-problem.warps(tile), times[tile]))
    padded = -(-m // row.n) * row.n
    return {
        "tileify": {},
        **({"chunk-matmul-k": {"bk": tile.chunk, "kv": 1}} if tile.chunk < k else {}),
        "blockify-launch": {"m": m, "n": tile.n, "occupancy": SM_WARPS // tile.warps},
        "tensor-tile": {"engine": WARPS, "m": padded, "n": tile.side, "rows": "n", "slices": tile.slices},
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

    def warps(self, tile: FewRows) -> int:
        """The warps of the first wave, each with as many bytes on their way as any other."""
        return next(self._waves(tile)) * tile.warps

    def _waves(self, tile: FewRows) -> Iterator[int]:
        """The CTAs of each wave."""
        ctas, slots = -(-self.n // tile.n) * self.batch, self.rates.sms * (SM_WARPS // tile.warps)
        for start in range(0, ctas, slots):
            yield min(slots, ctas - start)

    def _wave(self, tile: FewRows, ctas: int) -> float:
        weights, rows = ctas * tile.n * tile.products * self.k * 2, ctas * self.m * self.k * 2
        sms = min(ctas, self.rates.sms)
        cached = (weights + rows) / (sms * L2_BYTES_PER_CYCLE * L2_SHARE * self.rates.cycles)
        shared = SM_WARPS * 2 * tile.side * tile.products * self.m * 4 / 128 / self.rates.cycles
        steps = math.ceil(self.k / tile.chunk)
        return max(max(weights / self.rates.bytes, cached) + STEP_NS, steps * STEP_NS) + shared
