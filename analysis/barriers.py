"""Hazards on shared memory: accesses by different threads of a CTA that no barrier orders, and copies still in flight.

Two accesses conflict when one of them writes, they may touch the same element, and different threads may. A thread's
own accesses need no barrier: where both addresses give back the same thread index, the pair is safe. An asynchronous
copy is in flight from its issue to the wait of its thread for its group; nothing may touch its elements meanwhile, and
at the wait it is a write of that thread, for a barrier to order.

A barrier with phases orders accesses as well: those of all threads before their arrival, and the copies that arrive,
come before what follows a wait for that phase.

The kernel is walked with what happened since the last barrier and what is in flight. Accesses in a loop are taken for
all its iterations at once, and the loop is walked twice, so that accesses of one iteration meet those of the next. A
loop whose variable chooses a slot of a ring, `%k mod 3`, or that closes or waits for groups, is walked iteration by
iteration with the slots as numbers, until its state repeats; accesses of different slots do not meet. So is a loop
with arrivals at phases and waits for them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.linear import Division, Linear, Range, fold, fold_map
from deplodock.analysis.ownership import Path, thread_of
from deplodock.analysis.phases import WARP, PhaseFault, Slot, period, phase_forms, threads_where
from deplodock.dialects import kernel, loop
from deplodock.dialects.affine_syntax import condition_pairs
from deplodock.dialects.kernel_mbarrier import ArriveCopiesOp, ArriveOp, MbarrierOp, WaitPhaseOp, mbarrier_of
from deplodock.dialects.tile import Memory, memory_of


@dataclass(frozen=True, eq=False)
class Access:
    """One operation's read or write of a shared buffer: `width` elements along the last dimension.

    A walk makes one object for equal accesses, so that they are told apart quickly.
    """

    op: Operation
    buffer: SSAValue
    writes: bool
    subscripts: tuple[Linear, ...]
    width: int
    since: Operation
    """Where it takes effect: at the operation, or at the wait where an asynchronous copy lands."""


@dataclass(frozen=True)
class Hazard:
    """Two accesses that need a barrier between them, in the order they run; or a wait, if the first is in flight."""

    first: Access
    second: Access
    is_in_flight: bool = False

    def __str__(self) -> str:
        done = "written" if self.first.writes else "read"
        then = "overwritten" if self.second.writes else "read"
        buffer = f"%{self.first.buffer.name_hint or '?'}"
        if self.is_in_flight:
            return f"{buffer} is {then} by {self.second.op.name} while an async kernel.move to it is in flight"
        return f"{buffer} is {done} by {self.first.op.name} and then {then} by {self.second.op.name}"


def first_hazard(function: kernel.FuncOp) -> Hazard | PhaseFault | None:
    """The first pair of accesses of a kernel that nothing orders, or wait for a phase that is wrong, or None."""
    return next(_Walk(function).block(function.body.block, _State()), None)


def divergent(op: Operation, function: kernel.FuncOp) -> Operation | None:
    """The guard or loop around an operation whose condition or bound may differ between threads of a CTA, or None."""
    parent = op.parent_op()
    while parent is not None and parent is not function:
        if isinstance(parent, loop.GuardOp) and not _is_uniform(parent.conditions.data, parent.indices, function):
            return parent
        if isinstance(parent, loop.ForOp) and not _is_uniform(parent.bound.data, parent.bound_operands, function):
            return parent
        parent = parent.parent_op()
    return None


def _is_uniform(map: AffineMap, operands: Sequence[SSAValue], function: kernel.FuncOp) -> bool:
    """Whether a map's values are the same for all threads of a CTA: they depend on block id, loops and tickets."""
    return all(_is_uniform_root(root, function) for form in fold_map(map, operands) for root in form.roots())


def _is_uniform_root(root: SSAValue, function: kernel.FuncOp) -> bool:
    if root is function.thread_id or not isinstance(root, BlockArgument):
        return isinstance(root.owner, kernel.TicketOp)
    owner = root.block.parent_op()
    return owner is function or (
        isinstance(owner, loop.ForOp) and _is_uniform(owner.bound.data, owner.bound_operands, function)
    )


def shared_accesses(op: Operation) -> list[Access]:
    """The accesses of shared memory that one operation makes; one of a barrier with phases reads or makes it."""
    match op:
        case loop.LoadOp() | kernel.ClusterLoadOp():
            sides = [(op.source, False, op.map.data, op.indices, 1)]
        case loop.StoreOp():
            sides = [(op.destination, True, op.map.data, op.indices, 1)]
        case kernel.MoveOp():
            sides = [
                (op.source, False, op.source_map.data, op.source_indices, op.elements),
                (op.destination, True, op.destination_map.data, op.destination_indices, op.elements),
            ]
        case MbarrierOp():
            return [Access(op, op.result, True, (), 1, op)]
        case ArriveOp() | ArriveCopiesOp() | WaitPhaseOp():
            return [Access(op, op.barrier, False, (), 1, op)]
        case _:
            return []
    return [
        Access(op, buffer, writes, tuple(fold_map(map, indices)), width, op)
        for buffer, writes, map, indices, width in sides
        if memory_of(buffer) is Memory.SHARED
    ]


@dataclass
class _State:
    """What happened since the last barrier, and the groups of copies in flight, oldest first."""

    pending: dict[Access, int] = field(default_factory=dict[Access, int])
    """The accesses that not all threads know to be over, with the time of the last one."""
    groups: list[dict[Access, None]] = field(default_factory=list[dict[Access, None]])
    opened: dict[Access, None] = field(default_factory=dict[Access, None])
    slots: dict[tuple[Operation, int], Slot[Access]] = field(default_factory=dict[tuple[Operation, int], Slot[Access]])
    """The barriers with phases, by what makes them and their subscripts."""
    now: int = 0

    def copy(self) -> _State:
        """A state that changes apart from this one."""
        slots = {place: slot.copy() for place, slot in self.slots.items()}
        return _State(dict(self.pending), list(self.groups), dict(self.opened), slots, self.now)

    def become(self, other: _State) -> None:
        """Take over the other state."""
        self.pending, self.groups, self.opened = other.pending, other.groups, other.opened
        self.slots, self.now = other.slots, other.now

    def join(self, other: _State) -> None:
        """Be what either state may be; groups are matched from the latest on. Phases stay those of this state."""
        count = max(len(self.groups), len(other.groups))
        none: dict[Access, None] = {}
        mine, theirs = ([none] * (count - len(groups)) + groups for groups in (self.groups, other.groups))
        self.groups = [{**a, **b} for a, b in zip(mine, theirs, strict=True)]
        for access, time in other.pending.items():
            self.pending[access] = max(time, self.pending.get(access, time))
        self.opened = {**self.opened, **other.opened}
        self.now = max(self.now, other.now)

    def in_flight(self) -> Iterator[Access]:
        """The copies that have not landed."""
        for group in (*self.groups, self.opened):
            yield from group
        for slot in self.slots.values():
            yield from slot.arriving
            yield from slot.landed

    def take(self) -> list[Access]:
        """Take all copies that no phase has yet out of the groups."""
        taken = [access for group in (*self.groups, self.opened) for access in group]
        self.groups, self.opened = [], {}
        return taken

    def forget(self, time: int) -> None:
        """All threads know that what happened until a time is over."""
        self.pending = {access: last for access, last in self.pending.items() if last > time}

    def commit(self, most: int) -> None:
        """Close the open group; groups older than any wait leaves in flight, `most`, count as one."""
        self.groups = [*self.groups, self.opened]
        self.opened = {}
        if len(self.groups) > most + 1:
            first, second, *rest = self.groups
            self.groups = [{**first, **second}, *rest]

    def wait(self, pending: int) -> list[Access]:
        """Land all groups but the `pending` last ones. Returns what they copy."""
        count = max(0, len(self.groups) - pending)
        landed, self.groups = self.groups[:count], self.groups[count:]
        return [access for group in landed for access in group]

    def key(self) -> tuple[Hashable, ...]:
        """What tells states apart; of times only the order counts."""
        held = [time for slot in self.slots.values() for time in slot.times()]
        rank = {time: i for i, time in enumerate(sorted({*self.pending.values(), *held}))}
        pending = frozenset((access, rank[time]) for access, time in self.pending.items())
        slots = tuple(slot.key(rank) for slot in self.slots.values())
        return (pending, frozenset(self.opened), slots, *map(frozenset, self.groups))


class _Walk:
    """A walk over one kernel."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self._thread = function.thread_id
        self._threads = function.num_threads
        self._accesses = {op: found for op in function.walk() if (found := shared_accesses(op))}
        self._known: dict[tuple[Operation, Operation, bool, tuple[Linear, ...]], Access] = {}
        self._placed: dict[tuple[Operation, tuple[int, ...]], list[Access]] = {}
        self._repeats: dict[Operation, int | None] = {}
        self._fixed: dict[SSAValue, int] = {}
        self._endless: set[SSAValue] = set()
        """The variables among them of loops without a known end."""
        self._around: list[SSAValue] = []
        """The variables of the loops around that are taken for all iterations at once, since the last fixed one."""
        self._issued: set[Access] = set()
        """The copies issued in those loops so far."""
        waits = [op.pending.value.data for op in function.walk() if isinstance(op, kernel.WaitGroupOp)]
        self._most_pending = max(waits, default=0)
        self._relevant: dict[Block, list[Operation]] = {}
        self._owners: dict[Access, Path | None] = {}
        self._ranges: dict[Access, list[Range | None]] = {}

    def block(self, block: Block, state: _State) -> Iterator[Hazard | PhaseFault]:
        """The hazards of a block after `state`, which becomes what it leaves."""
        for op in self._relevant_ops(block):
            match op:
                case kernel.BarrierOp() | kernel.TicketOp() | kernel.ClusterBarrierOp():
                    state.pending = {}
                case kernel.CommitGroupOp():
                    state.commit(self._most_pending)
                case kernel.WaitGroupOp():
                    for access in state.wait(op.pending.value.data):
                        state.pending[self._one(replace(access, since=op))] = state.now
                case MbarrierOp():
                    yield from self._access(op, state)
                    slots, arrivals = op.slots.value.data, op.arrivals.value.data
                    state.slots |= {(op, slot): Slot(arrivals) for slot in range(slots)}
                case ArriveOp() | ArriveCopiesOp() | WaitPhaseOp():
                    yield from self._access(op, state)
                    yield from self._phase(op, state)
                case loop.ForOp():
                    if op not in self._repeats:
                        self._repeats[op] = self._period(op)
                    period = self._repeats[op]
                    yield from self._all(op, state) if period is None else self._stepwise(op, period, state)
                case loop.GuardOp():
                    yield from self._guard(op, state)
                case _:
                    yield from self._access(op, state)

    def _access(self, op: Operation, state: _State) -> Iterator[Hazard | PhaseFault]:
        accesses = self._accesses_now(op)
        for access in accesses:
            for other in state.in_flight():
                if self._meet(other, access) and not (other in self._issued and self._is_repeated(other, access)):
                    yield Hazard(other, access, is_in_flight=True)
            for other in state.pending:
                if self._conflict(other, access):
                    yield Hazard(other, access)
        for access in accesses:
            is_async = access.writes and isinstance(op, kernel.MoveOp) and op.is_async is not None
            if not is_async:
                state.pending[access] = state.now
                continue
            state.opened[access] = None
            if self._around:
                self._issued.add(access)

    def _phase(self, op: ArriveOp | ArriveCopiesOp | WaitPhaseOp, state: _State) -> Iterator[PhaseFault]:
        """Arrive at a phase or wait for one."""
        place = self._now(fold_map(op.slot.data, op.slot_indices)[0])
        slot = state.slots.get((mbarrier_of(op.barrier), place.constant))
        count = self._arrivals(op)
        if place.terms or slot is None:
            yield PhaseFault(op, "must have a subscript that loops determine, of a barrier that was made before")
        elif count is None:
            yield PhaseFault(op, "stands under a condition that leaves open how many threads reach it")
        elif isinstance(op, ArriveCopiesOp):
            slot.arrive(count, copies=state.take())
        elif isinstance(op, ArriveOp):
            is_all = op.is_warp is not None or count == self._threads
            slot.arrive(count, state.now if is_all else -1)
            state.now += 1
        else:
            parity = self._now(fold_map(op.parity.data, op.parity_indices)[0])
            if parity.terms:
                yield PhaseFault(op, "must have a parity that loops determine")
            elif (reason := slot.wait(op, parity.constant)) is not None:
                yield PhaseFault(op, reason)
            state.forget(slot.known)

    def _arrivals(self, op: ArriveOp | ArriveCopiesOp | WaitPhaseOp) -> int | None:
        """How many arrivals reach an operation; None if that is not known. Only single ones may leave threads out."""
        made, parent = mbarrier_of(op.barrier), op.parent_op()
        conditions: list[Linear] = []
        while parent is not None and not parent.is_ancestor(made):
            if isinstance(parent, loop.GuardOp):
                conditions += [self._now(form) for form in _conditions(parent)]
            parent = parent.parent_op()
        count = threads_where(conditions, self._thread, self._threads)
        if isinstance(op, ArriveOp) and op.is_warp is None:
            return count
        if count is None or count < self._threads:
            return None
        return -(-count // WARP) if isinstance(op, ArriveOp) else count

    def _guard(self, op: loop.GuardOp, state: _State) -> Iterator[Hazard | PhaseFault]:
        holds = self._holds(op)
        if holds is False:
            return
        before = state.copy()
        yield from self.block(op.body.block, state)
        if holds is None:
            state.join(before)

    def _all(self, op: loop.ForOp, state: _State) -> Iterator[Hazard | PhaseFault]:
        before = state.copy()
        self._around.append(op.iv)
        for _ in range(1 if op.trips == 1 else 2):
            yield from self.block(op.body.block, state)
        self._around.pop()
        if not self._around:
            self._issued = set()
        if not op.trips:
            state.join(before)

    def _stepwise(self, op: loop.ForOp, period: int, state: _State) -> Iterator[Hazard | PhaseFault]:
        """Walk iterations one by one; where the state repeats, skip to the last ones before a guard changes."""
        changes = [*self._changes(op), *([] if op.trips is None else [op.trips])]
        if op.trips is None:
            self._endless.add(op.iv)
        after = state.copy()
        around, issued = self._around, self._issued
        self._around, self._issued = [], set()
        seen: dict[tuple[int, tuple[Hashable, ...]], int] = {}
        i = 0
        while op.trips is None or i < op.trips:
            if i in changes:
                seen = {}
            key = (i % period, state.key())
            end = min((change for change in changes if change > i), default=None)
            if key in seen:
                if end is None:
                    break
                i += (end - i) // (i - seen[key]) * (i - seen[key])
                seen = {}
                if i == end:
                    continue
            seen[key] = i
            self._fixed[op.iv] = i
            yield from self.block(op.body.block, state)
            if op.trips is None:
                after.join(state)
            i += 1
        self._fixed.pop(op.iv, None)
        self._around, self._issued = around, issued
        if op.trips is None:
            state.become(after)

    def _period(self, op: loop.ForOp) -> int | None:
        """After how many iterations the slots of a loop repeat, or None for a loop without slots and groups."""
        slots = {
            atom.divisor
            for inner in op.body.walk()
            for access in self._accesses.get(inner, ())
            for form in access.subscripts
            if (atom := _slot(form)) is not None and atom.form.depends_on(op.iv)
        }
        groups = (kernel.CommitGroupOp, kernel.WaitGroupOp)
        phases = [inner for inner in op.body.walk() if isinstance(inner, ArriveOp | ArriveCopiesOp | WaitPhaseOp)]
        if not slots and not phases and not any(isinstance(inner, groups) for inner in op.body.walk()):
            return None
        return math.lcm(*slots, *(period(form) for inner in phases for form in phase_forms(inner)))

    def _changes(self, op: loop.ForOp) -> list[int]:
        """The iterations from which on a condition in the body, of the loop's variable alone, holds or fails."""
        found: list[int] = []
        for guard in op.body.walk():
            if not isinstance(guard, loop.GuardOp):
                continue
            for form in _conditions(guard):
                coefficient = form.coefficient(op.iv)
                if coefficient > 0:
                    found.append(-(form.constant // coefficient))
                elif coefficient < 0:
                    found.append(form.constant // -coefficient + 1)
        return [change for change in found if change > 0]

    def _holds(self, op: loop.GuardOp) -> bool | None:
        """Whether the conditions of a guard hold in this iteration; None if that depends on more."""
        bounds = [self._condition(form).range() for form in _conditions(op)]
        if any(found is not None and found[0] >= 0 for found in bounds):
            return False
        return True if all(found is not None and found[1] < 0 for found in bounds) else None

    def _condition(self, form: Linear) -> Linear:
        """A condition in this iteration; one with quotients is left, as `_changes` does not say when it changes."""
        return form if any(isinstance(atom, Division) for atom, _ in form.terms) else self._now(form)

    def _accesses_now(self, op: Operation) -> list[Access]:
        """The accesses of an operation in this iteration: the first subscript, a ring's slot, is a number."""
        now = (op, tuple(self._fixed.values()))
        if now not in self._placed:
            self._placed[now] = [self._one(self._access_now(access)) for access in self._accesses[op]]
        return self._placed[now]

    def _access_now(self, access: Access) -> Access:
        if not self._fixed or not access.subscripts:
            return access
        first, *rest = access.subscripts
        return replace(access, subscripts=(self._now(first, is_slot=_slot(first) is not None), *rest))

    def _one(self, access: Access) -> Access:
        """The object that stands for all equal accesses."""
        return self._known.setdefault((access.op, access.since, access.writes, access.subscripts), access)

    def _now(self, form: Linear, is_slot: bool = True) -> Linear:
        """A form with the variables of loops that are walked iteration by iteration as numbers.

        A loop without a known end would never repeat its state if it counted through anything but the slots.
        """
        for root, value in self._fixed.items():
            if form.depends_on(root) and (is_slot or root not in self._endless):
                form = form.substitute(root, Linear(constant=value))
        return form

    def _conflict(self, first: Access, second: Access) -> bool:
        if not (first.writes or second.writes) or not self._meet(first, second):
            return False
        owner = self._owner(first)
        return owner is None or owner != self._owner(second)

    def _meet(self, first: Access, second: Access) -> bool:
        """Whether two accesses may touch the same element: the same buffer, and no subscript that is never equal."""
        if first.buffer is not second.buffer:
            return False
        pairs = zip(self._range(first), self._range(second), strict=True)
        return not any(a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]) for a, b in pairs)

    def _is_repeated(self, first: Access, second: Access) -> bool:
        """Whether two walks of one operation are of different iterations, which their elements tell."""
        if first is not second:
            return False
        roots = [self._thread, *self._around]
        return all(thread_of(root, second.subscripts, second.width) is not None for root in roots)

    def _range(self, access: Access) -> list[Range | None]:
        """The least and greatest subscript along each dimension."""
        if access not in self._ranges:
            found = [form.range() for form in access.subscripts]
            if found and (last := found[-1]) is not None:
                found[-1] = (last[0], last[1] + access.width - 1)
            self._ranges[access] = found
        return self._ranges[access]

    def _owner(self, access: Access) -> Path | None:
        if access not in self._owners and not isinstance(access.op, kernel.ClusterLoadOp):
            follows = thread_of(self._thread, access.subscripts, access.width)
            self._owners[access] = ("only",) if follows is None and self._is_of_first_thread(access.op) else follows
        return self._owners.get(access)

    def _is_of_first_thread(self, op: Operation) -> bool:
        """Whether a guard around an operation leaves the first thread alone."""
        first = Linear(((self._thread, 1),), -1)
        parent = op.parent_op()
        while parent is not None:
            if isinstance(parent, loop.GuardOp) and first in _conditions(parent):
                return True
            parent = parent.parent_op()
        return False

    def _relevant_ops(self, block: Block) -> list[Operation]:
        """The operations of a block that touch or order shared memory, or hold some that do."""
        if block not in self._relevant:
            self._relevant[block] = [op for op in block.ops if self._is_relevant(op)]
        return self._relevant[block]

    def _is_relevant(self, op: Operation) -> bool:
        orders = (kernel.BarrierOp, kernel.TicketOp, kernel.ClusterBarrierOp, kernel.CommitGroupOp, kernel.WaitGroupOp)
        if isinstance(op, loop.ForOp | loop.GuardOp):
            return any(self._is_relevant(inner) for inner in op.body.block.ops)
        return op in self._accesses or isinstance(op, orders)


def _conditions(op: loop.GuardOp) -> list[Linear]:
    """The conditions of a guard as forms that are below 0 where they hold."""
    return [fold(lhs, op.indices) - fold(rhs, op.indices) for lhs, rhs in condition_pairs(op.conditions.data)]


def _slot(form: Linear) -> Division | None:
    """The remainder that a subscript is, if it is one of loop variables: the slot of a ring."""
    if len(form.terms) != 1 or form.constant:
        return None
    ((atom, coefficient),) = form.terms
    if not isinstance(atom, Division) or not atom.remainder or coefficient != 1:
        return None
    return atom if all(_is_loop_variable(root) for root in form.roots()) else None


def _is_loop_variable(root: SSAValue) -> bool:
    return isinstance(root, BlockArgument) and isinstance(root.block.parent_op(), loop.ForOp)
