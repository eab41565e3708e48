"""The axes and the body of a streaming reduction that warpgroups compute: `stream-tile{engine=wgmma}`.

    tile.launch (.., %m_b = 16 : block, %m_w = 2 : thread, %m_q = 4 : thread, %m_g = 8 : thread, %d_t = 4 : thread,
                 %d_j = 8 : register, %i_j = 16 : register, %m_h = 2 : register, %d_r = 2 : register,
                 %i_r = 2 : register, %i_t = 4 : lane %d_t, %e_e = 64 : engine, %i_e = 128 : engine,
                 %d_e = 64 : engine) {
      %qs = tile.stage %q[%m_b * 128 + d0, d1]
      %max, %sum, %o = loop.reduce %i_o = 0 to 16 : f32, f32, f32 {
        %ks = tile.stage %k[%i_o * 128 + d0, d1]
        %vs = tile.stage %v[%i_o * 128 + d0, d1]
        %a = loop.load %qs[%m_w * 64 + %m_q * 16 + %m_h * 8 + %m_g, %e_e]
        %b = loop.load %ks[%i_e, %e_e]
        %s = tile.contract wgmma %a * %b over (%e_e) at (%i_e = %i_j * 8 + %i_t * 2 + %i_r) : bf16, bf16 -> f32
        ..
        %ps = arith.truncf %p : f32 to bf16
        %v = loop.load %vs[%i_e, %d_e]
        %c = tile.contract wgmma %ps * %v over (%i_t, %i_j, %i_r)
          at (%d_e = %d_j * 8 + %d_t * 2 + %d_r, %i_e = %i_j * 8 + %i_t * 2 + %i_r) : bf16, bf16 -> f32
        loop.yield %largest, %total, %c

What stands between the products is that of warps (`stream_warps.py`). The engine reads rows, keys and values from their
slabs, values transposed; the weights are the left factor in the registers of the threads that computed them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, subscripts_of
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.roles import factors_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct, weighing
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import WARPGROUPS, WGMMA
from deplodock.dialects.kernel.tma import BOX_UNIT_BYTES
from deplodock.dialects.kernel.wgmma import DEPTH, ROWS
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.tile.edits import Part, append_digit, append_lane, places_at
from deplodock.passes.tile.rule import Skip
from deplodock.passes.tile.stream_engine import EngineTiling, factor_read, moved_read

BLOCK = 8
"""Columns of a result that lie side by side in the lanes of a quad."""


def check_boxes(found: StreamedProduct) -> None:
    """Raises Skip where no box takes the rows of what the engine reads: all slabs of warpgroups come in boxes."""
    (product,) = summed_products(found.scores)
    values = [value for value, _ in weighing(found.reduction) if found.columns in Dependence().of(value)]
    for load in map(factor_read, (*factors_of(product)[0], *values)):
        type = loop.memref_of(load.source)
        if (row := type.get_shape()[-1] * element_bytes(type.element_type)) % BOX_UNIT_BYTES:
            raise Skip(f"{label(load.source)}: rows of {row} bytes are no multiple of the {BOX_UNIT_BYTES} of boxes")


class WarpgroupTiling(EngineTiling):
    """The tile of warpgroups, each of which computes 64 rows: all their scores and outputs."""

    def append_axes(self) -> None:
        """Add the axes of both products' results, and those that only the engine walks."""
        row, column, key = self.hints
        launch, scores = self.launch, self.found.scores
        feature = scores.iv.name_hint or "e"
        extents = [launch.extent(axis) or 1 for axis in self.outer]
        outputs, features = (-(-extent // DEPTH) * DEPTH for extent in (extents[1], scores.trips or 1))
        block = self.axis(-(-extents[0] // self.m), Binding.BLOCK, f"{row}_b")
        group = self.axis(self.m // ROWS, Binding.THREAD, f"{row}_w")
        engine = WARPGROUPS[0]
        lines = [(append_digit(self.rewriter, launch, digit, row), digit) for digit in engine.rows]
        thread, pair = (append_digit(self.rewriter, launch, digit, column) for digit in engine.columns)
        columns = self.axis(outputs // BLOCK, Binding.REGISTER, f"{column}_j")
        keys = self.axis(self.n // BLOCK, Binding.REGISTER, f"{key}_j")
        key_pair = self.axis(2, Binding.REGISTER, f"{key}_r")
        key_lane = append_lane(self.rewriter, launch, thread, f"{key}_t")
        self.feature = self.axis(features, Binding.ENGINE, f"{feature}_e")
        self.key = self.axis(self.n, Binding.ENGINE, f"{key}_e")
        self.column = self.axis(outputs, Binding.ENGINE, f"{column}_e")
        halves = [axis for axis, digit in lines if digit.weight is None]
        threads = [group, *(axis for axis, digit in lines if digit.weight), thread]
        registers = [columns, keys, *halves, pair, key_pair]
        self.own = [block, *threads, *registers, key_lane, self.feature, self.key, self.column]
        first = -self.m if self.grows_along_rows() else self.m
        self.rows = [(block, first), (group, ROWS), *((axis, digit.step) for axis, digit in lines)]
        self.columns = [(columns, BLOCK), (thread, 2), (pair, 1)]
        self.keys = [(keys, BLOCK), (key_lane, 2), (key_pair, 1)]

    def tile_scores(self, key: loop.IndexOp) -> loop.IndexOp:
        """Let one contract stand for the sum, along features that are zero beyond the last."""
        scores = self.found.scores
        (product,) = summed_products(scores)
        rows, keys = (factor_read(factor) for factor in factors_of(product)[0])
        if any(form.depends_on(self.keys[0][0]) for form in subscripts_of(rows)):
            rows, keys = keys, rows
        along: dict[SSAValue, Linear] = {scores.iv: Linear.of(self.feature)}
        loads = moved_read(rows, along), moved_read(keys, {**along, **_as_one(self.keys, self.key)})
        pair = loads[0].result, loads[1].result
        at = places_at({self.key: self.keys})
        contract = tile.ContractOp(WGMMA, [pair], [self.feature], at, scores.results[0].type)
        contract.location, contract.result.name_hint = scores.location, scores.results[0].name_hint
        self.rewriter.insert([*loads], InsertPoint.before(scores))
        self.rewriter.replace(scores, contract)
        return key

    def product(
        self, weights: SSAValue, value: SSAValue, by: arith.MulfOp, key: loop.IndexOp, place: InsertPoint
    ) -> SSAValue:
        """The contract of weights and the values of a step."""
        moved = {**_as_one(self.keys, self.key), **_as_one(self.columns, self.column)}
        load = moved_read(factor_read(value), moved)
        at = places_at({self.column: self.columns, self.key: self.keys})
        (blocks, _), (lane, _), (pair, _) = self.keys
        contract = tile.ContractOp(WGMMA, [(weights, load.result)], [lane, blocks, pair], at, value.type)
        contract.location = by.location
        self.rewriter.insert([load, contract], place)
        return contract.result

    def slab(self, element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
        """Rows side by side; split-inner-for-swizzle lays them out as the engine reads them."""
        return MemRefType(element, shape, memory_space=tile.MemoryAttr(Memory.SHARED))


def _as_one(parts: Sequence[Part], engine: SSAValue) -> dict[SSAValue, Linear]:
    """What makes a coordinate of parts that of an engine axis."""
    *others, (last, _) = parts
    return {**{axis: Linear() for axis, _ in others}, last: Linear.of(engine)}
