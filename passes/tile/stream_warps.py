"""The axes and the body of a streaming reduction that the tensor cores of warps compute: `stream-tile{engine=mma}`.

    tile.launch (.., %m_b = 32 : block, %m_w = 4 : thread, %m_g = 8 : thread, %d_t = 4 : thread, %d_j = 8 : register,
                 %i_j = 8 : register, %m_h = 2 : register, %d_r = 2 : register, %i_r = 2 : register,
                 %e_u = 2 : register, %e_r = 2 : register, %i_t = 4 : lane %d_t, %e_t = 4 : lane %d_t,
                 %i_g = 8 : lane %m_g, %d_g = 8 : lane %m_g) {
      %qs = tile.stage %q[%m_b * 64 + d0, d1]
      %max, %sum, %o = loop.reduce %i_o = 0 to 32 : f32, f32, f32 {
        %ks = tile.stage %k[%i_o * 64 + d0, d1]
        %vs = tile.stage %v[%i_o * 64 + d0, d1]
        %s = loop.reduce {arith.addf} %e_s = 0 to 4 unroll : f32 {
          %a = loop.load %qs[%m_w * 16 + %m_h * 8 + %m_g, %e_s * 16 + %e_u * 8 + %e_t * 2 + %e_r]
          %b = loop.load %ks[%i_j * 8 + %i_g, %e_s * 16 + %e_u * 8 + %e_t * 2 + %e_r]
          %ab = tile.contract mma %a * %b over (%e_t, %e_u, %e_r) at (%i_g = %i_t * 2 + %i_r) : bf16, bf16 -> f32
          loop.yield %ab
        }
        %top = tile.combine {arith.maximumf} %s over (%i_j, %i_r, %i_t)
        %largest = loop.scan {arith.maximumf} %top along (%i_o)
        %p = exp(%s - %largest)
        %total = tile.combine {arith.addf} %p over (%i_j, %i_r, %i_t)
        %ps = arith.truncf %p : f32 to bf16
        %v = loop.load %vs[%i_j * 8 + %i_t * 2 + %i_r, %d_j * 8 + %d_g]
        %c = tile.contract mma %ps * %v over (%i_t, %i_j, %i_r) at (%d_g = %d_t * 2 + %d_r) : bf16, bf16 -> f32
        loop.yield %largest, %total, %c

`stream_engine.py` says why weights stay in registers.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, StridedLayoutAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, subscripts_of
from deplodock.analysis.shape.roles import factors_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Engine
from deplodock.dialects.precision import precision_of, set_precision_of
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.tile.edits import append_lane, total_of
from deplodock.passes.tile.stream_engine import EngineTiling, factor_read, moved_read
from deplodock.schedule.choose.long_rows import row_pitch


class WarpTiling(EngineTiling):
    """The tile of warps, each of which computes whole rows of an instruction: all their scores and outputs."""

    def __init__(
        self,
        rewriter: PatternRewriter,
        launch: tile.LaunchOp,
        found: StreamedProduct,
        rows: SSAValue,
        sizes: tuple[int, int, int],
        engine: Engine,
        warp_rows: int,
    ) -> None:
        self.engine = engine
        self.warp_rows = warp_rows
        super().__init__(rewriter, launch, found, rows, sizes)

    def append_axes(self) -> None:
        """Add the axes of both products' fragments: the scores' columns and the outputs' share their lanes."""
        row, column, key = self.hints
        feature = self.found.scores.iv.name_hint or "e"
        launch, engine = self.launch, self.engine
        extents = [launch.extent(axis) or 1 for axis in self.outer]
        block = self.axis(-(-extents[0] // self.m), Binding.BLOCK, f"{row}_b")
        warp = self.axis(self.m // self.warp_rows, Binding.THREAD, f"{row}_w")
        group = self.axis(engine.row.extent, Binding.THREAD, f"{row}_g")
        thread = self.axis(engine.column.extent, Binding.THREAD, f"{column}_t")
        slices = self.append_slices()
        atoms = -(-extents[1] // engine.n)
        shares = self.slices if slices and atoms % self.slices == 0 else 1
        columns = self.axis(atoms // shares, Binding.REGISTER, f"{column}_j")
        shared = [self.axis(shares, Binding.REGISTER, f"{column}_s")] if shares > 1 else []
        keys = self.axis(self.n // engine.n, Binding.REGISTER, f"{key}_j")
        several = self.warp_rows > engine.m
        tiles = [self.axis(self.warp_rows // engine.m, Binding.REGISTER, f"{row}_i")] if several else []
        half = self.axis(engine.held[0], Binding.REGISTER, f"{row}_h")
        pair = self.axis(engine.held[1], Binding.REGISTER, f"{column}_r")
        self.key_pair = self.axis(engine.held[1], Binding.REGISTER, f"{key}_r")
        self.unit = self.axis(engine.depth // engine.packed, Binding.REGISTER, f"{feature}_u")
        self.near = self.axis(engine.packed, Binding.REGISTER, f"{feature}_r")
        self.key_lane = append_lane(self.rewriter, launch, thread, f"{key}_t")
        self.lane = append_lane(self.rewriter, launch, thread, f"{feature}_t")
        self.key_group = append_lane(self.rewriter, launch, group, f"{key}_g")
        self.column_group = append_lane(self.rewriter, launch, group, f"{column}_g")
        self.thread, self.pair = thread, pair
        if slices and extents[0] <= engine.row.extent:
            self.spare = half
        if shared:
            self.share = shared[0], append_lane(self.rewriter, launch, slices[0], f"{column}_l")
        registers = [*tiles, columns, *shared, keys, half, pair, self.key_pair, self.unit, self.near]
        lanes = [self.key_lane, self.lane, self.key_group, self.column_group, *([self.share[1]] if self.share else [])]
        self.own = [block, warp, *slices, group, thread, *registers, *lanes]
        inner = [*((axis, engine.m) for axis in tiles), (half, engine.row.extent), (group, 1)]
        first = -self.m if self.grows_along_rows() else self.m
        self.rows = [(block, first), (warp, self.warp_rows), *inner]
        blocks = [(columns, engine.n * shares), *((axis, engine.n) for axis in shared)]
        self.columns = [*blocks, (thread, engine.column.step), (pair, 1)]
        self.keys = [(keys, engine.n), (self.key_lane, engine.column.step), (self.key_pair, 1)]

    def tile_scores(self, key: loop.IndexOp) -> loop.IndexOp:
        """Let the sum run in steps of one instruction along the features, which it takes as zero beyond the last."""
        scores, engine = self.found.scores, self.engine
        (product,) = summed_products(scores)
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = f"{scores.iv.name_hint or 'e'}_s"
        across = engine.column.extent * engine.packed
        feature = total_of([(body.args[0], engine.k), (self.unit, across), (self.lane, engine.packed), (self.near, 1)])
        rows, keys = (factor_read(factor) for factor in factors_of(product)[0])
        if any(form.depends_on(self.key_pair) for form in subscripts_of(rows)):
            rows, keys = keys, rows
        moved = {self.key_lane: Linear(), self.key_pair: Linear.of(self.key_group)}
        loads = [moved_read(rows, {scores.iv: feature}), moved_read(keys, {scores.iv: feature, **moved})]
        pair = loads[0].result, loads[1].result
        at = self._at(self.key_group, self.key_lane, self.key_pair)
        axes = [self.lane, self.unit, self.near]
        contract = tile.ContractOp(engine.name, [pair], axes, at, scores.results[0].type)
        contract.location = scores.location
        set_precision_of(contract, precision_of(product))
        body.add_ops([*loads, contract, loop.YieldOp(contract.result)])
        assert scores.trips is not None
        made = loop.ReduceOp(-(-scores.trips // engine.k), Region(body), scores.identities, scores.combiner.clone())
        made.properties["unroll"] = UnitAttr()
        made.location = scores.location
        made.results[0].name_hint = scores.results[0].name_hint
        self.rewriter.replace(scores, made)
        return key

    def product(
        self, weights: SSAValue, value: SSAValue, by: arith.MulfOp, key: loop.IndexOp, place: InsertPoint
    ) -> SSAValue:
        """The contract of weights and the values of a step."""
        load = moved_read(factor_read(value), {self.thread: Linear(), self.pair: Linear.of(self.column_group)})
        at = self._at(self.column_group, self.thread, self.pair)
        (keys, _), *_ = self.keys
        axes = [self.key_lane, keys, self.key_pair]
        contract = tile.ContractOp(self.engine.name, [(weights, load.result)], axes, at, value.type)
        contract.location = by.location
        set_precision_of(contract, precision_of(by))
        self.rewriter.insert([load, contract], place)
        return contract.result

    def slab(self, element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
        """Rows an odd number of 16 bytes apart, so that those of 8 neighbours lie in different banks."""
        pitch = row_pitch(shape[-1], element_bytes(element))
        strides = [1, pitch]
        for extent in reversed(shape[1:-1]):
            strides.append(strides[-1] * extent)
        layout = StridedLayoutAttr(strides[: len(shape)][::-1])
        return MemRefType(element, shape, layout, tile.MemoryAttr(Memory.SHARED))

    def _at(self, moved: SSAValue, thread: SSAValue, pair: SSAValue) -> tile.Places:
        """That the right factor's columns are those of the result."""
        form = AffineExpr.dimension(0) * self.engine.column.step + AffineExpr.dimension(1)
        return tile.Places([moved], AffineMap(2, 0, (form,)), [thread, pair])
