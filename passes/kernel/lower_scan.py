"""Lowers `loop.scan`: threads scan their registers, shuffles lanes, shared memory warps, and loops carry the total on.

At each step of the loops that a scan runs along, in this order:

1. a thread folds its registers along the axes, which gives their prefixes within the thread, and its total;
2. each lane of a warp takes in the totals 1, 2, 4, 8 and 16 lanes before it, so that it has the fold up to its own;
3. a lane of each warp publishes the warp's total; every thread folds those of its group in their order,
   from what the loops carry, and knows what comes before its warp, and the total that they carry on;
4. what comes before a thread is folded in front of each of its prefixes.

The order depends on nothing but the extents, and all threads carry the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import thread_strides
from deplodock.analysis.shape.nest import loops_of, scans_along
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.kernel.builder import Condition
from deplodock.passes.kernel.emit import Array, Emitter
from deplodock.passes.remarks import failure


def start_scans(emitter: Emitter, op: loop.LoopLike) -> None:
    """Allocate what is carried through a loop by the scans that run along it first, set to their identities."""
    for scan in scans_along(op.iv):
        if scan.axes[0] is op.iv:
            emitter.carries[scan] = emitter.accumulators(scan, _kept(emitter, scan))


def lower_scan(emitter: Emitter, op: loop.ScanOp) -> None:
    """Emit a scan. Raises PassFailedException where its axes are in an order in which no thread can run them."""
    loops = loops_of(op)
    around: list[SSAValue] = [outer.iv for outer in reversed(list(ancestors(op))) if isinstance(outer, loop.LoopLike)]
    if loops and around[around.index(loops[0]) :] != loops:
        raise failure(op, "it runs along all loops from its first one on, in their order")
    scanning = _Scanning(emitter, op, [axis for axis in op.axes if axis not in loops])
    if not loops:
        emitter.carries[op] = emitter.accumulators(op, scanning.kept)
    scanning.run()
    for result, array in zip(op.results, scanning.results, strict=True):
        emitter.bind_array(result, array)


def _kept(emitter: Emitter, op: loop.ScanOp) -> list[SSAValue]:
    """The register axes that a scan varies along without running along them."""
    return [axis for axis in emitter.axes_of(op.results) if axis not in op.axes]


class _Scanning:
    """The state of one scan while it is emitted; `axes` are those of the launch, register axes around thread axes."""

    def __init__(self, emitter: Emitter, op: loop.ScanOp, axes: Sequence[SSAValue]) -> None:
        self.emitter = emitter
        self.op = op
        wide = [axis for axis in axes if emitter.extent(axis) > 1]
        bindings = [emitter.launch.binding(axis) for axis in wide]
        self.threads = [axis for axis in wide if emitter.launch.binding(axis) is Binding.THREAD]
        first = bindings.index(Binding.THREAD) if self.threads else 0
        last = first + len(self.threads)
        self.steps, self.inner = wide[:first], wide[last:]
        """The register axes before and behind the thread axes."""
        for axis, binding in zip(wide, bindings, strict=True):
            if binding is not (Binding.THREAD if axis in wide[first:last] else Binding.REGISTER):
                raise failure(op, f"it cannot run along {label(axis)}, a {binding} axis, in this order of its axes")
        self.kept = _kept(emitter, op)
        self.results = [
            emitter.register(r.type, (*self.kept, *self.steps, *self.inner), r.name_hint) for r in op.results
        ]

    def run(self) -> None:
        """Emit the scan of one step of the loops."""
        emitter, axes = self.emitter, [*self.kept, *self.steps, *self.inner]
        if not self.threads:
            with emitter.nest(axes):
                self._fold_into(self.carry)
            return
        group = math.prod(emitter.extent(axis) for axis in self.threads)
        totals = self._scan_registers()
        wide = [axis for axis in emitter.launch.bound_to(Binding.THREAD) if emitter.extent(axis) > 1]
        is_run = all(a is b for a, b in zip(self.threads, wide[-len(self.threads) :], strict=True))
        if is_run and emitter.threads % WARP == 0 and (group % WARP == 0 or WARP % group == 0):
            before = self._scan_lanes(totals, min(group, WARP))
            if group > WARP:
                self._across_warps(totals, before, group // WARP)
            else:
                self._go_on(totals, before)
        else:
            before = self._arrays("before")
            self._across_threads(totals, before, group)
        with emitter.nest(axes):
            self._put_before([emitter.load(array) for array in before], self.results)

    @property
    def carry(self) -> list[Array]:
        """What the steps before this one have folded."""
        return self.emitter.carries[self.op]

    def _arrays(self, name: str) -> list[Array]:
        axes = [*self.kept, *self.steps]
        return [self.emitter.register(result.type, axes, name) for result in self.op.results]

    def _fold_into(self, accumulators: Sequence[Array]) -> None:
        """Fold the values at the current coordinates into accumulators, and keep the prefix."""
        emitter, op = self.emitter, self.op
        conditions = [c for c in emitter.conditions if any(c.depends_on(axis) for axis in op.axes)]
        values = emitter.select_active(conditions, [emitter.value(value) for value in op.inputs], op.identities)
        before = [emitter.load(array) for array in accumulators]
        folded = emitter.combine(op.combiner, before, values)
        for array, result, old, new in zip(accumulators, self.results, before, folded, strict=True):
            emitter.store(old if op.exclusive else new, result)
            emitter.store(new, array)

    def _put_before(self, values: Sequence[SSAValue], arrays: Sequence[Array]) -> None:
        """Fold values in front of what arrays hold at the current coordinates."""
        folded = self.emitter.combine(self.op.combiner, values, [self.emitter.load(array) for array in arrays])
        for value, array in zip(folded, arrays, strict=True):
            self.emitter.store(value, array)

    def _scan_registers(self) -> list[Array]:
        """Scan the registers of each thread; returns its totals."""
        around = [*self.kept, *self.steps]
        totals = self.emitter.accumulators(self.op, around)
        with self.emitter.nest([*around, *self.inner]):
            self._fold_into(totals)
        return totals

    def _scan_lanes(self, totals: Sequence[Array], lanes: int) -> list[Array]:
        """What comes before each lane in its group; the totals become those of the group."""
        emitter, before = self.emitter, self._arrays("before")
        lane = Linear.of(emitter.thread) % lanes
        with emitter.nest([*self.kept, *self.steps]):
            folded = [emitter.load(array) for array in totals]
            delta = 1
            while delta < lanes:
                others = [emitter.add(kernel.ShuffleUpOp(value, delta)) for value in folded]
                longer = emitter.combine(self.op.combiner, others, folded)
                folded = self._select([Linear(constant=delta - 1) - lane], longer, folded)
                delta *= 2
            others = [emitter.add(kernel.ShuffleUpOp(value, 1)) for value in folded]
            identities = [emitter.literal(identity) for identity in self.op.identities]
            others = self._select([-lane], others, identities)
            folded = [emitter.add(kernel.ShuffleLastOp(value, lanes)) for value in folded]
            for array, value in zip((*totals, *before), (*folded, *others), strict=True):
                emitter.store(value, array)
        return before

    def _go_on(self, totals: Sequence[Array], before: Sequence[Array]) -> None:
        """Fold what is carried in front of each lane of a group within a warp, and carry the group's total on."""
        emitter = self.emitter
        with emitter.nest([*self.kept, *self.steps]):
            carried = [emitter.load(array) for array in self.carry]
            self._put_before(carried, before)
            whole = [emitter.load(array) for array in totals]
            for value, array in zip(emitter.combine(self.op.combiner, carried, whole), self.carry, strict=True):
                emitter.store(value, array)

    def _across_warps(self, totals: Sequence[Array], before: Sequence[Array], warps: int) -> None:
        """Put what warps before a thread's own have folded in front of it; the last lane of each publishes."""
        thread = Linear.of(self.emitter.thread)
        first, own = thread // (warps * WARP) * warps, thread // WARP
        published = self._publish(totals, self.emitter.threads // WARP, own, [thread % WARP - 1])
        with self.emitter.nest([*self.kept, *self.steps]):
            start = self._fold_published(published, warps, own - first, lambda warp: first + Linear.of(warp))
            self._put_before(start, before)

    def _across_threads(self, totals: Sequence[Array], before: Sequence[Array], group: int) -> None:
        """Find what comes before each thread where a group is not a run of lanes: every thread publishes its total."""
        emitter = self.emitter
        published = self._publish(totals, emitter.threads, Linear.of(emitter.thread), [])
        own, strides, stride = Linear(), dict[SSAValue, int](), 1
        for axis in reversed(self.threads):
            own, strides[axis] = own + Linear.of(axis, stride), stride
            stride *= emitter.extent(axis)

        def address(place: SSAValue) -> Linear:
            total = Linear()
            for axis, stride in thread_strides(emitter.launch).items():
                digit = Linear.of(axis)
                if axis in strides:
                    digit = Linear.of(place) // strides[axis] % emitter.extent(axis)
                total = digit * stride + total
            return total

        with emitter.nest([*self.kept, *self.steps]):
            start = self._fold_published(published, group, own, address)
            for value, array in zip(start, before, strict=True):
                emitter.store(value, array)

    def _publish(
        self, totals: Sequence[Array], count: int, place: Linear, conditions: Sequence[Condition]
    ) -> list[SSAValue]:
        """Store totals to shared memory: one element for each coordinate of the registers around and publisher."""
        emitter, axes = self.emitter, [*self.kept, *self.steps]
        shape = [*(emitter.extent(axis) for axis in axes), count]
        buffers = [emitter.allocate(r.type, shape, Memory.SHARED, f"{r.name_hint}_part") for r in self.op.results]
        with emitter.nest(axes), emitter.guarded(conditions):
            for array, buffer in zip(totals, buffers, strict=True):
                emitter.run(loop.StoreOp(emitter.load(array), buffer, *emitter.map([*axes, place])))
        return buffers

    def _fold_published(
        self, published: Sequence[SSAValue], count: int, own: Linear, address: Callable[[SSAValue], Linear]
    ) -> list[SSAValue]:
        """The fold of what is carried and of the totals before one's own, in order; all are carried on."""
        emitter = self.emitter
        starts = [emitter.register(result.type, (), "start") for result in self.op.results]
        for array, start in zip(self.carry, starts, strict=True):
            emitter.store(emitter.load(array), start)
        outer = emitter.block
        place = emitter.enter_loop(count, "part", unroll=count <= WARP)
        folded = [emitter.load(array) for array in self.carry]
        is_before = [Linear.of(place) - own - 1]
        for value, start in zip(self._select(is_before, folded, map(emitter.load, starts)), starts, strict=True):
            emitter.store(value, start)
        read = emitter.map([*self.kept, *self.steps, address(place)])
        values = [emitter.add(loop.LoadOp(buffer, *read)) for buffer in published]
        for value, array in zip(emitter.combine(self.op.combiner, folded, values), self.carry, strict=True):
            emitter.store(value, array)
        emitter.block = outer
        return [emitter.load(start) for start in starts]

    def _select(
        self, conditions: Sequence[Condition], values: Iterable[SSAValue], others: Iterable[SSAValue]
    ) -> list[SSAValue]:
        """The values where the conditions hold, else others."""
        emitter = self.emitter
        inside = emitter.add(loop.InsideOp(*emitter.condition_map(conditions)))
        return [emitter.add(arith.SelectOp(inside, a, b)) for a, b in zip(values, others, strict=True)]
