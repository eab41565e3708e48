"""stream-tile: let a CTA run a streaming reduction of products, such as attention, in steps of a few keys.

    tile.launch (%m = 2048 : thread,                 tile.launch (%m_b = 32 : block, %m_t = 16 : thread,
                 %d = 64 : thread) {                              %d_t = 16 : thread, %m_r = 4 : register, ..,
                                                                  %i_t = 16 : lane %d_t) {
      %max, %sum, %o = loop.reduce                     %qs = tile.stage %q[%m_b * 64 + d0, d1]
        %i = 0 to 2048 : .. {                          %max, %sum, %o = loop.reduce %i_o = 0 to 32 : .. {
        %s = loop.reduce {arith.addf} %e = 0 to 64       %ks = tile.stage %k[%i_o * 64 + d0, d1]
          : f32 {                                        %vs = tile.stage %v[%i_o * 64 + d0, d1]
          .. %q[%m, %e] * %k[%i, %e]            ->       %s = .. %qs[..] * %ks[..]
        }                                                %top = tile.combine {arith.maximumf} %s over (%i_r, %i_t)
        %c = loop.load %v[%i, %d]                        %p = exp(%s - %top)
        loop.yield %s, %one, %c                          %total = tile.combine {arith.addf} %p over (%i_r, %i_t)
      } combine (..) identity [..] {..}                  %ps = tile.keep %p[%m, %i]
                                                         %c = .. %ps[..] * %vs[..]
                                                         loop.yield %top, %total, %c

A thread computes several scores and several outputs. Scores lie on the threads that hold the columns of the outputs: a
lane axis. So the largest score of a row is a fold of registers and lanes, and only the weights go through shared
memory, where all threads of their row read them. A step is an element of the streaming reduction: its maximum, the sum
of its weights, and its weighted sums.

Where scores and values vary along the same axes, as for a single query, the rows are heads that share their keys. With
`s` that many CTAs share the keys of a row: a tile.combine folds what they leave, in the last of them.

What conditions on keys leave out has the score -inf, as have the keys of the last step beyond the row; where the
conditions are upper bounds that grow with the rows, steps of which the tile needs nothing do not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, MemRefType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import (
    Linear,
    condition_of,
    equal,
    form_of_value,
    least,
    subscripts_of,
    to_map,
    to_sides,
)
from deplodock.analysis.machine.targets import target_at
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.footprint import shared_footprint
from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.streaming import StreamedProduct, limits, streamed_product, weighing
from deplodock.dialects import loop, scalar_regions, tile
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.copying import copied, erase_dead
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import (
    Axis,
    append_axis,
    append_lane,
    drop_axis,
    read_from,
    rebind,
    recompute,
    reorder,
    split_axis,
    split_loop,
)
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, staged
from deplodock.passes.tile.tile_bounds import greatest
from deplodock.schedule.choose.sizes import STREAM_KEYS, STREAM_LANES, STREAM_ROWS, VECTOR
from deplodock.schedule.choose.streaming import stream_bytes, weights_pitch

Part = tuple[SSAValue, int]
"""An axis and what a step along it adds to a coordinate."""


@dataclass(frozen=True)
class StreamTilePass(LaunchRule):
    """Let a CTA run a streaming reduction of products in steps of a few keys."""

    name = "stream-tile"
    m: int = option(
        STREAM_ROWS, Integers((16, 32, 64, 128), STREAM_LANES, STREAM_LANES), "rows of the output that a CTA computes"
    )
    n: int = option(STREAM_KEYS, Integers((16, 32, 64), STREAM_LANES, STREAM_LANES), "elements of the row in a step")
    s: int = option(1, Integers((1, 2, 4)), "CTAs that share a row; the last one of a tile combines what they leave")

    def rewrite_launch(self, launch: tile.LaunchOp) -> None:
        found = _found(launch)
        need, most = stream_bytes(found, self.m, self.n), target_at(launch).fact("shared_per_block")
        if need > most:
            raise Skip(f"its tile takes {need} bytes of shared memory, above the {most} of a CTA; give m or n")
        _Tiling(launch, found, _rows_of(launch, found), self).run()


def _found(launch: tile.LaunchOp) -> StreamedProduct:
    """The streaming reduction of a launch. Raises Skip where there is none that the rule can tile."""
    if launch.carried_axes():
        raise NothingToDo("the launch has lane axes already")
    if (found := streamed_product(launch_nest(launch))) is None:
        raise Skip("the launch has no streaming reduction of products")
    if staged(launch) or any(launch.binding(axis) is not Binding.THREAD for axis in launch.axes):
        raise Skip("its points are divided already; stream-tile runs behind tileify")
    if (free := next((axis for axis in launch.axes if launch.extent(axis) is None), None)) is not None:
        raise Skip(f"the extent of {label(free)} is not constant")
    return found


def _rows_of(launch: tile.LaunchOp, found: StreamedProduct) -> SSAValue:
    """The axis of rows: where there is none, one is made of neighbours that share their keys, or of one row."""
    if found.rows is not None:
        return found.rows
    if found.shared is None:
        return append_axis(launch, Axis(1, Binding.THREAD, "row"))
    axis, count = found.shared
    _, rows = split_axis(launch, axis, count, Binding.THREAD, Binding.THREAD)
    for load in [op for op in found.reduction.body.walk() if isinstance(op, loop.LoadOp)]:
        read_from(load, load.source, subscripts_of(load))
    return rows


class _Tiling:
    """One rewrite: the axes of the tile, the steps, and what is kept on chip."""

    def __init__(self, launch: tile.LaunchOp, found: StreamedProduct, rows: SSAValue, rule: StreamTilePass) -> None:
        self.launch = launch
        self.found = found
        self.m, self.n, self.s = rule.m, rule.n, rule.s
        self.outer = rows, found.columns
        """The axes that the tile divides."""
        self.hints = [axis.name_hint or "a" for axis in (*self.outer, found.reduction.iv)]
        self.weights = weighing(found.reduction)
        self.limits = limits(found.reduction)
        dependence = Dependence()
        self.is_wide = [found.columns in dependence.of(value) for value, _ in self.weights]
        """For each value that the reduction weighs, whether it varies along the columns."""
        self._append_axes()

    def run(self) -> None:
        """Rewrite the launch."""
        others = [axis for axis in self.launch.axes if axis not in (*self.outer, *self.own)]
        for axis, parts in zip(self.outer, (self.rows, self.columns), strict=True):
            extent = self.launch.extent(axis) or 1
            points = 1 + sum(stride * ((self.launch.extent(part) or 1) - 1) for part, stride in parts)
            recompute(axis, parts, self.launch.body.block, extent if points > extent else None)
        for axis in others:
            rebind(self.launch, axis, Binding.BLOCK)
        self._stage(self._run_in_steps())
        for axis in self.outer:
            assert isinstance(axis, BlockArgument)
            drop_axis(self.launch, axis)
        reorder(self.launch, [*others, *self.own])

    def _append_axes(self) -> None:
        """Add the axes of the tile: the rows and the keys of a thread lie apart, so that those of lanes are near."""
        row, column, key = self.hints
        launch, lanes = self.launch, STREAM_LANES
        extents = [launch.extent(axis) or 1 for axis in self.outer]
        vector = next(width for width in (VECTOR, 2, 1) if extents[1] % width == 0)

        def axis(extent: int, binding: Binding, name: str) -> SSAValue:
            return append_axis(launch, Axis(extent, binding, name))

        block = axis(-(-extents[0] // self.m), Binding.BLOCK, f"{row}_b")
        row_thread, thread = axis(lanes, Binding.THREAD, f"{row}_t"), axis(lanes, Binding.THREAD, f"{column}_t")
        rows = axis(self.m // lanes, Binding.REGISTER, f"{row}_r")
        strips = axis(-(-extents[1] // (lanes * vector)), Binding.REGISTER, f"{column}_r")
        neighbours = axis(vector, Binding.REGISTER, f"{column}_v")
        keys = axis(self.n // lanes, Binding.REGISTER, f"{key}_r")
        lane = append_lane(launch, thread, f"{key}_t")
        parts = [axis(self.s, Binding.BLOCK, f"{key}_p")] if self.s > 1 else []
        self.own = [*parts, block, row_thread, thread, rows, strips, neighbours, keys, lane]
        self.rows: list[Part] = [(block, self.m), (rows, lanes), (row_thread, 1)]
        self.columns: list[Part] = [(strips, lanes * vector), (thread, vector), (neighbours, 1)]
        self.keys: list[Part] = [(keys, lanes), (lane, 1)]
        steps = -(-(self.found.reduction.trips or 0) // self.n)
        self.steps = -(-steps // self.s)
        """The steps of a CTA, at most."""
        self.parts: list[Part] = [(part, self.steps * self.n) for part in parts]
        """The axis of the CTAs that share a row, and the keys of each."""

    def _run_in_steps(self) -> loop.ReduceOp:
        """Let the reduction run in steps of a few elements. Returns it."""
        old = self.found.reduction
        body, trips = old.body.block, old.trips or 0
        conditions = [condition_of(where) for where in wheres(body)]
        for where in wheres(body):
            Rewriter.erase_op(where)
        _split(self.found.scores)
        step = body.insert_arg(IndexType(), 1)
        step.name_hint = f"{self.hints[2]}_o"
        key = recompute(old.iv, [*self.parts, (step, self.n), *self.keys], body)
        conditions = [form.substitute(old.iv, Linear.of(key.result)) for form in conditions]
        bounds, left = self._bounds([*conditions, Linear.of(key.result) - trips], key.result)
        body.erase_arg(old.iv)
        self._fold_step(body, key, left)
        map, operands = to_map(bounds)
        region = Region(old.body.detach_block(body))
        made = loop.ReduceOp(map, region, old.identities, old.combiner.clone(), operands)
        made.location = old.location
        for result, before in zip(made.results, old.results, strict=True):
            result.name_hint = before.name_hint
        Rewriter.replace_op(old, made)
        if self.parts:
            combined = tile.CombineOp(made.results, [self.parts[0][0]], made.identities, made.combiner.clone())
            Rewriter.insert_op(combined, InsertPoint.after(made))
            for whole, part in zip(combined.results, made.results, strict=True):
                whole.name_hint = part.name_hint
                part.replace_uses_with_if(whole, lambda use: use.operation is not combined)
        return made

    def _bounds(self, conditions: Sequence[Linear], key: SSAValue) -> tuple[list[Linear], list[Linear]]:
        """The steps that the tile needs, up to the greatest of its rows' bounds, and the conditions within them.

        CTAs that share a row take as many each, one after another, as far as there are some.
        """
        sizes = {axis: self.launch.extent(axis) or 1 for axis, _ in self.rows[1:]}
        inside = {axis for axis, _ in (*self.rows[1:], *self.columns, *self.keys)}
        bounds: list[Linear] = []
        left: list[Linear] = []
        for form in conditions:
            limit = Linear.of(key) - form
            most = greatest(limit, sizes)
            is_bound = not limit.depends_on(key) and inside.isdisjoint(most.roots())
            if is_bound:
                bounds.append((most + (self.n - 1)) // self.n)
            if not (is_bound and equal(most, limit) and limit.divisor() % self.n == 0):
                left.append(form)
        if self.parts:
            first = Linear.of(self.parts[0][0], self.steps)
            bounds = [Linear(constant=self.steps), *(bound - first for bound in bounds)]
        return least(bounds), left

    def _fold_step(self, body: Block, key: loop.IndexOp, conditions: Sequence[Linear]) -> None:
        """Yield what the elements of a step come to."""
        terminator = body.last_op
        assert terminator is not None
        place = InsertPoint.before(terminator)
        score, *values = terminator.operands

        def add(op: Operation) -> SSAValue:
            op.location = terminator.location
            Rewriter.insert_op(op, place)
            return op.results[0]

        def fold(value: SSAValue, cls: type[Operation]) -> SSAValue:
            axes = [axis for axis, _ in self.keys]
            return add(tile.CombineOp([value], axes, *scalar_regions.short_form(cls, value.type, loop.YieldOp)))

        if conditions:
            least_score = add(arith.ConstantOp(cast(FloatAttr[AnyFloat], self.found.reduction.identities.data[0])))
            inside = add(loop.InsideOp(*to_map(to_sides(conditions))))
            score = add(arith.SelectOp(inside, score, least_score))
        top = fold(score, arith.MaximumfOp)
        top.name_hint = "top"
        above = add(arith.MaximumfOp(top, self.limits[0]))
        shifted = add(arith.SubfOp(score, add(arith.MinimumfOp(above, self.limits[1]))))
        weight = add(math.ExpOp(shifted))
        weight.name_hint = "weight"
        kept = self._kept(weight, key)
        if any(self.is_wide):
            add(kept)
        yielded, one = [top], FloatAttr(1.0, cast(AnyFloat, score.type))
        for value, (_, by), is_wide in zip(values, self.weights, self.is_wide, strict=True):
            if is_wide:
                yielded.append(self._product(kept.slab, value, by, key, place))
            else:
                is_one = isinstance(value.owner, arith.ConstantOp) and value.owner.value == one
                yielded.append(fold(weight if is_one else add(arith.MulfOp(value, weight, by.fastmath)), arith.AddfOp))
        Rewriter.replace_op(terminator, loop.YieldOp(*yielded))
        erase_dead(body)

    def _kept(self, weight: SSAValue, key: loop.IndexOp) -> tile.KeepOp:
        """The weights in shared memory, rows padded so that those that a warp stores lie in other banks."""
        extents = [self.m, weights_pitch(self.n)]
        shape = MemRefType[Attribute](weight.type, extents, memory_space=tile.MemoryAttr(Memory.SHARED))
        kept = tile.KeepOp(weight, *to_map([_sum(self.rows[1:]), _sum(self.keys)]), shape)
        kept.slab.name_hint = "weights"
        return kept

    def _product(
        self, weights: SSAValue, value: SSAValue, by: arith.MulfOp, key: loop.IndexOp, place: InsertPoint
    ) -> SSAValue:
        """The sum of products of weights and the values of a step."""
        body = Block(arg_types=[IndexType()])
        (inner,) = body.args
        inner.name_hint = self.hints[2]
        first = form_of_value(key.result)
        for axis, _ in self.keys:
            first = first.substitute(axis, Linear())
        index = loop.IndexOp(*to_map([first + Linear.of(inner)]))
        index.result.name_hint = key.result.name_hint
        weight = loop.LoadOp(weights, *to_map([_sum(self.rows[1:]), Linear.of(inner)]))
        body.add_ops([index, weight])
        assert key.parent is not None
        other = copied(value, key.parent, {key.result: index.result}, InsertPoint.at_end(body))
        product = arith.MulfOp(weight.result, other, by.fastmath)
        body.add_ops([product, loop.YieldOp(product.result)])
        made = loop.ReduceOp(self.n, Region(body), *scalar_regions.short_form(arith.AddfOp, value.type, loop.YieldOp))
        made.location = by.location
        Rewriter.insert_op(made, place)
        return _split(made).results[0]

    def _stage(self, reduction: loop.ReduceOp) -> None:
        """Copy what the sums of products read of global memory on chip: what no step changes once, else in each."""
        inside = [axis for axis in self.own if self.launch.binding(axis) is not Binding.BLOCK]
        step = reduction.iv
        for load in [op for op in reduction.walk() if isinstance(op, loop.LoadOp)]:
            loops = [op.iv for op in ancestors(load, reduction) if isinstance(op, loop.LoopLike)]
            if not loops or tile.memory_of(load.source) is not None:
                continue
            footprint = shared_footprint(load, [*inside, *loops])
            if footprint is None or not footprint.shape:
                continue
            source = loop.memref_of(load.source)
            slab = MemRefType[Attribute](
                source.element_type, footprint.shape, memory_space=tile.MemoryAttr(Memory.SHARED)
            )
            map, operands = footprint.map()
            stage = tile.StageOp(load.source, map, operands, slab)
            stage.location = load.location
            stage.slab.name_hint = None if load.source.name_hint is None else f"{load.source.name_hint}_smem"
            is_fixed = step not in operands
            place = InsertPoint.before(reduction) if is_fixed else InsertPoint.at_start(reduction.body.block)
            Rewriter.insert_op(stage, place)
            read_from(load, stage.slab, footprint.readers[0].subscripts)


def _sum(parts: Sequence[Part]) -> Linear:
    total = Linear()
    for axis, stride in parts:
        total = total + Linear.of(axis, stride)
    return total


def _split(op: loop.ReduceOp) -> loop.LoopLike:
    """Let a loop run in groups of neighbours that a thread reads at once, where it has whole ones. Returns it."""
    if op.trips is None or op.trips % VECTOR or op.trips == VECTOR:
        return op
    outer, inner = split_loop(op, VECTOR)
    inner.properties["unroll"] = UnitAttr()
    return outer
