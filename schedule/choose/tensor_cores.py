"""The heuristic schedule of a contraction of narrow factors: tiles whose products tensor cores take."""

from __future__ import annotations

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors
from deplodock.analysis.machine.targets import has_feature
from deplodock.analysis.machine.warpgroups import NAME as WARPGROUPS
from deplodock.analysis.shape.dependence import is_coordinate, wheres
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import Contraction
from deplodock.dialects import loop
from deplodock.dialects.engines import Engine
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.dialects.swizzle import SPANS
from deplodock.dialects.tile import memory_of
from deplodock.schedule.choose.few_rows import few_rows_options
from deplodock.schedule.choose.sizes import PRODUCER, WARPS
from deplodock.schedule.choose.tensor_parts import parts_options
from deplodock.schedule.choose.tensor_tiles import CHUNKS, LINE_WORDS, RASTER, TensorGrid, best_grid
from deplodock.schedule.choose.tiling import fills_lines, takes_boxes

PERSISTENT_WAVES = 2
"""In more waves of tiles than these, CTAs take several tiles."""


def tensor_options(found: Contraction, nest: Nest, target: TargetAttr) -> dict[str, dict[str, int | str]] | None:
    """The rules for a contraction that tensor cores take, and their options; None for any other."""
    if (row := _engine(found, nest, target)) is None:
        return None
    has_boxes = has_feature(target, Feature.BOXES)
    has_warpgroups = has_boxes and has_feature(target, Feature.WARPGROUPS)
    is_split = any(precision_of(product) == HIGH for product in found.products)
    if (few := few_rows_options(found, row, has_warpgroups and not is_split, target)) is not None:
        return _split(few) if is_split else few
    if (sides := _sides(found, row)) is None:
        return None
    if is_split:
        return parts_options(found, sides, has_boxes, target) if (found.reduction.trips or 0) >= LINE_WORDS else None
    trips = found.reduction.trips
    assert trips is not None
    chunk = next(elements for elements in (size // row.size for size in CHUNKS) if elements <= trips)
    steps = -(-trips // chunk)
    has_lines = fills_lines(found) if row.packed == 2 else takes_boxes(found)
    has_warpgroups = has_warpgroups and steps > 1 and has_lines
    grid = best_grid(found, sides, has_warpgroups, chunk, target)
    is_boxed = has_boxes and (grid.engine != WARPS or takes_boxes(found))
    tile, depth = grid.tile, grid.depth
    m, n = min(tile.m, sides[0]), min(tile.n, sides[1])
    rules: dict[str, dict[str, int | str]] = {"tileify": {}}
    if steps > 1:
        rules["chunk-matmul-k"] = {"bk": chunk, "kv": 1}
    if grid.parts > 1:
        rules["split-matmul-k"] = {"s": grid.parts, "over": grid.over}
    rules["blockify-launch"] = {"m": m, "n": n, "occupancy": grid.occupancy}
    if known_points(found.m) > m:
        rules["blockify-launch"] |= {"raster": RASTER}
    rules["stage-inputs"] = {"memory": "shared", "transpose": "never"}
    rules["tensor-tile"] = {"engine": grid.engine, "m": min(tile.part[0], m), "n": min(tile.part[1], n)}
    if depth > 1:
        boxes: dict[str, dict[str, int | str]] = {"tma-copy": {}, "split-inner-for-swizzle": {}}
        rules |= {"double-buffer": {"depth": depth}, **(boxes if is_boxed else {})}
    rules |= {"async-copy": {}, "pad-smem": {}}
    if depth > 1:
        rules["pipeline-k-outer"] = _pipeline(grid, is_boxed)
    rules["mark-unroll"] = {}
    if rules.get("pipeline-k-outer", {}).get("distance") == PRODUCER and grid.parts == 1:
        rules |= _persistent(grid, nest, (m, n), target)
    return rules


def _split(rules: dict[str, dict[str, int | str]]) -> dict[str, dict[str, int | str]]:
    """The rules with one more behind tensor-tile, which splits factors."""
    split: dict[str, dict[str, int | str]] = {"split-factors": {}}
    return {
        each: options
        for name, own in rules.items()
        for each, options in ({name: own, **split} if name == "tensor-tile" else {name: own}).items()
    }


def _persistent(
    grid: TensorGrid, nest: Nest, tile: tuple[int, int], target: TargetAttr
) -> dict[str, dict[str, int | str]]:
    """That a CTA on each SM takes tiles of so many rows and columns in turn, and stores them in boxes of whole lines.

    So slabs of a tile are on their way while the one before is stored. On an H200, in bf16, that takes 4 % off three
    waves of tiles (98.4 to 94.6 us, 512x3584x18944; 69.9 to 67.7 us, 2048x2048x5632), 2 % off nine, and nothing off
    two long ones (2048x18944x3584). Boxes take off another 1 % (93.6 us), where they need no slot of the ring: one of
    four costs 4 % and more.
    """
    sms = target.fact("sms")
    if grid.ctas <= PERSISTENT_WAVES * sms:
        return {}
    rules: dict[str, dict[str, int | str]] = {"stream-matmul-k": {"ctas": sms, "unit": "tile"}}
    stores = [op for op in nest.body.walk() if isinstance(op, loop.StoreOp)]
    columns = [tile[1] * element_bytes(loop.memref_of(op.destination).element_type) for op in stores]
    if all(row % SPANS[0] == 0 for row in columns) and tile[0] * sum(columns) <= grid.room:
        rules["tma-store"] = {}
    return rules


def _pipeline(grid: TensorGrid, is_boxed: bool) -> dict[str, int | str]:
    """How far copies run ahead of products, or that a producer makes them.

    With a producer, products overlap. On an H200 that takes 35 % off the time of tiles of 64x128 with one CTA on an SM
    (512x2048x2048, bf16), 15 to 24 % off that of 128x128 and 0 to 3 % off that of 128x256. It is chosen for CTAs that
    are alone: two on an SM hide their waits from each other, and share registers that products need.
    """
    tile, depth = grid.tile, grid.depth
    if is_boxed and grid.engine == WARPGROUPS and grid.occupancy == 1:
        return {"distance": PRODUCER}
    if is_boxed and depth > tile.behind:
        return {"distance": depth - tile.behind, "barrier": "mbarrier"}
    return {"distance": depth - 1}


def _engine(found: Contraction, nest: Nest, target: TargetAttr) -> Engine | None:
    """The instruction of a contraction that stands alone in its nest, over all of a known k; None for others."""
    op = found.reduction
    if not has_feature(target, Feature.MMA) or op is not found.innermost or op.trips is None:
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
