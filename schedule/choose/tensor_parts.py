"""The heuristic schedule of a product of FP32 factors in parts: the tile of warpgroups, or of warps.

Warpgroups take it where the low part of one factor is stored (`passes/tensor/store_low_parts.py`): that factor's slabs
are the right ones, and the other factor is held by the threads that compute its parts, 64 rows of a warpgroup. So the
orientation follows from the program, and the tile from whose grid ends first.
"""

from __future__ import annotations

from dataclasses import replace

from deplodock.analysis.machine.targets import has_feature
from deplodock.dialects.engines import MMA, WGMMA
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel.wgmma import ROWS
from deplodock.schedule.choose.sizes import PRODUCER
from deplodock.schedule.choose.tensor_rules import Rules, product_rules, splitting_factors
from deplodock.schedule.choose.tensor_tiles import (
    LINE_WORDS,
    PART_TILES,
    TensorGrid,
    TensorProblem,
    TensorTile,
    best_grid,
    grids_of,
)
from deplodock.schedule.choose.tiling import TOLERANCE, takes_boxes

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
