"""Hazards on shared memory: accesses by different threads of a CTA that no barrier orders, and copies still in flight.

Two accesses conflict when one of them writes, they may touch the same element, and different threads may. A thread's
own accesses need no barrier: where both addresses give back the same thread index, the pair is safe. An asynchronous
copy is in flight from its issue to the wait of its thread for its group; nothing may touch its elements meanwhile, and
at the wait it is a write of that thread, for a barrier to order.

A barrier with phases orders accesses as well: those of all threads before their arrival, and the copies that arrive,
come before what follows a wait for that phase. So do copies of boxes, whose bytes complete a phase; those see memory
otherwise, so a thread must fence what it wrote where a box goes before it hands that over.

The kernel is walked with what happened since the last barrier and what is in flight. Accesses in a loop are taken for
all its iterations at once, and the loop is walked twice, so that accesses of one iteration meet those of the next. A
loop whose variable chooses a slot of a ring, `%k mod 3`, and no other subscript, or that closes or waits for groups, is
walked iteration by iteration with the slots as numbers, until its state repeats; accesses of different slots do not
meet. So is a loop with arrivals at phases and waits for them, once for each length that it may have.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.access.shared_accesses import (
    Hazard,
    MissingFence,
    SharedAccess,
    conditions_of,
    ordered_accesses,
    slot_of,
)
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Atom, Linear, bounds_of, forms_of, value_range
from deplodock.analysis.affine.ranges import Range
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import ancestors
from deplodock.analysis.order.ownership import Path, thread_of
from deplodock.analysis.order.phases import PhaseFault, Slot, period, phase_forms, threads_where
from deplodock.analysis.order.state import State
from deplodock.analysis.order.uniformity import divergent
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import Landing, accesses_of
from deplodock.dialects.kernel.mbarrier import mbarrier_of
from deplodock.dialects.kernel.order import (
    Arrive,
    ArriveCopies,
    CloseGroup,
    CompleteBytes,
    FenceProducts,
    FenceProxy,
    MakeBarriers,
    Meet,
    Order,
    UsesPhase,
    WaitGroups,
    WaitPhase,
    order_of,
)

Fault: TypeAlias = Hazard | MissingFence | PhaseFault
"""What is wrong with the order of a kernel's accesses of shared memory."""


def first_hazard(function: kernel.FuncOp) -> Fault | None:
    """The first pair of accesses of a kernel that nothing orders, or use of a phase that is wrong, or None."""
    return next(_Walk(function).block(function.body.block, State()), None)


class _Walk:
    """A walk over one kernel."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self._function = function
        self._thread = function.thread_id
        self._threads = function.num_threads
        ops = list(function.walk())
        self._orders = {op: found for op in ops if (found := order_of(op)) is not None}
        products = [access for op in ops for access in accesses_of(op) if access.lands is Landing.PRODUCT]
        self._sums = {access.buffer for access in products if access.writes}
        """The accumulators of products."""
        self._accesses = {op: found for op in ops if (found := ordered_accesses(op, self._orders.get(op), self._sums))}
        boxes = [op for op, accesses in self._accesses.items() if any(access.by_proxy for access in accesses)]
        self._boxed = {access.buffer for op in boxes for access in self._accesses[op]}
        """The memory that copies of boxes use."""
        self._known: dict[tuple[Operation, Operation, bool, tuple[Linear, ...]], SharedAccess] = {}
        self._placed: dict[tuple[Operation, tuple[int, ...]], list[SharedAccess]] = {}
        self._repeats: dict[Operation, int | None] = {}
        self._fixed: dict[SSAValue, int] = {}
        self._endless: set[SSAValue] = set()
        """The variables among them of loops without a known end."""
        self._lengths: list[tuple[Linear, int]] = []
        """The bounds of the loops with phases around whose length varies from CTA to CTA, and the length now."""
        self._around: list[SSAValue] = []
        """The variables of the loops around that are taken for all iterations at once, since the last fixed one."""
        self._issued: set[SharedAccess] = set()
        """The copies issued in those loops so far."""
        self._most_pending: dict[Landing, int] = dict.fromkeys((Landing.GROUP, Landing.PRODUCT), 0)
        """The groups that waits leave in flight at most."""
        for order in self._orders.values():
            if isinstance(order, WaitGroups):
                self._most_pending[order.of] = max(order.pending, self._most_pending[order.of])
        self._relevant: dict[Block, list[Operation]] = {}
        self._owners: dict[SharedAccess, Path | None] = {}
        self._told: dict[tuple[SharedAccess, SSAValue], bool] = {}
        self._ranges: dict[SharedAccess, list[Range | None]] = {}

    def block(self, block: Block, state: State) -> Iterator[Fault]:
        """The hazards of a block after `state`, which becomes what it leaves."""
        for op in self._relevant_ops(block):
            match op:
                case loop.ForOp():
                    if op not in self._repeats:
                        self._repeats[op] = self._period(op)
                    period = self._repeats[op]
                    yield from self._all(op, state) if period is None else self._stepwise(op, period, state)
                case loop.GuardOp():
                    yield from self._guard(op, state)
                case _:
                    if op in self._accesses:
                        yield from self._access(op, state)
                    if op in self._orders:
                        yield from self._order(op, self._orders[op], state)

    def _access(self, op: Operation, state: State) -> Iterator[Fault]:
        accesses = self._accesses_now(op)
        is_by_proxy = any(access.by_proxy for access in accesses)
        for access in accesses:
            if access.buffer in self._sums:
                yield from self._sum(access, state)
                continue
            for other in state.copies_in_flight():
                if self._meet(other, access) and not (other in self._issued and self._is_repeated(other, access)):
                    yield Hazard(other, access, is_in_flight=True)
            for other in state.products:
                if access.writes and self._meet(other, access):
                    yield Hazard(other, access, is_in_flight=True)
            for other in state.pending:
                if self._conflict(other, access):
                    yield Hazard(other, access)
            for other in (*state.unfenced, *state.exposed):
                if is_by_proxy and self._meet(other, access):
                    yield MissingFence(other, access)
        for access in accesses:
            if access.lands is None:
                self._happen(access, state)
            elif access.lands is not Landing.PHASE:
                state.groups(access.lands).opened[access] = None
                if self._around and access.lands is Landing.GROUP:
                    self._issued.add(access)

    def _sum(self, access: SharedAccess, state: State) -> Iterator[Fault]:
        """An access of accumulators, which products add to one after the other."""
        is_product = access.lands is Landing.PRODUCT
        for other in state.unready if is_product else state.products:
            if self._meet(other, access):
                yield MissingFence(other, access) if is_product else Hazard(other, access, is_in_flight=True)

    def _order(self, op: Operation, order: Order, state: State) -> Iterator[Fault]:
        """What an operation orders."""
        match order:
            case Meet():
                state.meet()
            case CloseGroup(of):
                state.groups(of).close(self._most_pending[of])
            case WaitGroups(pending, of):
                for access in state.groups(of).wait(pending):
                    self._happen(self._one(replace(access, since=op, lands=None)), state)
            case FenceProducts():
                state.unready = {}
            case FenceProxy():
                self._fence(op, state)
            case MakeBarriers(slots, arrivals):
                state.slots |= {(op, slot): Slot(arrivals) for slot in range(slots)}
            case _:
                yield from self._phase(op, order, state)

    def _happen(self, access: SharedAccess, state: State) -> None:
        """Let an access of a thread itself take effect."""
        if access.buffer in self._sums:
            if access.writes and access.op is access.since:
                state.unready[access] = None
            return
        state.pending[access] = state.now
        if access.writes and access.buffer in self._boxed:
            state.unfenced[access] = None

    def _fence(self, op: Operation, state: State) -> None:
        """Fence the writes before, where the threads that made them run the fence."""
        is_all = divergent(op, self._function) is None
        state.unfenced = {
            access: None for access in state.unfenced if not is_all and access.since.parent is not op.parent
        }

    def _phase(self, op: Operation, use: UsesPhase, state: State) -> Iterator[PhaseFault]:
        """Arrive at a phase, with bytes or copies, or wait for one."""
        place = self._now(forms_of(*use.slot)[0])
        slot = state.slots.get((mbarrier_of(use.barrier), place.constant))
        count = self._arrivals(op, use)
        if place.terms or slot is None:
            yield PhaseFault(op, "must have a subscript that loops determine, of a barrier that was made before")
            return
        if count is None:
            yield PhaseFault(op, "stands under a condition that leaves open how many threads reach it")
            return
        match use:
            case CompleteBytes():
                if count != 1:
                    yield PhaseFault(op, f"is issued by {count} threads; guard it with `%thread < 1`")
                slot.arrive(0, copies=[box for box in self._accesses_now(op) if box.writes], bytes=-use.bytes)
            case ArriveCopies():
                copies = state.copies.take()
                state.exposed |= dict.fromkeys(copy for copy in copies if copy.buffer in self._boxed)
                slot.arrive(count, copies=copies)
            case Arrive():
                is_all = use.is_warp or count == self._threads
                slot.arrive(count, state.now if is_all else -1, bytes=use.bytes * count)
                state.now += 1
                state.hand_over()
            case WaitPhase():
                parity = self._now(forms_of(*use.parity)[0])
                if parity.terms:
                    yield PhaseFault(op, "must have a parity that loops determine")
                elif (reason := slot.wait(op, parity.constant)) is not None:
                    yield PhaseFault(op, reason)
                state.forget(slot.known)

    def _arrivals(self, op: Operation, use: UsesPhase) -> int | None:
        """How many arrivals or threads reach an operation, None if that is not known.

        Only single arrivals and copies of boxes may leave threads out.
        """
        made = mbarrier_of(use.barrier)
        inside = takewhile(lambda around: not around.is_ancestor(made), ancestors(op))
        guards = [around for around in inside if isinstance(around, loop.GuardOp)]
        conditions = [self._now(self._at_length(form)) for guard in guards for form in conditions_of(guard)]
        count = threads_where(conditions, self._thread, self._threads)
        if isinstance(use, CompleteBytes) or (isinstance(use, Arrive) and not use.is_warp):
            return count
        if count is None or count < self._threads:
            return None
        return -(-count // WARP) if isinstance(use, Arrive) else count

    def _guard(self, op: loop.GuardOp, state: State) -> Iterator[Fault]:
        holds = self._holds(op)
        if holds is False:
            return
        before = state.copy()
        yield from self.block(op.body.block, state)
        if holds is None:
            state.join(before)

    def _all(self, op: loop.ForOp, state: State) -> Iterator[Fault]:
        trips = op.trips
        before = None if trips else state.copy()
        self._around.append(op.iv)
        for _ in range(1 if trips == 1 else 2):
            yield from self.block(op.body.block, state)
        self._around.pop()
        if not self._around:
            self._issued = set()
        if before is not None:
            state.join(before)

    def _stepwise(self, op: loop.ForOp, period: int, state: State) -> Iterator[Fault]:
        """Walk the iterations of a loop one by one; one with phases whose length the block id says, at each length."""
        bounds = bounds_of(op)
        phases = self._phases(op)
        is_of_block = len(bounds) == 1 and set(bounds[0].roots()) == {self._function.block_id}
        if op.trips is not None or not phases or not is_of_block or bounds[0].range() is None:
            yield from self._steps(op, period, op.trips, state)
            return
        yield from self._each_length(op, period, bounds[0], state)
        used = {mbarrier_of(inner.barrier) for inner in phases}
        state.slots = {place: slot for place, slot in state.slots.items() if place[0] not in used}

    def _each_length(self, op: loop.ForOp, period: int, bound: Linear, state: State) -> Iterator[Fault]:
        """Walk a loop at each length that it may have, until longer ones only repeat what shorter ones do.

        What it leaves of phases depends on the length, so nothing may use its barriers afterwards.
        """
        least, most = bound.range() or (0, 0)
        step = bound.divisor()
        distance = math.lcm(period, step)
        forms = [form for guard in op.body.walk() if isinstance(guard, loop.GuardOp) for form in conditions_of(guard)]
        follows = all(form.depends_on(self._function.block_id) for form in forms if form.depends_on(op.iv))
        before, repeating = state.copy(), set[int]()
        for length in range(least, most + 1, step):
            walked = before.copy()
            self._lengths.append((bound, length))
            has_skipped = yield from self._steps(op, period, length, walked)
            self._lengths.pop()
            state.become(walked) if length == least else state.join(walked)
            if has_skipped and follows:
                repeating.add(length % distance)
            if len(repeating) == distance // step:
                return

    def _steps(self, op: loop.ForOp, period: int, trips: int | None, state: State) -> Generator[Fault, None, bool]:
        """Walk iterations one by one; where the state repeats, skip to the last ones before a guard changes.

        A loop whose end varies may end after each of them. Returns whether iterations were skipped.
        """
        bounds = value_range(op.iv)
        most = trips if trips is not None or bounds is None else bounds[1] + 1
        changes = [*self._changes(op), *([] if most is None else [most])]
        if most is None:
            self._endless.add(op.iv)
        after = state.copy()
        around, issued = self._around, self._issued
        self._around, self._issued = [], set()
        seen: dict[tuple[int, tuple[Hashable, ...]], int] = {}
        i, has_skipped = 0, False
        while most is None or i < most:
            if i in changes:
                seen = {}
            key = (i % period, state.key())
            end = min((change for change in changes if change > i), default=None)
            if key in seen:
                if end is None:
                    break
                i += (end - i) // (i - seen[key]) * (i - seen[key])
                seen, has_skipped = {}, True
                if i == end:
                    continue
            seen[key] = i
            self._fixed[op.iv] = i
            yield from self.block(op.body.block, state)
            if trips is None:
                after.join(state)
            i += 1
        self._fixed.pop(op.iv, None)
        self._around, self._issued = around, issued
        if trips is None:
            state.become(after)
        return has_skipped

    def _phases(self, op: loop.ForOp) -> list[UsesPhase]:
        """The uses of phases in a loop."""
        return [use for inner in op.body.walk() if isinstance(use := self._orders.get(inner), UsesPhase)]

    def _period(self, op: loop.ForOp) -> int | None:
        """After how many iterations the slots of a loop repeat, or None for a loop without slots and groups."""
        slots = {
            period(Linear.of(atom))
            for inner in op.body.walk()
            for access in self._accesses.get(inner, ())
            for form, *rest in [access.subscripts or [Linear()]]
            if (atom := slot_of(form)) is not None and atom.form.depends_on(op.iv)
            if not any(other.depends_on(op.iv) for other in rest)
        }
        phases = self._phases(op)
        orders = [self._orders.get(inner) for inner in op.body.walk()]
        if not slots and not phases and not any(isinstance(order, CloseGroup | WaitGroups) for order in orders):
            return None
        return math.lcm(*slots, *(period(form) for inner in phases for form in phase_forms(inner)))

    def _changes(self, op: loop.ForOp) -> list[int]:
        """The iterations from which on a condition in the body, of the loop's variable alone, holds or fails."""
        found: list[int] = []
        for guard in op.body.walk():
            if not isinstance(guard, loop.GuardOp):
                continue
            for form in map(self._at_length, conditions_of(guard)):
                coefficient = form.coefficient(op.iv)
                if coefficient > 0:
                    found.append(-(form.constant // coefficient))
                elif coefficient < 0:
                    found.append(form.constant // -coefficient + 1)
        return [change for change in found if change > 0]

    def _holds(self, op: loop.GuardOp) -> bool | None:
        """Whether the conditions of a guard hold in this iteration; None if that depends on more."""
        bounds = [self._condition(form).range() for form in conditions_of(op)]
        if any(found is not None and found[0] >= 0 for found in bounds):
            return False
        return True if all(found is not None and found[1] < 0 for found in bounds) else None

    def _condition(self, form: Linear) -> Linear:
        """A condition in this iteration; one with quotients is left, as `_changes` does not say when it changes."""
        form = self._at_length(form)
        return form if any(isinstance(atom, Division) for atom, _ in form.terms) else self._now(form)

    def _at_length(self, form: Linear) -> Linear:
        """A form with the bounds of loops that are walked at one length as numbers."""
        for bound, length in self._lengths:
            for atom, coefficient in bound.terms:
                factor, rest = divmod(form.coefficient(atom), coefficient)
                form = form if rest else form - (bound - length) * factor
        return form

    def _accesses_now(self, op: Operation) -> list[SharedAccess]:
        """The accesses of an operation in this iteration: a ring's slot, and where a box goes, are numbers."""
        now = (op, tuple(self._fixed.values()))
        if now not in self._placed:
            self._placed[now] = [self._one(self._access_now(access)) for access in self._accesses[op]]
        return self._placed[now]

    def _access_now(self, access: SharedAccess) -> SharedAccess:
        if not self._fixed or not access.subscripts:
            return access
        first, *rest = access.subscripts
        if access.by_proxy:
            rest = [self._now(form) for form in rest]
        return replace(access, subscripts=(self._now(first, is_slot=slot_of(first) is not None), *rest))

    def _one(self, access: SharedAccess) -> SharedAccess:
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

    def _conflict(self, first: SharedAccess, second: SharedAccess) -> bool:
        if not (first.writes or second.writes) or not self._meet(first, second):
            return False
        owner = self._owner(first)
        return owner is None or owner != self._owner(second)

    def _meet(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether two accesses may touch the same element: the same buffer, and no subscript that is never equal."""
        if first.buffer is not second.buffer:
            return False
        pairs = zip(self._range(first), self._range(second), strict=True)
        return not any(a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]) for a, b in pairs)

    def _is_repeated(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether two walks of one operation are of different iterations, which their elements tell."""
        if first is not second:
            return False
        roots = [self._thread, *self._around]
        return all(self._tells(second, root) for root in roots)

    def _tells(self, access: SharedAccess, root: SSAValue) -> bool:
        """Whether the elements of an access tell the value of a coordinate."""
        if (access, root) not in self._told:
            self._told[access, root] = thread_of(root, access.subscripts, access.width) is not None
        return self._told[access, root]

    def _range(self, access: SharedAccess) -> list[Range | None]:
        """The least and greatest subscript along each dimension."""
        if access not in self._ranges:
            found = [form.range() for form in access.subscripts]
            self._ranges[access] = [
                bounds and (bounds[0], bounds[1] + extent - 1)
                for bounds, extent in zip(found, access.extents, strict=True)
            ]
        return self._ranges[access]

    def _owner(self, access: SharedAccess) -> Path | None:
        if access not in self._owners and not access.is_remote:
            subscripts = () if access.by_proxy else access.subscripts
            self._owners[access] = thread_of(self._thread, subscripts, access.width, _zeros(access.op))
        return self._owners.get(access)

    def _relevant_ops(self, block: Block) -> list[Operation]:
        """The operations of a block that touch or order shared memory, or hold some that do."""
        if block not in self._relevant:
            self._relevant[block] = [op for op in block.ops if self._is_relevant(op)]
        return self._relevant[block]

    def _is_relevant(self, op: Operation) -> bool:
        if isinstance(op, loop.ForOp | loop.GuardOp):
            return any(self._is_relevant(inner) for inner in op.body.block.ops)
        return op in self._accesses or op in self._orders


def _zeros(op: Operation) -> list[Atom]:
    """The ids, loop variables and remainders that guards around an operation leave at 0."""
    found: list[Atom] = []
    for guard in ancestors(op):
        for form in conditions_of(guard) if isinstance(guard, loop.GuardOp) else ():
            bounds = form.range()
            if bounds is not None and bounds[0] == form.constant == -1 and len(form.terms) == 1:
                found.append(form.terms[0][0])
    return found
