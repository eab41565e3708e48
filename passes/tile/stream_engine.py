"""The axes and the body of a streaming reduction that tensor cores compute: `stream-tile{engine=mma}` or `wgmma`.

The columns of the scores are k of the second product, and lie in the lanes where the engine wants them: so weights stay
in registers. A step's are relative to the largest score so far, so sums of earlier steps are scaled in place, and those
of the step add to them. Weights are rounded to the type of the values, which their exponential must allow with
`fastmath<afn>`. Of warps:

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

The engine of warpgroups reads rows, keys and values from their slabs, values transposed, and the sum along the features
is one contract:

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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, MemRefType, StridedLayoutAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, condition_of, extent_or_one, subscripts_of, to_map, to_sides
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence, is_coordinate, wheres
from deplodock.analysis.shape.roles import factors_of, read_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct, weighing
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Engine
from deplodock.dialects.kernel.tma import BOX_UNIT_BYTES
from deplodock.dialects.kernel.wgmma import DEPTH
from deplodock.dialects.precision import precision_of, set_precision_of
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.loop.masks import comparison
from deplodock.passes.tile.edits import Part, append_digit, append_lane, moved_read, places_at, total_of
from deplodock.passes.tile.rule import Skip
from deplodock.passes.tile.stream_steps import StreamTiling
from deplodock.schedule.choose.long_rows import row_pitch


def check_boxes(found: StreamedProduct) -> None:
    """Raises Skip where no box takes the rows of what the engine reads: all slabs of warpgroups come in boxes."""
    (product,) = summed_products(found.scores)
    values = [value for value, _ in weighing(found.reduction) if found.columns in Dependence().of(value)]
    for load in map(factor_read, (*factors_of(product)[0], *values)):
        type = loop.memref_of(load.source)
        if (row := type.get_shape()[-1] * element_bytes(type.element_type)) % BOX_UNIT_BYTES:
            raise Skip(f"{label(load.source)}: rows of {row} bytes are no multiple of the {BOX_UNIT_BYTES} of boxes")


@dataclass
class EngineTiling(StreamTiling):
    """The tile of an engine, whose teams compute whole rows: all their scores and outputs."""

    engine: Engine
    team_rows: int
    """The rows that a warp, or a warpgroup, computes."""
    features: Sequence[Part] = field(init=False)
    """A feature, within what one contract adds up."""
    feature_axes: Sequence[SSAValue] = field(init=False)
    """The axes of features that a contract folds."""
    key_places: Mapping[SSAValue, Sequence[Part]] = field(init=False)
    """The axis of the right factor's columns in the first product, and the parts of the key that it stands for."""
    value_places: Mapping[SSAValue, Sequence[Part]] = field(init=False)
    """The same of the second product; and of k, where the engine walks it."""

    def append_axes(self) -> None:
        """Add the axes of both products' results, whose columns share their lanes, and of what the engine takes."""
        row, column, key = self.hints
        launch, engine = self.launch, self.engine
        extents = [extent_or_one(axis) for axis in self.outer]
        block = self.axis(-(-extents[0] // self.m), Binding.BLOCK, f"{row}_b")
        team = self.axis(self.m // self.team_rows, Binding.THREAD, f"{row}_w")
        digits = {digit: append_digit(self.rewriter, launch, digit, row) for digit in engine.rows}
        thread, pair = (append_digit(self.rewriter, launch, digit, column) for digit in engine.columns)
        slices = self.append_slices()
        atoms = -(-self.whole(extents[1]) // engine.n)
        shares = self.slices if slices and atoms % self.slices == 0 else 1
        columns = self.axis(atoms // shares, Binding.REGISTER, f"{column}_j")
        shared = [self.axis(shares, Binding.REGISTER, f"{column}_s")] if shares > 1 else []
        keys = self.axis(self.n // engine.n, Binding.REGISTER, f"{key}_j")
        several = self.team_rows // engine.m
        tiles = [self.axis(several, Binding.REGISTER, f"{row}_i")] if several > 1 else []
        key_pair = self.axis(engine.held[1], Binding.REGISTER, f"{key}_r")
        key_lane = append_lane(self.rewriter, launch, thread, f"{key}_t")
        threads = [axis for digit, axis in digits.items() if digit.weight is not None]
        halves = [axis for digit, axis in digits.items() if digit.weight is None]
        if slices and extents[0] <= engine.row.extent:
            (self.spare,) = halves
        if shared:
            self.share = shared[0], append_lane(self.rewriter, launch, slices[0], f"{column}_l")
        first = -self.m if self.grows_along_rows() else self.m
        inner = [*((axis, engine.m) for axis in tiles), *((axis, digit.step) for digit, axis in digits.items())]
        self.rows = [(block, first), (team, self.team_rows), *inner]
        blocks = [(columns, engine.n * shares), *((axis, engine.n) for axis in shared)]
        self.columns = [*blocks, (thread, engine.column.step), (pair, 1)]
        self.keys = [(keys, engine.n), (key_lane, engine.column.step), (key_pair, 1)]
        held, taken = self._take_slabs() if engine.reads_slabs else self._take_lanes(thread, digits[engine.row])
        registers = [*tiles, columns, *shared, keys, *halves, pair, key_pair, *held]
        lanes = [key_lane, *taken, *([self.share[1]] if self.share else [])]
        self.own = [block, team, *slices, *threads, thread, *registers, *lanes]

    def whole(self, elements: int) -> int:
        """Elements along a side of a slab, in whole instructions where the engine reads it."""
        return -(-elements // DEPTH) * DEPTH if self.engine.reads_slabs else elements

    def _take_lanes(self, thread: SSAValue, group: SSAValue) -> tuple[list[SSAValue], list[SSAValue]]:
        """Add the registers and the lanes in which threads hold the factors. Returns both."""
        engine, (_, column, key) = self.engine, self.hints
        unit = self.axis(engine.depth // engine.packed, Binding.REGISTER, f"{self.feature}_u")
        near = self.axis(engine.packed, Binding.REGISTER, f"{self.feature}_r")
        lane = append_lane(self.rewriter, self.launch, thread, f"{self.feature}_t")
        keys, columns = (append_lane(self.rewriter, self.launch, group, f"{name}_g") for name in (key, column))
        self.features = [(unit, engine.column.extent * engine.packed), (lane, engine.packed), (near, 1)]
        self.feature_axes = [lane, unit, near]
        self.key_places, self.value_places = {keys: self.keys[1:]}, {columns: self.columns[-2:]}
        return [unit, near], [lane, keys, columns]

    def _take_slabs(self) -> tuple[list[SSAValue], list[SSAValue]]:
        """Add the axes that the engine walks in slabs. Returns no registers, and these."""
        _, column, key = self.hints
        features = self.axis(self.whole(self.found.scores.trips or 1), Binding.ENGINE, f"{self.feature}_e")
        keys = self.axis(self.n, Binding.ENGINE, f"{key}_e")
        columns = self.axis(self.whole(extent_or_one(self.outer[1])), Binding.ENGINE, f"{column}_e")
        self.features, self.feature_axes = [(features, 1)], [features]
        self.key_places, self.value_places = {keys: self.keys}, {columns: self.columns, keys: self.keys}
        return [], [features, keys, columns]

    @property
    def feature(self) -> str:
        """The name of features, for axes."""
        return self.found.scores.iv.name_hint or "e"

    def tile_scores(self, key: loop.IndexOp) -> loop.IndexOp:
        """Let one contract stand for the sum, or one for each instruction; features are zero beyond the last."""
        scores, engine = self.found.scores, self.engine
        (product,) = summed_products(scores)
        rows, keys = (factor_read(factor) for factor in factors_of(product)[0])
        if any(form.depends_on(axis) for form in subscripts_of(rows) for axis, _ in self.keys):
            rows, keys = keys, rows
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = f"{self.feature}_s"
        steps = [] if engine.reads_slabs else [(body.args[0], engine.k)]
        along: dict[SSAValue, Linear] = {scores.iv: total_of([*steps, *self.features])}
        left, right = moved_read(rows, along), moved_read(keys, along | _as_one(self.key_places))
        result = scores.results[0]
        contract = self._contract((left.result, right.result), self.feature_axes, self.key_places, product, result.type)
        contract.location = scores.location
        if engine.reads_slabs:
            self.rewriter.insert([left, right], InsertPoint.before(scores))
            self.rewriter.replace(scores, contract)
            return key
        body.add_ops([left, right, contract, loop.YieldOp(contract.result)])
        assert scores.trips is not None
        made = loop.ReduceOp(-(-scores.trips // engine.k), Region(body), scores.identities, scores.combiner.clone())
        made.properties["unroll"] = UnitAttr()
        made.location = scores.location
        self.rewriter.replace(scores, made)
        return key

    def product(
        self, weights: SSAValue, value: SSAValue, by: arith.MulfOp, key: loop.IndexOp, place: InsertPoint
    ) -> SSAValue:
        """The contract of weights and the values of a step."""
        load = moved_read(factor_read(value), _as_one(self.value_places))
        (blocks, _), (lane, _), (pair, _) = self.keys
        contract = self._contract((weights, load.result), [lane, blocks, pair], self.value_places, by, value.type)
        contract.location = by.location
        self.rewriter.insert([load, contract], place)
        return contract.result

    def _contract(
        self,
        pair: tuple[SSAValue, SSAValue],
        axes: Sequence[SSAValue],
        places: Mapping[SSAValue, Sequence[Part]],
        product: Operation,
        type: Attribute,
    ) -> tile.ContractOp:
        """The contract of a pair of factors over some axes, for a product that a loop sums.

        An engine that reads slabs takes no values of f32, as it reads those along k alone: precision is not for it.
        """
        made = tile.ContractOp(self.engine.name, [pair], axes, places_at(places), type)
        if not self.engine.reads_slabs:
            set_precision_of(made, precision_of(product))
        return made

    def slab(self, element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
        """Rows side by side for an engine that reads slabs: split-inner-for-swizzle lays them out as it reads them.

        Those that threads read are an odd number of 16 bytes apart, so that 8 neighbours lie in different banks.
        """
        memory = tile.MemoryAttr(Memory.SHARED)
        if self.engine.reads_slabs:
            return MemRefType(element, shape, memory_space=memory)
        strides = [1, row_pitch(shape[-1], element_bytes(element))]
        for extent in reversed(shape[1:-1]):
            strides.append(strides[-1] * extent)
        return MemRefType(element, shape, StridedLayoutAttr(strides[: len(shape)][::-1]), memory)

    def grows_along_rows(self) -> bool:
        """Whether elements count from some row on: then CTAs of later rows have more steps, and start first."""
        conditions = [condition_of(where) for where in wheres(self.found.reduction.body.block)]
        return any(condition.depends_on(self.outer[0]) for condition in conditions)

    def unscaled(self, score: SSAValue) -> tuple[SSAValue, SSAValue | None]:
        """A score, or one that a mask replaces by -inf, without the constant that the products are scaled by."""
        op = score.owner
        match op:
            case arith.MulfOp() if isinstance(scale := op.rhs.owner, arith.ConstantOp):
                value = scale.value
                is_positive = isinstance(value, FloatAttr) and 0 < value.value.data < inf
                return (op.lhs, op.rhs) if is_positive else (score, None)
            case arith.SelectOp() if self._is_least(op.rhs):
                raw, factor = self.unscaled(op.lhs)
                if factor is None:
                    return score, None
                condition, place = op.cond, InsertPoint.after(op)
                form = comparison(condition.owner) if isinstance(condition.owner, arith.CmpiOp) else None
                if form is not None and all(map(is_coordinate, form.roots())):
                    inside = loop.InsideOp(*to_map(to_sides([form])))
                    self.rewriter.insert(inside, place)
                    condition, place = inside.result, InsertPoint.after(inside)
                masked = arith.SelectOp(condition, raw, op.rhs)
                masked.location, masked.result.name_hint = op.location, score.name_hint
                self.rewriter.insert(masked, place)
                return masked.result, factor
            case _:
                return score, None

    def _is_least(self, value: SSAValue) -> bool:
        """Whether a value is -inf, the identity of the maximum."""
        return (
            isinstance(value.owner, arith.ConstantOp) and value.owner.value == self.found.reduction.identities.data[0]
        )

    def held(self, weight: SSAValue, place: InsertPoint) -> SSAValue:
        """The weights as factors of the second product."""
        wide = next(value for (value, _), is_wide in zip(self.weights, self.is_wide, strict=True) if is_wide)
        if (type := factor_read(wide).result.type) == weight.type:
            return weight
        rounded = arith.TruncFOp(weight, type)
        rounded.result.name_hint = weight.name_hint
        self.rewriter.insert(rounded, place)
        return rounded.result

    def is_factor(self, load: loop.LoadOp, reduction: loop.ReduceOp) -> bool:
        """Whether contracts alone use a read."""
        return all(isinstance(use.operation, tile.ContractOp) for use in load.result.uses)


def factor_read(factor: SSAValue) -> loop.LoadOp:
    """The read that gives a factor."""
    load = read_of(factor)
    assert load is not None, "factors that are computed are refused"
    return load


def _as_one(places: Mapping[SSAValue, Sequence[Part]]) -> dict[SSAValue, Linear]:
    """What makes coordinates of parts those of the axes that stand for them."""
    moved = {axis: Linear() for parts in places.values() for axis, _ in parts}
    return moved | {parts[-1][0]: Linear.of(axis) for axis, parts in places.items()}
