"""The rules that lead from a contraction to the products of tensor cores in the tiles of a grid, and their options."""

from __future__ import annotations

from typing import TypeAlias

from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.shape.roles import Contraction
from deplodock.dialects.engines import reads_slabs
from deplodock.schedule.choose.sizes import PRODUCER, RASTER
from deplodock.schedule.choose.tensor_tiles import TensorGrid, is_masked

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
