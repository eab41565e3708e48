"""The heuristic schedule of a contraction of narrow factors: tiles whose products tensor cores take.

FP32 factors are multiplied in parts. Warpgroups take such a product where the low part of one factor is stored
(`passes/tensor/store_low_parts.py`): that factor's slabs are the right ones, and the other factor is held by the
threads that compute its parts, 64 rows of a warpgroup. So the orientation follows from the program, and the tile from
whose grid ends first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors
from deplodock.analysis.machine.targets import has_feature
from deplodock.analysis.shape.dependence import is_coordinate, wheres
from deplodock.analysis.shape.masking import runs_in_chunks
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import Contraction, low_read_of
from deplodock.dialects import loop
from deplodock.dialects.buffers import SPANS
from deplodock.dialects.engines import MMA, WGMMA, Engine, reads_slabs
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.wgmma import ROWS
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.dialects.tile import memory_of
from deplodock.schedule.choose.few_rows import few_rows_options
from deplodock.schedule.choose.sizes import PRODUCER, RASTER
from deplodock.schedule.choose.tensor_tiles import (
    CHUNKS,
    LINE_WORDS,
    PART_TILES,
    TensorGrid,
    TensorProblem,
    TensorTile,
    best_grid,
    grids_of,
    is_masked,
    right_side,
    tensor_grids,
)
from deplodock.schedule.choose.tiling import TOLERANCE, fills_lines, takes_boxes

PERSISTENT_WAVES = 2
"""In more waves of tiles than these, CTAs take several tiles."""


def tensor_options(found: Contraction, nest: Nest, target: TargetAttr) -> Rules | None:
    """The rules for a contraction that tensor cores take, and their options; None for any other."""
    if (row := _engine(found, nest, target)) is None:
        return None
    is_split = _is_split(found)
    if is_split and any(low_read_of(factor) is not None for factor in found.operands):
        return _parts_options(found, row, target)
    if (few := few_rows_options(found, row, _has_warpgroups(target), target, is_split=is_split)) is not None:
        return splitting_factors(few) if is_split else few
    if is_split:
        return _parts_options(found, row, target)
    if (product := _TensorProduct.of(found, nest, row, target)) is None:
        return None
    grids = product.grids()
    return product.options(best_grid(grids)) if grids else None


def tensor_alternatives(found: Contraction, nest: Nest, target: TargetAttr) -> Iterator[tuple[Rules, float]]:
    """The rules and options of all grids for tensor cores, of many rows, and the nanoseconds of each."""
    row = _engine(found, nest, target)
    if row is None or _is_split(found):
        return
    if (product := _TensorProduct.of(found, nest, row, target)) is not None:
        for grid in product.grids():
            yield product.options(grid), grid.time


def _is_split(found: Contraction) -> bool:
    """Whether factors of FP32 are split into parts."""
    return any(precision_of(product) == HIGH for product in found.products)


def _parts_options(found: Contraction, row: Engine, target: TargetAttr) -> Rules | None:
    """The rules for a contraction of parts of many rows; None where there is no whole instruction or chunk of k."""
    sides = _sides(found, row)
    is_short = (found.reduction.trips or 0) < LINE_WORDS
    if sides is None or is_short or not runs_in_chunks(found.reduction, LINE_WORDS):
        return None
    return parts_options(TensorProblem.of(found, row, sides, LINE_WORDS, target))


def _has_warpgroups(target: TargetAttr) -> bool:
    """Whether a target has warpgroups, and the boxes that fill their slabs."""
    return has_feature(target, Feature.BOXES) and has_feature(target, Feature.WARPGROUPS)


@dataclass(frozen=True)
class _TensorProduct:
    """A contraction that tensor cores take in tiles of some rows and columns."""

    found: Contraction
    nest: Nest
    target: TargetAttr
    row: Engine
    sides: tuple[int, int]
    """The most rows and columns of a tile."""
    chunk: int
    """Elements of k in a slab."""
    steps: int

    @staticmethod
    def of(found: Contraction, nest: Nest, row: Engine, target: TargetAttr) -> _TensorProduct | None:
        """None where there is no whole instruction or chunk of k."""
        trips = found.reduction.trips
        assert trips is not None
        short = (elements for size in CHUNKS if (elements := size // row.size) <= trips)
        chunk = next((elements for elements in short if runs_in_chunks(found.reduction, elements)), None)
        if (sides := _sides(found, row)) is None or chunk is None:
            return None
        return _TensorProduct(found, nest, target, row, sides, chunk, -(-trips // chunk))

    def grids(self) -> list[TensorGrid]:
        """The grids to choose from."""
        is_read = fills_lines(self.found) if self._takes_lines else takes_boxes(self.found)
        has_warpgroups = _has_warpgroups(self.target) and self.steps > 1 and is_read
        return tensor_grids(TensorProblem.of(self.found, self.row, self.sides, self.chunk, self.target), has_warpgroups)

    @property
    def _takes_lines(self) -> bool:
        """Whether factors may lie along the output's axes: halves, and one of FP32, which threads hold."""
        return self.row.packed == 2 or (self.row.packed == 1 and right_side(self.found) is not None)

    def options(self, grid: TensorGrid) -> Rules:
        """The rules of a grid and their options."""
        is_boxed = has_feature(self.target, Feature.BOXES) and (reads_slabs(grid.engine) or takes_boxes(self.found))
        chunk = self.chunk if self.steps > 1 else None
        rules = product_rules(self.found, grid, self.sides, chunk, is_boxed=is_boxed)
        if rules.get("pipeline-k-outer", {}).get("distance") == PRODUCER and grid.parts == 1:
            rules |= _persistent(grid, self.nest, grid.within(self.sides), self.target)
        return rules


def _persistent(grid: TensorGrid, nest: Nest, tile: tuple[int, int], target: TargetAttr) -> Rules:
    """That a CTA on each SM takes tiles of so many rows and columns in turn, and stores them in boxes of whole lines.

    So slabs of a tile are on their way while the one before is stored. On an H200, in bf16, that takes 4 % off three
    waves of tiles (98.4 to 94.6 us, 512x3584x18944; 69.9 to 67.7 us, 2048x2048x5632), 2 % off nine, and nothing off
    two long ones (2048x18944x3584). Boxes take off another 1 % (93.6 us), where they need no slot of the ring: one of
    four costs 4 % and more.
    """
    sms = target.fact("sms")
    if grid.ctas <= PERSISTENT_WAVES * sms:
        return {}
    rules: Rules = {"stream-matmul-k": {"ctas": sms, "unit": "tile"}}
    stores = [op for op in nest.body.walk() if isinstance(op, loop.StoreOp)]
    columns = [tile[1] * element_bytes(loop.memref_of(op.destination).element_type) for op in stores]
    if all(row % SPANS[0] == 0 for row in columns) and tile[0] * sum(columns) <= grid.room:
        rules["tma-store"] = {}
    return rules


def _engine(found: Contraction, nest: Nest, target: TargetAttr) -> Engine | None:
    """The instruction of a contraction that stands alone in its nest, over all of a known k; None for others."""
    op = found.reduction
    if not has_feature(target, Feature.MMA) or op is not found.innermost or op.trips is None:
        return None
    loops = [inner for inner in nest.body.walk() if isinstance(inner, loop.LoopLike)]
    if loops != [op] or wheres(op.body.block):
        return None
    try:
        row, pairs = narrow_factors(found, MMA)
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


Rules: TypeAlias = dict[str, dict[str, int | str]]
"""Rules by name, in their order, with their options."""


def product_rules(
    found: Contraction, grid: TensorGrid, sides: tuple[int, int], chunk: int | None, *, is_boxed: bool
) -> Rules:
    """The rules of a contraction whose tiles have at most so many rows and columns.

    `chunk` is the elements of k in a slab, None where one slab has all; `is_boxed` is whether boxes can fill them.
    """
    m, n = grid.within(sides)
    part, has_ring = grid.tile.part if grid.side == "n" else grid.tile.part[::-1], grid.depth > 1
    rules: Rules = {"tileify": {}}
    if chunk is not None:
        rules["chunk-matmul-k"] = {"bk": chunk, "kv": 1}
    if grid.parts > 1:
        rules["split-matmul-k"] = {"s": grid.parts, "over": grid.over}
    rules["blockify-launch"] = {"m": m, "n": n, "occupancy": grid.occupancy}
    if known_points(found.m) > m:
        rules["blockify-launch"] |= {"raster": RASTER}
    rules["stage-inputs"] = {"memory": "shared", "transpose": "never"}
    rules["tensor-tile"] = {"engine": grid.engine, "m": min(part[0], m), "n": min(part[1], n)}
    if grid.side == "m":
        rules["tensor-tile"] |= {"rows": "n"}
    if has_ring:
        rules["double-buffer"] = {"depth": grid.depth}
    if has_ring and is_boxed:
        rules |= {"tma-copy": {}, "split-inner-for-swizzle": {}}
    rules |= {"async-copy": {}, "pad-smem": {}}
    if has_ring:
        rules["pipeline-k-outer"] = pipeline_options(grid, is_boxed, is_masked(found))
    rules["mark-unroll"] = {}
    return rules


def splitting_factors(rules: Rules) -> Rules:
    """The rules with one more behind tensor-tile, which splits factors."""
    split: Rules = {"split-factors": {}}
    return {
        each: options
        for name, own in rules.items()
        for each, options in ({name: own, **split} if name == "tensor-tile" else {name: own}).items()
    }


def pipeline_options(grid: TensorGrid, is_boxed: bool, is_masked: bool) -> dict[str, int | str]:
    """How far copies run ahead of products, or that a producer makes them.

    With a producer, products overlap. On an H200 that takes 35 % off the time of tiles of 64x128 with one CTA on an SM
    (512x2048x2048, bf16), 15 to 24 % off that of 128x128 and 0 to 3 % off that of 128x256. It is chosen for CTAs that
    are alone: two on an SM hide their waits from each other, and share registers that products need. There is none
    where a mask leaves out tiles.

    Copies of all steps of a part run ahead of them, but not more: with as many as steps there is no ring (48 rows by
    1280 columns of 1280 halves in 5 parts of 4 steps take 8.1 us on an H200, in 5 of 8 shorter steps 6.0).
    """
    tile, depth = grid.tile, grid.depth
    if is_boxed and reads_slabs(grid.engine) and grid.occupancy == 1 and not is_masked:
        return {"distance": PRODUCER}
    if is_boxed and depth > tile.behind:
        return {"distance": min(depth - tile.behind, grid.steps - 1), "barrier": "mbarrier"}
    return {"distance": min(depth, grid.steps) - 1}


STREAM_NS = 3000.0
"""What CTAs that share the steps of all tiles take for their parts, besides moving them: one ends a tile of its own and
one that another began."""

STREAM_STEP = 1.35
"""How much longer their steps take: on an H200 512x3584x3584 takes 127 us in 95 of them, and 112 in 112 plain ones."""


def parts_options(problem: TensorProblem) -> Rules | None:
    """The rules for a product in parts, in chunks of `LINE_WORDS`, and their options; None where no tile suits it."""
    found, sides, target = problem.found, problem.sides, problem.target
    has_boxes = has_feature(target, Feature.BOXES)
    right = problem.right if has_boxes and problem.steps > 1 else None
    tiles = _warpgroup_tiles(sides, right) if right is not None else []
    tiles = [each for each in tiles if problem.takes(*each)]
    if not tiles:
        right = None
        tiles = [(MMA, tile) for tile in PART_TILES[MMA]]
    is_early = right is not None and has_feature(target, Feature.EARLY_LAUNCHES)
    problem = replace(problem, is_early=is_early)
    if not (grids := grids_of(problem, tiles)):
        return None
    grid = best_grid(grids)
    streams = [_streamed(problem, tile, grid) for _, tile in tiles if right is not None]
    streamed = min(filter(None, streams), key=lambda stream: stream.time, default=None)
    grid = streamed or grid
    is_boxed = right is not None or (has_boxes and takes_boxes(found))
    rules = splitting_factors(product_rules(found, grid, sides, LINE_WORDS, is_boxed=is_boxed))
    if right is not None and grid.depth > 1 and not problem.is_masked:
        rules["pipeline-k-outer"] = {"distance": PRODUCER}
    if streamed is not None:
        rules["stream-matmul-k"] = {"ctas": problem.rates.sms}
    if is_early:
        rules["start-early"] = {}
    return rules


def _streamed(problem: TensorProblem, tile: TensorTile, best: TensorGrid) -> TensorGrid | None:
    """The grid whose CTAs share the steps of all tiles, if that ends before the best one; None if it does not."""
    tiles, sms = problem.ctas(tile, 1), problem.rates.sms
    length = -(-tiles * problem.steps // sms)
    if length < 2 * tile.depth:
        return None
    parts = 2 * sms * tile.m * tile.n * 4
    time = length * tile.step(1, tile.depth) * STREAM_STEP + STREAM_NS + problem.rates.moving_ns(2 * parts)
    if time >= best.time / TOLERANCE:
        return None
    return replace(best, tile=tile, parts=1, occupancy=1, depth=tile.depth, time=time)


def _warpgroup_tiles(sides: tuple[int, int], right: str) -> list[tuple[str, TensorTile]]:
    """The tiles of warpgroups whose columns run along this side of the output, none wider than one that has it all."""
    found: list[tuple[str, TensorTile]] = []
    rows, columns = sides if right == "n" else sides[::-1]
    fitting = [tile for tile in PART_TILES[WGMMA] if tile.m <= rows]
    for tile in fitting:
        if any(other.m == tile.m and columns <= other.n < tile.n for other in fitting):
            continue
        narrow = replace(tile, n=min(tile.n, columns), part=(ROWS, min(tile.n, columns)))
        found.append((WGMMA, narrow.along(right)))
    return found
