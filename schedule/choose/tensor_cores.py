"""The heuristic schedule of a contraction of 16-bit factors: tiles whose products tensor cores take.

The tile is the one whose grid finishes first. A step of a CTA, 64 elements of k, takes `alone` ns on an SM of its own
and `shared` ns beside as many others as the SM holds; between the two it is taken to grow with their number. Both are
measured on an H200 in boxes (2048x3584x3584, 4096x4096x4096, 512x3584x18944 and 128x3584x3584, bf16); other targets are
taken to have the same ratios. Warpgroups, where there are any, multiply twice as fast as warps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors
from deplodock.analysis.machine.targets import FIRST_WITH, LAST_WITH, RESERVED, capability
from deplodock.analysis.machine.warpgroups import NAME as WARPGROUPS
from deplodock.analysis.shape.dependence import Dependence, is_coordinate, wheres
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import Contraction, read_of
from deplodock.dialects import loop
from deplodock.dialects.engines import Engine
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.tile import memory_of
from deplodock.schedule.choose.few_rows import few_rows_options
from deplodock.schedule.choose.sizes import WARPS
from deplodock.schedule.choose.tiling import takes_boxes

CHUNKS = (64, 32, 16)
"""Elements of k in a slab: 64 make rows of 128 bytes, which swizzles and boxes take whole; fewer where k is short."""

PAD = 8
"""Elements that pad-smem may add to a row of a slab."""

COLUMNS = 8
"""Columns of an instruction: parts have a multiple of them."""

RASTER = 16
"""Row tiles that follow each other, as for other contractions."""


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
    alone: int
    shared: int
    behind: int = 2

    def of_each(self, products: int) -> TensorTile:
        """The tile of several products whose sums take the registers of this one, in as many parts."""
        columns = self.part[1] // products // COLUMNS * COLUMNS
        return replace(self, n=self.n // self.part[1] * columns, part=(self.part[0], columns))


TILES = {
    WARPS: (
        TensorTile(128, 256, (64, 64), occupancy=1, depth=4, alone=1500, shared=1500),
        TensorTile(128, 128, (64, 32), occupancy=2, depth=3, alone=980, shared=1730),
        TensorTile(128, 64, (64, 32), occupancy=2, depth=4, alone=720, shared=910),
        TensorTile(64, 64, (32, 32), occupancy=3, depth=4, alone=510, shared=750),
    ),
    WARPGROUPS: (
        TensorTile(128, 256, (64, 256), occupancy=1, depth=4, alone=810, shared=810),
        TensorTile(128, 128, (64, 128), occupancy=2, depth=3, alone=490, shared=870, behind=1),
        TensorTile(64, 128, (64, 128), occupancy=2, depth=4, alone=400, shared=570, behind=1),
        TensorTile(64, 64, (64, 64), occupancy=3, depth=4, alone=330, shared=600, behind=1),
    ),
}
"""The tiles of each engine."""


def tensor_options(found: Contraction, nest: Nest, target: TargetAttr) -> dict[str, dict[str, int | str]] | None:
    """The rules for a contraction that tensor cores take, and their options; None for any other."""
    if (row := _engine(found, nest, target)) is None:
        return None
    if (few := few_rows_options(found, row, target)) is not None:
        return few
    if (sides := _sides(found, row)) is None:
        return None
    trips = found.reduction.trips
    assert trips is not None
    chunk = next(size for size in CHUNKS if size <= trips)
    steps = -(-trips // chunk)
    is_boxed = capability(target) >= FIRST_WITH[Feature.BOXES] and takes_boxes(found)
    tiles = _tiles(sides, target, is_boxed and steps > 1, len(found.products))
    engine, tile = min(tiles, key=lambda each: _time(each[1], found, target))
    occupancy, depth = _ring(_slab_rows(tile, found) * (chunk + PAD) * 2, tile, steps, target)
    m, n = min(tile.m, sides[0]), min(tile.n, sides[1])
    rules: dict[str, dict[str, int | str]] = {"tileify": {}}
    if steps > 1:
        rules["chunk-matmul-k"] = {"bk": chunk, "kv": 1}
    rules["blockify-launch"] = {"m": m, "n": n, "occupancy": occupancy}
    if known_points(found.m) > m:
        rules["blockify-launch"] |= {"raster": RASTER}
    rules["stage-inputs"] = {"memory": "shared", "transpose": "never"}
    rules["tensor-tile"] = {"engine": engine, "m": min(tile.part[0], m), "n": min(tile.part[1], n)}
    if depth > 1:
        boxes: dict[str, dict[str, int | str]] = {"tma-copy": {}, "split-inner-for-swizzle": {}}
        rules |= {"double-buffer": {"depth": depth}, **(boxes if is_boxed else {})}
    rules |= {"async-copy": {}, "pad-smem": {}}
    if depth > 1:
        late: dict[str, int | str] = {"distance": depth - tile.behind, "barrier": "mbarrier"}
        rules["pipeline-k-outer"] = late if is_boxed and depth > tile.behind else {"distance": depth - 1}
    rules["mark-unroll"] = {}
    return rules


def _tiles(
    sides: tuple[int, int], target: TargetAttr, is_swizzled: bool, products: int
) -> list[tuple[str, TensorTile]]:
    """The tiles for so many rows, columns and products, with their engines; warpgroups read swizzled slabs alone."""
    arch, feature = capability(target), Feature.WARPGROUPS
    has_warpgroups = FIRST_WITH[feature] <= arch <= LAST_WITH.get(feature, arch) and is_swizzled
    fitting = [tile for tile in TILES[WARPGROUPS] if has_warpgroups and tile.m <= sides[0]]
    found = [*((WARPGROUPS, tile) for tile in fitting), *((WARPS, tile) for tile in TILES[WARPS])]
    return [(engine, tile.of_each(products)) for engine, tile in found]


def _engine(found: Contraction, nest: Nest, target: TargetAttr) -> Engine | None:
    """The instruction of a contraction that stands alone in its nest, over all of a known k; None for others."""
    op = found.reduction
    if capability(target) < FIRST_WITH[Feature.MMA] or op is not found.innermost or op.trips is None:
        return None
    loops = [inner for inner in nest.body.walk() if isinstance(inner, loop.LoopLike)]
    if loops != [op] or wheres(op.body.block):
        return None
    try:
        row, pairs = narrow_factors(found, WARPS)
    except NoAtomError:
        return None
    loads = [load for pair in pairs for load in pair]
    is_staged = all(one.source is not other.source for one, other in pairs)
    is_staged = is_staged and all(_is_read_only(load.source) for load in loads)
    roots = [root for load in loads for form in subscripts_of(load) for root in form.roots()]
    return row if is_staged and all(map(is_coordinate, roots)) and op.trips >= row.k else None


def _is_read_only(buffer: SSAValue) -> bool:
    """Whether a kernel only reads a buffer, of global memory."""
    return memory_of(buffer) is None and all(isinstance(use.operation, loop.LoadOp) for use in buffer.uses)


def _sides(found: Contraction, row: Engine) -> tuple[int, int] | None:
    """The most rows and columns, of whole instructions, along the innermost axes of both; None where there are none."""
    m, n = (extent_or_one(axes[-1]) for axes in (found.m, found.n))
    return (m // row.m * row.m, n // row.n * row.n) if m >= row.m and n >= row.n else None


def _slab_rows(tile: TensorTile, found: Contraction) -> int:
    """The rows of all slabs of a step: those of the tile for each buffer that is read along m, or n."""
    dependence, rows = Dependence(), dict[SSAValue, int]()
    for factor in (factor for pair in found.factors for factor in pair):
        if (load := read_of(factor)) is not None:
            is_left = any(axis in found.m for axis in dependence.of(factor))
            rows[load.source] = tile.m if is_left else tile.n
    return sum(rows.values())


def _ring(slab: int, tile: TensorTile, steps: int, target: TargetAttr) -> tuple[int, int]:
    """CTAs per SM and slabs of some bytes in flight: the most CTAs, then the most slabs, that shared memory holds."""
    per_block, per_sm = target.fact("shared_per_block"), target.fact("shared_per_sm")
    for occupancy in range(tile.occupancy, 0, -1):
        for depth in range(min(tile.depth, steps), 1, -1):
            if depth * slab <= per_block and occupancy * (depth * slab + RESERVED) <= per_sm:
                return occupancy, depth
    return 1, 1


def _time(tile: TensorTile, found: Contraction, target: TargetAttr) -> float:
    """The time of a step of the whole grid, in ns: full waves, and a last one of fewer CTAs on each SM."""
    sms = target.fact("sms")
    m, n, batch = map(known_points, (found.m, found.n, found.batch))
    tiles = -(-m // tile.m) * -(-n // tile.n) * batch
    occupancy, _ = _ring(_slab_rows(tile, found) * (CHUNKS[0] + PAD) * 2, tile, tile.depth, target)
    waves, left = divmod(tiles, sms * occupancy)
    return waves * _step(tile, occupancy) + (_step(tile, -(-left // sms)) if left else 0.0)


def _step(tile: TensorTile, ctas: int) -> float:
    """The time of a step of so many CTAs on one SM, in ns."""
    others = (ctas - 1) / (tile.occupancy - 1) if tile.occupancy > 1 else 0.0
    return tile.alone + (tile.shared - tile.alone) * others
