"""Lowers `tile.combine`: threads fold their registers, shuffles lanes, shared memory warps and odd groups, CTAs what
others left in shared or global memory.

All are folded in a fixed order, so results do not depend on timing, and all threads get the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, SSAValue

from deplodock.analysis.affine.linear import Linear, forms_of
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.shape.dependence import thread_strides
from deplodock.dialects import kernel, loop, scalar_regions, tile
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.kernel.across import fold_blocks, fold_cluster
from deplodock.passes.kernel.builder import Condition, blocks_of, cluster_of
from deplodock.passes.kernel.emit import Array, Emitter, Held
from deplodock.passes.remarks import failure


def lower_combine(emitter: Emitter, op: tile.CombineOp) -> None:
    """Emit a combine: fold the registers of each thread, then the threads, then the CTAs.

    Raises PassFailedException where the CTAs cannot be folded.
    """
    ranks = cluster_of(op, emitter.launch)
    blocks = blocks_of(op, emitter.launch)
    if (ranks or blocks) and emitter.elected:
        raise failure(op, "only one combine of a launch can fold CTAs, as most of them end there")
    combining = Combining(emitter, op)
    if emitter.own and combining.threads:
        raise failure(op, "it folds threads, but a combine over the cluster has left a share of them to each CTA")
    combining.fold_registers()
    combining.fold_threads()
    folded = combining.held
    if blocks:
        folded = fold_blocks(emitter, op, blocks, folded)
    elif ranks:
        folded = fold_cluster(emitter, op, ranks, folded)
    for old, held in zip(op.results, folded, strict=True):
        emitter.bind(old, held)


class Combining:
    """The state of one combine while it is emitted."""

    def __init__(self, emitter: Emitter, op: tile.CombineOp) -> None:
        self.emitter = emitter
        self.op = op
        self.kept = emitter.axes_of(op.results)
        """The register axes that the result still varies along."""
        places = dict(zip(op.at.moved, forms_of(op.at.map, op.at.axes), strict=True))
        self.fixed = {axis: place.constant for axis, place in places.items() if not place.terms}
        """The register axes of which a fold is taken at one coordinate, and that coordinate."""
        self.moved = {axis: place for axis, place in places.items() if axis not in self.fixed}
        """Those whose coordinate is that of other axes, and its form."""
        made = {*op.axes, *op.place_axes, *self.fixed}
        self.published = tuple(a for a in emitter.axes_of([*op.inputs, *op.results]) if a not in made)
        """The register axes that the folds of a thread vary along, before they are taken where `at` says."""
        self.wide = [axis for axis in emitter.launch.bound_to(Binding.THREAD) if emitter.extent(axis) > 1]
        """The thread axes of more than one thread."""
        carriers = emitter.launch.carried_axes()
        self.threads = [axis for axis in self.wide if axis in {carriers.get(axis, axis) for axis in op.axes}]
        """Those of them that are folded, themselves or as carriers of lane axes."""
        self.held: list[Held] = []
        """The values folded so far."""

    def fold_registers(self) -> None:
        """Fold the active register coordinates of each thread."""
        emitter, op = self.emitter, self.op
        folded = [axis for axis in op.axes if emitter.launch.binding(axis) is Binding.REGISTER]
        conditions = [c for c in emitter.conditions if any(c.depends_on(axis) for axis in op.axes)]

        def fold() -> list[SSAValue]:
            if not folded:
                return self._active(conditions)
            return self._accumulate(folded, lambda: self._active(conditions))

        known = dict(emitter.coordinates)
        emitter.coordinates |= self.fixed
        self._at_each(self.published, fold)
        emitter.coordinates = known

    def fold_threads(self) -> None:
        """Fold over thread axes: by shuffles where the group is equally spaced lanes, else through shared memory."""
        emitter, threads = self.emitter, self.threads
        if not threads:
            return
        if self.moved:
            if (keeper := self._keeper(threads)) is None:
                self._through_shared(threads)
            else:
                self._at_each(self.kept, lambda: self._scatter(keeper))
            return
        group, near = math.prod(emitter.extent(axis) for axis in threads), self._near(threads)
        is_warps = emitter.threads % WARP == 0 and (
            WARP % (group * (near or 1)) == 0 or (near == 1 and group % WARP == 0)
        )
        if near is None or not is_warps:
            self._through_shared(threads)
            return
        self._at_each(self.kept, lambda: self._shuffle(min(group, WARP), near))
        if group > WARP:
            self._across_warps(group // WARP)

    def _near(self, threads: Sequence[BlockArgument]) -> int | None:
        """How far apart the neighbours of a group of threads are in a warp; None where no shuffles fold them.

        Those of several axes follow each other. Folds that depend on the order of their sides are of threads side by
        side.
        """
        place = self.wide.index(threads[0])
        if not all(a is b for a, b in zip(threads, self.wide[place : place + len(threads)], strict=True)):
            return None
        near = math.prod(self.emitter.extent(axis) for axis in self.wide[place + len(threads) :])
        is_symmetric = scalar_regions.combiner_ops(self.op.combiner) is not None
        return near if near == 1 or is_symmetric else None

    def _keeper(self, threads: Sequence[BlockArgument]) -> BlockArgument | None:
        """The thread axis whose threads keep a coordinate each of the register axis that the fold is taken along.

        None where no shuffles of a warp leave it so.
        """
        emitter, places = self.emitter, list(self.moved.items())
        lanes = [axis for axis in self.op.at.axes if len(places) == 1 and places[0][1] == Linear.of(axis)]
        keepers = [emitter.launch.carried_axes().get(axis, axis) for axis in lanes]
        keeper = next((axis for axis in threads if axis in keepers), None)
        near = self._near(threads) if threads else None
        if keeper is None or near is None or scalar_regions.combiner_ops(self.op.combiner) is None:
            return None
        group = near * math.prod(emitter.extent(axis) for axis in threads)
        is_whole = emitter.threads % WARP == 0 and WARP % group == 0
        return keeper if is_whole and emitter.extent(keeper) == emitter.extent(places[0][0]) else None

    def _scatter(self, keeper: BlockArgument) -> list[SSAValue]:
        """Fold so that each thread of an axis keeps one coordinate of a register axis, and those of other axes all it.

        In each step a thread gives half of the coordinates that it still has to one that keeps those.
        """
        emitter, strides = self.emitter, thread_strides(self.emitter.launch)
        (moved,) = self.moved
        rows: list[list[SSAValue]] = []
        known = dict(emitter.coordinates)
        for place in range(emitter.extent(moved)):
            emitter.coordinates[moved] = place
            rows.append([emitter.read(held) for held in self.held])
        emitter.coordinates = known
        while (half := len(rows) // 2) > 0:
            upper = Linear.of(keeper) // half % 2
            inside = emitter.add(loop.InsideOp(*emitter.condition_map([-upper])))
            pairs = [list(zip(low, high, strict=True)) for low, high in zip(rows[:half], rows[half:], strict=True)]
            rows = []
            for pair in pairs:
                own = [emitter.add(arith.SelectOp(inside, high, low)) for low, high in pair]
                given = [emitter.add(arith.SelectOp(inside, low, high)) for low, high in pair]
                taken = [emitter.add(kernel.ShuffleXorOp(value, half * strides[keeper])) for value in given]
                rows.append(emitter.combine(self.op.combiner, own, taken))
        (folded,) = rows
        for axis in (axis for axis in self.threads if axis is not keeper):
            for bit in reversed(range(emitter.extent(axis).bit_length() - 1)):
                others = [emitter.add(kernel.ShuffleXorOp(value, strides[axis] << bit)) for value in folded]
                folded = emitter.combine(self.op.combiner, folded, others)
        return folded

    def _active(self, conditions: Sequence[Condition]) -> list[SSAValue]:
        values = [self.emitter.value(value) for value in self.op.inputs]
        return self.emitter.select_active(conditions, values, self.op.identities)

    def _at_each(self, axes: Sequence[SSAValue], step: Callable[[], list[SSAValue]]) -> None:
        """Do a step of the fold at each coordinate of some register axes."""
        emitter, op = self.emitter, self.op
        arrays = [emitter.register(r.type, axes, r.name_hint) for r in op.results] if axes else []
        with emitter.nest(axes):
            results = step()
            for array, value in zip(arrays, results, strict=False):
                emitter.store(value, array)
        self.held = list(arrays or results)
        for old, held_value in zip(op.results, self.held, strict=True):
            if not isinstance(held_value, Array):
                held_value.name_hint = old.name_hint

    def _accumulate(self, axes: Sequence[SSAValue], values: Callable[[], list[SSAValue]]) -> list[SSAValue]:
        """Fold values over an unrolled nest of register axes."""
        emitter = self.emitter
        arrays = emitter.accumulators(self.op, ())
        with emitter.nest(axes):
            emitter.fold_into(arrays, self.op.combiner, values())
        return [emitter.load(array) for array in arrays]

    def _shuffle(self, lanes: int, near: int) -> list[SSAValue]:
        """A butterfly over lanes that are `near` apart: all of them end with the fold, in the same bits.

        A combiner of several operations may round otherwise where its sides are swapped. Then the last lane, which
        folds the others in front of its own in their order, gives its fold to all.
        """
        emitter, combiner = self.emitter, self.op.combiner
        folded = [emitter.read(held) for held in self.held]
        is_symmetric = scalar_regions.combiner_ops(combiner) is not None
        steps = [1 << bit for bit in range(lanes.bit_length() - 1)]
        for step in reversed(steps) if is_symmetric else steps:
            others = [emitter.add(kernel.ShuffleXorOp(value, step * near)) for value in folded]
            sides = (folded, others) if is_symmetric else (others, folded)
            folded = emitter.combine(combiner, *sides)
        if is_symmetric or lanes == 1:
            return folded
        return [emitter.add(kernel.ShuffleLastOp(value, lanes)) for value in folded]

    def _across_warps(self, warps: int) -> None:
        """The first lane of each warp publishes its fold; every thread folds those of its group in order."""
        thread = Linear.of(self.emitter.thread)
        published = self._publish(self.emitter.threads // WARP, thread // WARP, [thread % WARP - 1])
        first = thread // (warps * WARP) * warps
        self._fold_published(published, [(warps, "warp")], lambda loops: first + Linear.of(loops[0]))

    def _through_shared(self, threads: Sequence[SSAValue]) -> None:
        """Every thread publishes its fold, and folds those of the threads that differ along the folded axes only."""
        emitter = self.emitter
        published = self._publish(emitter.threads, Linear.of(emitter.thread), [])

        def address(loops: Sequence[SSAValue]) -> Linear:
            total = Linear()
            for axis, stride in thread_strides(emitter.launch).items():
                coordinate = loops[threads.index(axis)] if axis in threads else axis
                total = Linear.of(coordinate, stride) + total
            return total

        self._fold_published(published, [(emitter.extent(axis), axis.name_hint) for axis in threads], address)

    def _publish(self, count: int, place: Linear, conditions: Sequence[Condition]) -> list[SSAValue]:
        """Store the values held to shared memory: one element for each register coordinate and publisher."""
        emitter = self.emitter
        shape = [*(emitter.extent(axis) for axis in self.published), count]
        buffers = [
            emitter.allocate(result.type, shape, Memory.SHARED, f"{result.name_hint or 'fold'}_part")
            for result in self.op.results
        ]
        with emitter.nest(self.published), emitter.guarded(conditions):
            for held, buffer in zip(self.held, buffers, strict=True):
                emitter.run(loop.StoreOp(emitter.read(held), buffer, *emitter.map([*self.published, place])))
        return buffers

    def _fold_published(
        self,
        published: Sequence[SSAValue],
        loops: Sequence[tuple[int, str | None]],
        address: Callable[[Sequence[SSAValue]], Linear],
    ) -> None:
        """Fold published values in the order of the loops; every thread of a group does the same folds, or its share.

        The share is what `at` says.
        """
        emitter = self.emitter
        places = [self.moved.get(axis, axis) for axis in self.published]

        def fold() -> list[SSAValue]:
            arrays = emitter.accumulators(self.op, ())
            outer = emitter.block
            variables = [emitter.enter_loop(trips, name, unroll=trips <= WARP) for trips, name in loops]
            place = emitter.map([*places, address(variables)])
            values = [emitter.add(loop.LoadOp(buffer, *place)) for buffer in published]
            emitter.fold_into(arrays, self.op.combiner, values)
            emitter.block = outer
            return [emitter.load(array) for array in arrays]

        self._at_each(self.kept, fold)
