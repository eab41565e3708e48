"""A streaming reduction of products that a CTA runs in steps: what the tiles of threads and of tensor cores share.

The rows of a CTA's tile and the elements of a step are sums of axes. A step is an element of the streaming reduction:
the largest score so far, and the sum of its weights and its weighted sums relative to that; so sums of earlier steps
are scaled in place, and those of the step add to them. Where slices of a CTA share the elements of a step, each has
steps of its own, and what they leave is folded behind the loop: the largest maximum, and the sums scaled to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import e, log2
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, MemRefType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

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
from deplodock.analysis.operations import ancestors
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.footprint import register_footprint, shared_footprint
from deplodock.analysis.shape.streaming import StreamedProduct, limits, weighing, weight_of
from deplodock.dialects import loop, scalar_regions, tile
from deplodock.dialects.precision import product_like
from deplodock.dialects.tile import Binding, Memory
from deplodock.dialects.tile.slab import NOWHERE, Places
from deplodock.passes.copying import erase_dead
from deplodock.passes.tile.edits import (
    Axis,
    Part,
    append_axis,
    drop_axis,
    greatest,
    rebind,
    recompute,
    reorder,
    smallest,
    stage_read,
    total_of,
)


@dataclass
class StreamTiling(ABC):
    """One rewrite: the axes of the tile, the steps, and what is kept on chip. `m`, `n` and `slices` are the rule's."""

    rewriter: PatternRewriter
    launch: tile.LaunchOp
    found: StreamedProduct
    outer: tuple[SSAValue, SSAValue]
    """The axes that the tile divides: the rows and the columns of the output."""
    m: int
    n: int
    slices: int
    own: Sequence[SSAValue] = field(init=False)
    """The axes of the tile, in their order."""
    rows: Sequence[Part] = field(init=False)
    """A row of the output, the block axis first; where its stride is negative, from the last block on."""
    columns: Sequence[Part] = field(init=False)
    """A column of the output."""
    share: tuple[SSAValue, SSAValue] | None = field(init=False, default=None)
    """The register axis of columns of which each slice keeps one coordinate, and the lane axis of these."""
    spare: SSAValue | None = field(init=False, default=None)
    """The register axis of rows whose first coordinate alone has rows of the output, where slices fold theirs."""
    keys: Sequence[Part] = field(init=False)
    """An element of a step, as the sums of products that give scores have it."""
    key_share: tuple[SSAValue, SSAValue] | None = field(init=False, default=None)
    """The register axis of elements of which threads that share such a sum keep one coordinate each, and the lane axis
    of these."""
    held_axes: Sequence[SSAValue] = field(init=False, default=())
    """The register axes of rows that each thread holds for all steps; without them they are in shared memory."""

    def __post_init__(self) -> None:
        self.hints = [axis.name_hint or "a" for axis in (*self.outer, self.found.reduction.iv)]
        self.weights = weighing(self.found.reduction)
        self.limits = limits(self.found.reduction)
        dependence = Dependence()
        self.is_wide = [self.found.columns in dependence.of(value) for value, _ in self.weights]
        """For each value that the reduction weighs, whether it varies along the columns."""
        self.slice: list[Part] = []
        """The axis of slices, and the elements of each in a step."""
        self.append_axes()

    @abstractmethod
    def append_axes(self) -> None:
        """Add the axes of the tile to the launch."""

    @property
    def score_keys(self) -> Sequence[Part]:
        """An element of a step, as scores have it."""
        share = self.key_share
        return [(share[1] if share and axis is share[0] else axis, stride) for axis, stride in self.keys]

    @property
    def step(self) -> int:
        """The elements of a step of all slices."""
        return self.n * self.slices

    def append_slices(self) -> list[SSAValue]:
        """Add the axis of threads that have slices of a step, where there are several. Returns it, or none."""
        found = [self.axis(self.slices, Binding.THREAD, f"{self.hints[2]}_w")] if self.slices > 1 else []
        self.slice = [(axis, self.n) for axis in found]
        return found

    @abstractmethod
    def tile_scores(self, key: loop.IndexOp) -> loop.IndexOp:
        """Rewrite the sum of products that gives a score. Returns the coordinate of an element as scores have it."""

    @abstractmethod
    def unscaled(self, score: SSAValue) -> tuple[SSAValue, SSAValue | None]:
        """A score without a constant factor above 0, and that factor; or as it is, and None."""

    @abstractmethod
    def held(self, weight: SSAValue, place: InsertPoint) -> SSAValue:
        """The weights where the second product reads them."""

    @abstractmethod
    def product(
        self, weights: SSAValue, value: SSAValue, by: arith.MulfOp, key: loop.IndexOp, place: InsertPoint
    ) -> SSAValue:
        """The sum of products of weights and the values of a step."""

    @abstractmethod
    def is_factor(self, load: loop.LoadOp, reduction: loop.ReduceOp) -> bool:
        """Whether a read gives factors of a sum of products."""

    @abstractmethod
    def slab(self, element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
        """The type of the copy of some rows in shared memory."""

    def axis(self, extent: int, binding: Binding, name: str) -> SSAValue:
        """A new axis of the launch."""
        return append_axis(self.rewriter, self.launch, Axis(extent, binding, name))

    def run(self) -> None:
        """Rewrite the launch."""
        others = [axis for axis in self.launch.axes if axis not in (*self.outer, *self.own)]
        for axis, parts in zip(self.outer, (self.rows, self.columns), strict=True):
            extent = self.launch.extent(axis) or 1
            points = 1 + sum(abs(stride) * ((self.launch.extent(part) or 1) - 1) for part, stride in parts)
            offset = -parts[0][1] * ((self.launch.extent(parts[0][0]) or 1) - 1) if parts[0][1] < 0 else 0
            self._recompute(axis, parts, extent if points > extent else None, offset)
        for axis in others:
            rebind(self.rewriter, self.launch, axis, Binding.BLOCK)
        self._stage(reduction := self._run_in_steps())
        _pad(self.rewriter, reduction)
        for axis in self.outer:
            assert isinstance(axis, BlockArgument)
            drop_axis(self.rewriter, self.launch, axis)
        block, stride = self.rows[0]
        first = [block] if stride < 0 else []
        reorder(self.rewriter, self.launch, [*first, *others, *(axis for axis in self.own if axis not in first)])

    def _recompute(self, axis: SSAValue, parts: Sequence[Part], limit: int | None, offset: int) -> None:
        """Replace a coordinate of the output; behind the reduction, by that of what a slice keeps."""
        kept = [(self.share[1] if self.share and part is self.share[0] else part, stride) for part, stride in parts]
        kept = [(part, stride) for part, stride in kept if part is not self.spare]
        index = recompute(self.rewriter, axis, kept, self.launch.body.block, limit, offset)
        if kept != parts:
            inside = loop.IndexOp(*to_map([total_of(parts) + offset]))
            inside.result.name_hint = index.result.name_hint
            self.rewriter.insert(inside, InsertPoint.after(index))
            reduction = self.found.reduction
            self.rewriter.replace_uses_with_if(
                index.result, inside.result, lambda use: reduction.is_ancestor(use.operation)
            )

    def _places(self, is_wide: bool) -> Places:
        """Where slices take what they fold, of values that vary along the columns, or others."""
        places = [(self.share[0], Linear.of(self.share[1]))] if self.share and is_wide else []
        places += [] if self.spare is None else [(self.spare, Linear())]
        return Places([axis for axis, _ in places], *to_map([place for _, place in places])) if places else NOWHERE

    def _run_in_steps(self) -> loop.ReduceOp:
        """Let the reduction run in steps of a few elements. Returns it."""
        old = self.found.reduction
        body, trips = old.body.block, old.trips or 0
        conditions = [condition_of(where) for where in wheres(body)]
        for where in wheres(body):
            self.rewriter.erase(where)
        step = self.rewriter.insert_block_argument(body, 1, IndexType())
        step.name_hint = f"{self.hints[2]}_o"
        first = self._first(conditions, old.iv)
        key = recompute(self.rewriter, old.iv, [(step, self.step), *self.slice, *self.keys], body)
        if first is not None:
            key = _moved(self.rewriter, key, first)
        key = self.tile_scores(key)
        conditions = [form.substitute(old.iv, Linear.of(key.result)) for form in conditions]
        conditions.append(Linear.of(key.result) - trips)
        first = Linear() if first is None else first
        if (range := first.range()) is None or range[0] < 0:
            conditions.append(-Linear.of(key.result) - 1)
        bounds, left = self._bounds(conditions, key.result, first)
        self.rewriter.erase_block_argument(old.iv)
        self._fold_step(body, key, left)
        map, operands = to_map(bounds)
        region = Region(old.body.detach_block(body))
        made = loop.ReduceOp(map, region, old.identities, old.combiner.clone(), operands)
        made.location = old.location
        self.rewriter.replace(old, made)
        if self.slice:
            self._fold_slices(made)
        return made

    def _tile_sizes(self) -> dict[SSAValue, int]:
        """The axes of rows within a CTA, with the points of each."""
        return {axis: self.launch.extent(axis) or 1 for axis, _ in self.rows[1:]}

    def _inside(self) -> set[SSAValue]:
        """The axes of the tile that differ within a CTA."""
        return {axis for axis, _ in (*self.rows[1:], *self.columns, *self.slice, *self.score_keys)}

    def _without_single(self, form: Linear) -> Linear:
        """A form without the axes of the tile that have one point."""
        for axis in (axis for axis, size in self._tile_sizes().items() if size == 1):
            form = form.substitute(axis, Linear())
        return form

    def _first(self, conditions: Sequence[Linear], key: SSAValue) -> Linear | None:
        """The first element that the tile needs, where a condition says from which one on its rows count.

        It may be below 0, so that all CTAs take as many steps. None where no condition does.
        """
        for form in conditions:
            start = self._without_single(form + Linear.of(key) + 1)
            lowest = smallest(start, self._tile_sizes())
            if not start.depends_on(key) and self._inside().isdisjoint(lowest.roots()):
                return lowest
        return None

    def _bounds(self, conditions: Sequence[Linear], key: SSAValue, first: Linear) -> tuple[list[Linear], list[Linear]]:
        """The steps from the element `first` on that the tile needs, up to the greatest of its rows' bounds.

        Returns them with the conditions that are left within them.
        """
        sizes, inside = self._tile_sizes(), self._inside()
        bounds: list[Linear] = []
        left: list[Linear] = []
        for form in conditions:
            limit = self._without_single(Linear.of(key) - form)
            most = greatest(limit, sizes)
            is_bound = not limit.depends_on(key) and inside.isdisjoint(most.roots())
            if is_bound:
                bounds.append((most - first + (self.step - 1)) // self.step)
            if not (is_bound and equal(most, limit) and (limit - first).divisor() % self.step == 0):
                left.append(form)
        return least(bounds), left

    def _fold_step(self, body: Block, key: loop.IndexOp, conditions: Sequence[Linear]) -> None:
        """Yield what the elements of a step come to."""
        terminator = body.last_op
        assert terminator is not None
        place = InsertPoint.before(terminator)
        score, *values = terminator.operands
        score, scale = self.unscaled(score)

        def add(op: Operation) -> SSAValue:
            op.location = terminator.location
            self.rewriter.insert(op, place)
            return op.results[0]

        def fold(value: SSAValue, cls: type[Operation]) -> SSAValue:
            axes = [axis for axis, _ in self.score_keys]
            return add(tile.CombineOp([value], axes, *scalar_regions.short_form(cls, value.type, loop.YieldOp)))

        if conditions:
            least_score = add(arith.ConstantOp(cast(FloatAttr[AnyFloat], self.found.reduction.identities.data[0])))
            inside = add(loop.InsideOp(*to_map(to_sides(conditions))))
            score = add(arith.SelectOp(inside, score, least_score))
        top = fold(score, arith.MaximumfOp)
        top = top if scale is None else add(arith.MulfOp(top, scale))
        top.name_hint = "top"
        short = scalar_regions.short_form(arith.MaximumfOp, top.type, loop.YieldOp)
        top = add(loop.ScanOp([top], body.args[:1], *short))
        top.name_hint = "largest"
        above = add(arith.MaximumfOp(top, self.limits[0]))
        limit = add(arith.MinimumfOp(above, self.limits[1]))
        weight = self._power(score, scale, limit, add) if scale else add(self._weight(add(arith.SubfOp(score, limit))))
        weight.name_hint = "weight"
        held = self.held(weight, place) if any(self.is_wide) else weight
        yielded, one = [top], FloatAttr(1.0, cast(AnyFloat, score.type))
        for value, (_, by), is_wide in zip(values, self.weights, self.is_wide, strict=True):
            if is_wide:
                yielded.append(self.product(held, value, by, key, place))
            else:
                is_one = isinstance(value.owner, arith.ConstantOp) and value.owner.value == one
                yielded.append(fold(weight if is_one else add(product_like(by, value, weight)), arith.AddfOp))
        self.rewriter.replace(terminator, loop.YieldOp(*yielded))
        erase_dead(body, self.rewriter.erase)

    def _weight(self, shifted: SSAValue) -> math.ExpOp:
        """The weight of a score less the limit."""
        return math.ExpOp(shifted, weight_of(self.weights[0][1]).fastmath)

    def _power(
        self, score: SSAValue, scale: SSAValue, limit: SSAValue, add: Callable[[Operation], SSAValue]
    ) -> SSAValue:
        """The weight of a score that is to be scaled, as the power of 2 of one multiply-add: `2^(score * a - b)`.

        The scale is a constant above 0, and `b`, `limit * log2(e)`, stays a number.
        """
        least, greatest = self.limits
        log2e = FloatAttr(log2(e), cast(AnyFloat, score.type))
        factor = add(arith.MulfOp(scale, base := add(arith.ConstantOp(log2e))))
        above = add(arith.MaximumfOp(add(arith.MulfOp(limit, base)), least))
        negative = add(arith.NegfOp(add(arith.MinimumfOp(above, greatest))))
        power = add(math.FmaOp(score, factor, negative))
        return add(math.Exp2Op(power, weight_of(self.weights[0][1]).fastmath))

    def _fold_slices(self, reduction: loop.ReduceOp) -> None:
        """Fold what slices leave: the largest maximum, and sums that are scaled to it, of which each keeps a share."""
        place, (axis, _) = InsertPoint.after(reduction), self.slice[0]
        users = {result: list(result.uses) for result in reduction.results}

        def add(op: Operation) -> SSAValue:
            nonlocal place
            op.location = reduction.location
            self.rewriter.insert(op, place)
            place = InsertPoint.after(op)
            return op.results[0]

        def fold(value: SSAValue, cls: type[Operation], is_wide: bool = False) -> SSAValue:
            short = scalar_regions.short_form(cls, value.type, loop.YieldOp)
            return add(tile.CombineOp([value], [axis], *short, self._places(is_wide)))

        top, *sums = reduction.results
        largest = fold(top, arith.MaximumfOp)
        limit = add(arith.MinimumfOp(add(arith.MaximumfOp(largest, self.limits[0])), self.limits[1]))
        weight = add(self._weight(add(arith.SubfOp(top, limit))))
        folded = [largest]
        for value, (_, by), is_wide in zip(sums, self.weights, self.is_wide, strict=True):
            scaled = add(arith.MulfOp(value, weight, by.fastmath))
            folded.append(fold(scaled, arith.AddfOp, is_wide))
        for result, whole in zip(reduction.results, folded, strict=True):
            whole.name_hint = result.name_hint
            for use in users[result]:
                use.operation.operands[use.index] = whole
                self.rewriter.notify_op_modified(use.operation)

    def _stage(self, reduction: loop.ReduceOp) -> None:
        """Copy what the sums of products read of global memory on chip: what no step changes once, else in each."""
        inside = [axis for axis in self.own if self.launch.binding(axis) is not Binding.BLOCK]
        step = reduction.iv
        for load in [op for op in reduction.walk() if isinstance(op, loop.LoadOp)]:
            if not self.is_factor(load, reduction) or tile.memory_of(load.source) is not None:
                continue
            loops = [op.iv for op in ancestors(load, reduction) if isinstance(op, loop.LoopLike)]
            if self.held_axes and not any(form.depends_on(step) for form in subscripts_of(load)):
                self._hold(load, [*self.held_axes, *loops], InsertPoint.before(reduction))
                continue
            footprint = shared_footprint(load, [*inside, *loops])
            if footprint is None or not footprint.shape:
                continue
            slab = self.slab(loop.memref_of(load.source).element_type, footprint.shape)
            is_fixed = step not in footprint.map()[1]
            place = InsertPoint.before(reduction) if is_fixed else InsertPoint.at_start(reduction.body.block)
            stage_read(self.rewriter, load, footprint, slab, place)

    def _hold(self, load: loop.LoadOp, inside: Sequence[SSAValue], place: InsertPoint) -> None:
        """Let each thread copy the rows that it reads to registers."""
        footprint = register_footprint(load, inside)
        assert footprint is not None, "rows and features of a thread are linear"
        element = loop.memref_of(load.source).element_type
        slab = MemRefType[Attribute](element, footprint.shape, memory_space=tile.MemoryAttr(Memory.REGISTER))
        stage_read(self.rewriter, load, footprint, slab, place)


def _pad(rewriter: PatternRewriter, reduction: loop.ReduceOp) -> None:
    """Let reads of global memory give 0 at elements beyond the row, whose scores are then left out."""
    for load in [op for op in reduction.body.walk() if isinstance(op, loop.LoadOp)]:
        if tile.memory_of(load.source) is not None:
            continue
        extents = loop.memref_of(load.source).get_shape()
        along = [pair for pair in zip(subscripts_of(load), extents, strict=True) if pair[0].depends_on(reduction.iv)]
        if any((range := form.range()) is None or range[0] < 0 or range[1] >= extent for form, extent in along):
            load.properties["padded"] = UnitAttr()
            rewriter.notify_op_modified(load)


def _moved(rewriter: PatternRewriter, index: loop.IndexOp, distance: Linear) -> loop.IndexOp:
    """Move a coordinate by a distance. Returns what replaces it."""
    moved = loop.IndexOp(*to_map([form_of_value(index.result) + distance]))
    rewriter.replace(index, moved)
    return moved
