"""Rings: which step each copy, wait and release means, and why no slot is filled while it may still be read.

Step `s` lies in slot `s mod depth`. In the loop that reads a ring, with the step `s` that it waits for, the slot of a
copy of step `s + d` was that of step `s + d - depth`, so the copy is safe once that step is released: in an earlier
iteration where `d < depth`, in this one where `d = depth` and the copy stands after the release. Before the loop the
first `d` steps are copied, and the loop copies no step that it does not reach.

A loop inside of another one may go on with the ring where that goes on: the steps of both are counted together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.affine.linear import Linear, bounds_of, condition_forms, equal, forms_of
from deplodock.analysis.shape.dependence import readers_of
from deplodock.dialects import loop, tile
from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.tile.ring import CopyOp, ReleaseOp, RingOp, WaitOp, depth_of, engine_of


@dataclass(frozen=True)
class Fault:
    """What is wrong with a ring, and the operation where it shows."""

    op: Operation
    reason: str


def step_of(op: CopyOp | WaitOp | ReleaseOp) -> Linear:
    """The step that an operation on a ring means."""
    return forms_of(op.step.data, op.step_indices)[0]


def conditions_of(copy: CopyOp) -> list[Linear]:
    """The conditions of a copy as forms that are below 0 where they hold."""
    return [] if copy.where is None else condition_forms(copy.where.data, copy.where_indices)


def copies_of(block: Block, like: CopyOp | WaitOp) -> list[CopyOp]:
    """The copies on the same ring that stand directly in a block, in order."""
    return [op for op in block.ops if isinstance(op, CopyOp) and op.ring is like.ring]


def closes_group(copy: CopyOp) -> bool:
    """Whether a copy is the last one of its step in its block, and some copy of that step there is asynchronous."""
    same = _same_step(copy)
    return same[-1] is copy and any(op.is_async for op in same)


def refills(copy: CopyOp) -> bool:
    """Whether a copy is the first of its step in its block, and takes a slot that another step may have had."""
    if isinstance(copy.ring.owner, RingOp) and copy.ring.owner.has_producer:
        return _same_step(copy)[0] is copy
    return _same_step(copy)[0] is copy and any(
        isinstance(use.operation, WaitOp) and use.operation.parent is copy.parent for use in copy.ring.uses
    )


def step_boxes(copy: CopyOp) -> list[CopyOp]:
    """The copies of the same step, block and conditions that come in boxes, in order."""
    where = copy.where, tuple(copy.where_indices)
    return [op for op in _same_step(copy) if op.is_tma and (op.where, tuple(op.where_indices)) == where]


def _same_step(copy: CopyOp) -> list[CopyOp]:
    """The copies of the same step in the same block, in order."""
    assert copy.parent is not None
    return [op for op in copies_of(copy.parent, copy) if equal(step_of(op), step_of(copy))]


def is_mbarrier(ring: SSAValue) -> bool:
    """Whether phases of barriers keep the steps of a ring in order."""
    return isinstance(ring.owner, RingOp) and bool(ring.owner.is_mbarrier)


def phase_of(step: Linear, depth: int) -> tuple[Linear, Linear]:
    """The slot of a step, and how often it was filled before: the number of its phase, which has that parity."""
    return step % depth, step // depth


def groups_behind(wait: WaitOp) -> int | None:
    """How many groups of asynchronous copies may be in flight after a wait: those of the steps after its own.

    Each step is one group, in the order of the steps. None where no copy on the ring is asynchronous.
    """
    assert wait.parent is not None
    if not any(isinstance(use.operation, CopyOp) and use.operation.is_async for use in wait.ring.uses):
        return None
    last: dict[int, CopyOp] = {}
    for copy in copies_of(wait.parent, wait):
        ahead = step_of(copy) - step_of(wait)
        if ahead.terms:
            return 0
        last[ahead.constant] = copy
    if len(last) != 1:
        return 0
    ((ahead, copy),) = last.items()
    return max(ahead if copy.is_before_in_block(wait) else ahead - 1, 0)


def faults(ring: RingOp) -> Iterator[Fault]:
    """Everything that keeps a ring from being proven safe; nothing for a ring without copies."""
    users = [use.operation for use in ring.ring.uses]
    waits = [op for op in users if isinstance(op, WaitOp)]
    copies = [op for op in users if isinstance(op, CopyOp)]
    if not copies:
        return
    if ring.is_mbarrier:
        for copy in copies:
            if not engine_of(copy):
                yield Fault(copy, "only async and tma copies arrive at the phases of an mbarrier ring")
    for copy in copies:
        if ring.has_producer and not copy.is_tma:
            yield Fault(copy, "a producer copies in boxes, and this comes otherwise")
        if copy.is_tma and not ring.is_mbarrier:
            yield Fault(copy, "tma copies arrive at phases, which only an mbarrier ring has")
    if len(waits) != 1:
        yield Fault(ring, f"it is waited for at {len(waits)} places; a ring is read in one loop, after one tile.wait")
        return
    (wait,) = waits
    if (loops := _loops(wait)) is None:
        yield Fault(wait, "it must stand in a loop and wait for the step of the loop's variable")
        return
    releases = [op for op in users if isinstance(op, ReleaseOp) and op.parent is wait.parent]
    if len(releases) != 1 or not equal(step_of(releases[0]), step_of(wait)) or not wait.is_before_in_block(releases[0]):
        yield Fault(wait, "no tile.release of the same step follows it in the loop")
        return
    checked = _Loop(ring, loops, wait, releases[0])
    for buffer in dict.fromkeys(copy.destination for copy in copies):
        mine = [copy for copy in copies if copy.destination is buffer]
        for copy in mine[1:]:
            if engine_of(copy) != engine_of(mine[0]):
                yield Fault(copy, "its buffer is filled otherwise before; every step arrives in the same way")
        yield from checked.copies(mine)
        for use in buffer.uses:
            if not isinstance(use.operation, CopyOp):
                yield from checked.reader(use.operation, buffer)


def _loops(wait: WaitOp) -> list[loop.LoopLike] | None:
    """The loops whose iterations are the steps that an operation waits for, the outer one first; None for others."""
    around, step = wait.parent_op(), step_of(wait)
    if not isinstance(around, loop.LoopLike):
        return None
    if equal(step, Linear.of(around.iv)):
        return [around]
    outer = around.parent_op()
    if not isinstance(outer, loop.ForOp) or not around.trips or outer.trips is None:
        return None
    return [outer, around] if equal(step, Linear.of(outer.iv, around.trips) + Linear.of(around.iv)) else None


@dataclass(frozen=True)
class _Loop:
    """The loop that reads a ring, or one inside of another."""

    ring: RingOp
    loops: list[loop.LoopLike]
    wait: WaitOp
    release: ReleaseOp

    @property
    def op(self) -> loop.LoopLike:
        """The outer loop."""
        return self.loops[0]

    @property
    def trips(self) -> int | None:
        """The number of steps, None where it is not constant."""
        counts = [each.trips for each in self.loops]
        return None if None in counts else math.prod(count for count in counts if count is not None)

    def copies(self, copies: list[CopyOp]) -> Iterator[Fault]:
        """Check the copies to one buffer: one in the loop, and the steps before its first before the loop."""
        inside = [copy for copy in copies if copy.parent is self.wait.parent]
        before = [copy for copy in copies if copy.parent is not self.wait.parent]
        if len(inside) != 1:
            yield Fault(copies[0], f"the loop copies to its buffer {len(inside)} times a step, it must be once")
            return
        (copy,) = inside
        ahead = step_of(copy) - step_of(self.wait)
        if ahead.terms:
            yield Fault(copy, "its step must be that of the loop plus a constant")
            return
        yield from self._slot(copy, ahead.constant)
        yield from self._conditions(copy, ahead.constant)
        yield from self._prologue(copy, before, ahead.constant)

    def reader(self, op: Operation, buffer: SSAValue) -> Iterator[Fault]:
        """Check that an operation reads the slot of the loop's step, between the wait and the release."""
        accesses = [access for access in accesses_of(op) if access.buffer is buffer]
        if not accesses or any(access.writes for access in accesses):
            yield Fault(op, "a slot of a ring is only read by loop.load")
            return
        for reader in readers_of(op) if isinstance(op, loop.LoadOp) else [op]:
            around = _beside(self.wait, reader)
            if around is None or not (self.wait.is_before_in_block(around) and around.is_before_in_block(self.release)):
                yield Fault(reader, "it reads a slot outside the wait and the release of its step")
        slots = (forms_of(access.map, access.indices)[0] for access in accesses)
        if not all(equal(slot, step_of(self.wait) % self.depth) for slot in slots):
            yield Fault(op, f"it must read the slot of the step that is waited for, step mod {self.depth}")

    @property
    def depth(self) -> int:
        """The number of slots."""
        return depth_of(self.ring.ring)

    def _slot(self, copy: CopyOp, ahead: int) -> Iterator[Fault]:
        """Check that the copy's slot is free, and that it is filled before the loop waits for it."""
        if ahead > self.depth or (ahead == self.depth and not self.release.is_before_in_block(copy)):
            yield Fault(
                copy,
                f"it overwrites the slot of step {ahead - self.depth:+d} from the loop's before that is released: "
                f"{ahead} steps ahead need a ring of {ahead + 1} slots, or {ahead} and a copy after the release",
            )
        if ahead < 0 or (ahead == 0 and not copy.is_before_in_block(self.wait)):
            yield Fault(copy, "it comes after the wait for its step")

    def _conditions(self, copy: CopyOp, ahead: int) -> Iterator[Fault]:
        """Check that the copy runs exactly for the steps that the loop reaches."""
        trips, conditions, step = self.trips, conditions_of(copy), step_of(self.wait)
        inner = self.loops[-1].iv
        if trips is None:
            wanted = [step_of(copy) - bound for bound in bounds_of(self.op)]
            if ahead and not (
                len(wanted) == len(conditions) and all(any(equal(w, c) for c in conditions) for w in wanted)
            ):
                yield Fault(copy, "its conditions must be that its step is below the bound of the loop")
            return
        last = trips - 1 - ahead
        for condition in conditions:
            rest = condition - step * condition.coefficient(inner)
            if rest.terms or condition.coefficient(inner) < 0:
                yield Fault(copy, "its conditions must bound the loop's variable from above")
            elif last >= 0 and condition.coefficient(inner) * last + condition.constant >= 0:
                yield Fault(copy, "its condition leaves out a step that the loop reads")
        reached = [c.coefficient(inner) * (last + 1) + c.constant for c in conditions]
        if ahead > 0 and not any(value >= 0 for value in reached):
            yield Fault(copy, f"it copies steps from {trips} on, which the loop does not reach; add a condition")

    def _prologue(self, copy: CopyOp, before: list[CopyOp], ahead: int) -> Iterator[Fault]:
        """Check that the first `ahead` steps are copied once each, before the loop."""
        steps: list[int] = []
        for first in before:
            around = _beside(self.op, first)
            if around is None or not around.is_before_in_block(self.op):
                yield Fault(first, "it must stand before the loop that waits for its step, or in it")
                return
            covered = _steps(first, around)
            if covered is None:
                yield Fault(first, "its steps must be those of one loop from 0, or one constant, without conditions")
                return
            steps += covered
        wanted = ahead if self.trips is None else min(ahead, self.trips)
        if sorted(steps) != list(range(wanted)):
            yield Fault(copy, f"it runs {ahead} steps ahead, so steps 0 to {wanted - 1} must be copied before the loop")


def _steps(copy: CopyOp, around: Operation) -> list[int] | None:
    """The steps that a copy before the loop covers, or None if they are not understood."""
    step = step_of(copy)
    if conditions_of(copy):
        return None
    if around is copy:
        return None if step.terms else [step.constant]
    if not isinstance(around, loop.ForOp) or copy.parent_op() is not around or around.trips is None:
        return None
    rest = step - Linear.of(around.iv)
    return None if rest.terms else [rest.constant + i for i in range(around.trips)]


def _beside(op: Operation, inner: Operation) -> Operation | None:
    """The operation around `inner`, or itself, that stands in the same block as `op`."""
    return None if op.parent is None else op.parent.find_ancestor_op_in_block(inner)


def rings(function: Operation) -> Iterator[tile.RingOp]:
    """The rings inside an operation, in order."""
    for op in function.walk():
        if isinstance(op, RingOp):
            yield op


def staged_loops(launch: tile.LaunchOp) -> list[tuple[loop.ReduceOp, list[tile.StageOp]]]:
    """The serial reductions of a launch with the shared slabs that are filled directly in their bodies."""
    found: list[tuple[loop.ReduceOp, list[tile.StageOp]]] = []
    for op in launch.body.walk():
        if isinstance(op, loop.ReduceOp) and (stages := _shared_stages(op.body.block)):
            found.append((op, stages))
    return found


def _shared_stages(block: Block) -> list[tile.StageOp]:
    return [op for op in block.ops if isinstance(op, tile.StageOp) and tile.memory_of(op.slab) is tile.Memory.SHARED]
