"""The heuristic schedule of a contraction of narrow factors: tiles whose products tensor cores take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import extent_or_one, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors
from deplodock.analysis.machine.targets import has_feature
from deplodock.analysis.shape.dependence import is_coordinate, wheres
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.padding import runs_in_chunks
from deplodock.analysis.shape.roles import Contraction, low_read_of
from deplodock.dialects import loop
from deplodock.dialects.engines import MMA, Engine, reads_slabs
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.dialects.swizzle import SPANS
from deplodock.dialects.tile import memory_of
from deplodock.schedule.choose.few_rows import few_rows_options
from deplodock.schedule.choose.sizes import PRODUCER
from deplodock.schedule.choose.tensor_parts import parts_options
from deplodock.schedule.choose.tensor_rules import Rules, product_rules, splitting_factors
from deplodock.schedule.choose.tensor_tiles import (
    CHUNKS,
    LINE_WORDS,
    TensorGrid,
    TensorProblem,
    best_grid,
    right_side,
    tensor_grids,
)
from deplodock.schedule.choose.tiling import fills_lines, takes_boxes

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
