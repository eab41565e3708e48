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
from collections.abc import Generator, Hashable, Sequence
from dataclasses import replace
from itertools import takewhile

from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.access.shared_accesses import (
    Hazard,
    MissingFence,
    SharedAccess,
    Unfinished,
    slot_of,
)
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, bounds_of, value_range
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.order.facts import KernelFacts, State
from deplodock.analysis.order.phases import PhaseFault, Slot, period, phase_forms, threads_where
from deplodock.analysis.order.turns import (
    Cursor,
    Fault,
    LastOne,
    LoopPosition,
    Pause,
    Turn,
    Walk,
    deadlock,
    next_turn,
    skip,
)
from deplodock.analysis.order.uniformity import divergent
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import Landing
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
)


def first_hazard(facts: KernelFacts) -> Fault | None:
    """The first pair of accesses of a kernel that nothing orders, or use of a phase that is wrong, or None."""
    found = _Walk(facts).kernel()
    return next((fault for fault in found if not isinstance(fault, Pause | LastOne)), None)


class _Walk:
    """A walk over one kernel."""

    def __init__(self, facts: KernelFacts) -> None:
        self._function, self._meetings, self._conditions = facts.function, facts.meetings, facts.conditions
        self._phase_forms = facts.phase_forms
        self._orders, self._accesses, self._sums, self._boxed = facts.orders, facts.accesses, facts.sums, facts.boxed
        self._at = LoopPosition()
        """Where the walk is, in the role that is walked now."""
        self._turns: Sequence[Turn] = ()
        """The roles that are walked."""
        self._changed = 0
        """How often a guard has changed in a loop of a role."""
        self._known: dict[tuple[Operation, SSAValue, Operation, bool, tuple[Linear, ...]], SharedAccess] = {}
        self._placed: dict[tuple[Operation, tuple[int, ...]], list[SharedAccess]] = {}
        self._repeats: dict[Operation, int | None] = {}
        self._counts: dict[tuple[tuple[Linear, ...], SSAValue], int | None] = {}
        """For how many threads of a team, by its thread id, conditions hold."""
        self._guards: dict[Operation, list[Linear]] = {}
        """The conditions of the guards between an operation that uses a barrier and where that is made."""
        self._endless: set[SSAValue] = set()
        """The variables of loops without a known end that are walked iteration by iteration."""
        self._lengths: list[tuple[Linear, int]] = []
        """The bounds of the loops with phases around whose length varies from CTA to CTA, and the length now."""
        self._most_pending: dict[Landing, int] = dict.fromkeys(Landing, 0)
        """The groups that waits leave in flight at most."""
        for order in self._orders.values():
            if isinstance(order, WaitGroups):
                self._most_pending[order.of] = max(order.pending, self._most_pending[order.of])
        self._relevant: dict[Block, list[Operation]] = {}

    def kernel(self) -> Walk:
        """The hazards of the kernel."""
        state = State()
        yield from self.block(self._function.body.block, state)
        yield from map(Unfinished, state.stores)

    def block(self, block: Block, state: State) -> Walk:
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
                case kernel.RolesOp():
                    yield from self._roles(op, state)
                case _:
                    if op in self._accesses:
                        yield from self._access(op, state)
                    if op in self._orders:
                        yield from self._order(op, self._orders[op], state)

    def _roles(self, op: kernel.RolesOp, state: State) -> Walk:
        """Walk the roles in turns."""
        states = state.split(len(op.roles))
        turns = [Turn(role, self.block(role.body.block, own)) for role, own in zip(op.roles, states, strict=True)]
        self._turns, outer, turn = turns, self._at, None
        while (turn := next_turn(turns, turn)) is not None:
            self._at = turn.place
            step = next(turn.walk, None)
            while step is not None and not isinstance(step, Pause | LastOne):
                yield step
                step = next(turn.walk, None)
            turn.pause, turn.is_done = step, step is None
        self._turns, self._at = (), outer
        if not all(turn.is_done for turn in turns):
            yield deadlock(turns)
        yield from (Unfinished(store) for own in states for store in own.stores)

    def _access(self, op: Operation, state: State) -> Walk:
        accesses = self._accesses_now(op)
        is_by_proxy = any(access.by_proxy for access in accesses)
        for access in accesses:
            if access.buffer in self._sums:
                yield from self._sum(access, state)
                continue
            for other in state.copies_in_flight():
                if self._meetings.meet(other, access) and not self._is_of_another_step(other, access):
                    yield Hazard(other, access, is_in_flight=True)
            for other in state.reads_in_flight():
                if access.writes and self._meetings.meet(other, access):
                    yield Hazard(other, access, is_in_flight=True)
            for other in state.unknown():
                if self._meetings.conflict(other, access):
                    yield Hazard(other, access)
            for other in state.unseen():
                if is_by_proxy and self._meetings.meet(other, access):
                    yield MissingFence(other, access)
        for access in accesses:
            if access.lands is None:
                self._happen(access, state)
            elif access.lands is not Landing.PHASE:
                state.groups(access.lands).opened[access] = None
                if self._at.around and access.lands is Landing.GROUP:
                    self._at.issued.add(access)

    def _is_of_another_step(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether an access is the same one of another iteration of the loops around, which are walked at once."""
        return first in self._at.issued and self._meetings.is_repeated(first, second, self._at.around)

    def _sum(self, access: SharedAccess, state: State) -> Walk:
        """An access of registers of products, which products add to one after the other."""
        is_product = access.lands is Landing.PRODUCT
        for other in state.unready if is_product else state.products:
            if (other.writes or access.writes) and self._meetings.meet(other, access):
                yield MissingFence(other, access) if is_product else Hazard(other, access, is_in_flight=True)

    def _order(self, op: Operation, order: Order, state: State) -> Walk:
        """What an operation orders."""
        match order:
            case Meet(is_cluster):
                if is_cluster and state.others:
                    yield LastOne(op, self._turns)
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

    def _phase(self, op: Operation, use: UsesPhase, state: State) -> Walk:
        """Arrive at a phase, with bytes or copies, or wait for one."""
        slot_form, *parity_forms = self._phase_forms(op, use)
        place = self._now(slot_form)
        slot = state.slots.get((mbarrier_of(use.barrier), place.constant))
        count = self._arrivals(op, use)
        if place.terms or slot is None:
            yield PhaseFault(op, "must have a subscript that loops determine, of a barrier that was made before")
            return
        if count is None:
            yield PhaseFault(op, "stands under a condition that leaves open how many threads reach it")
            return
        completed = slot.completed
        match use:
            case CompleteBytes():
                if count != 1:
                    thread = label(self._meetings.team(op).thread_id)
                    yield PhaseFault(op, f"is issued by {count} threads; guard it with `{thread} < 1`")
                slot.arrive(0, copies=[box for box in self._accesses_now(op) if box.writes], bytes=-use.bytes)
            case ArriveCopies():
                copies = state.copies.take()
                state.exposed |= dict.fromkeys(copy for copy in copies if copy.buffer in self._boxed)
                slot.arrive(count, copies=copies)
            case Arrive():
                is_all = use.is_warp or count == self._meetings.team(op).num_threads
                slot.arrive(count, state.known() if is_all else None, bytes=use.bytes * count)
                state.now += 1
                state.hand_over()
            case WaitPhase():
                parity = self._now(parity_forms[0])
                if parity.terms:
                    yield PhaseFault(op, "must have a parity that loops determine")
                    return
                if state.others and not slot.is_over(parity.constant):
                    yield Pause(op, slot, parity.constant)
                is_all = count == self._meetings.team(op).num_threads
                if (reason := slot.wait(op, parity.constant, is_all)) is not None:
                    yield PhaseFault(op, reason)
                state.learn(slot.known)
        if state.others and slot.completed > completed:
            yield Pause(op, slot)

    def _arrivals(self, op: Operation, use: UsesPhase) -> int | None:
        """How many arrivals or threads reach an operation, None if that is not known.

        Single arrivals, copies of boxes and waits may leave threads out.
        """
        team = self._meetings.team(op)
        if op not in self._guards:
            made = mbarrier_of(use.barrier)
            inside = takewhile(lambda around: not around.is_ancestor(made), ancestors(op))
            guards = [around for around in inside if isinstance(around, loop.GuardOp)]
            self._guards[op] = [form for guard in guards for form in self._conditions(guard)]
        conditions = tuple(self._now(self._at_length(form)) for form in self._guards[op])
        asked = conditions, team.thread_id
        if asked not in self._counts:
            self._counts[asked] = threads_where(conditions, team.thread_id, team.num_threads)
        count = self._counts[asked]
        if isinstance(use, CompleteBytes | WaitPhase) or (isinstance(use, Arrive) and not use.is_warp):
            return count
        if count is None or count < team.num_threads:
            return None
        return -(-count // WARP) if isinstance(use, Arrive) else count

    def _guard(self, op: loop.GuardOp, state: State) -> Walk:
        holds = self._holds(op)
        if holds is False:
            return
        before = state.copy()
        yield from self.block(op.body.block, state)
        if holds is None:
            state.join(before)

    def _all(self, op: loop.ForOp, state: State) -> Walk:
        trips = op.trips
        before = None if trips else state.copy()
        self._at.around.append(op.iv)
        for _ in range(1 if trips == 1 else 2):
            yield from self.block(op.body.block, state)
        self._at.around.pop()
        if not self._at.around:
            self._at.issued = set()
        if before is not None:
            state.join(before)

    def _stepwise(self, op: loop.ForOp, period: int, state: State) -> Walk:
        """Walk the iterations of a loop one by one; one with phases whose length the block id says, at each length."""
        bounds = bounds_of(op)
        phases = self._phases(op)
        if state.others and phases and op.trips is None:
            first = next(inner for inner in op.body.walk() if isinstance(self._orders.get(inner), UsesPhase))
            yield PhaseFault(first, "stands in a loop of a role whose length varies")
            return
        is_of_block = len(bounds) == 1 and set(bounds[0].roots()) == {self._function.block_id}
        if op.trips is not None or not phases or not is_of_block or bounds[0].range() is None:
            yield from self._steps(op, period, op.trips, state)
            return
        yield from self._each_length(op, period, bounds[0], state)
        used = {mbarrier_of(inner.barrier) for inner in phases}
        state.slots = {place: slot for place, slot in state.slots.items() if place[0] not in used}

    def _each_length(self, op: loop.ForOp, period: int, bound: Linear, state: State) -> Walk:
        """Walk a loop at each length that it may have, until longer ones only repeat what shorter ones do.

        What it leaves of phases depends on the length, so nothing may use its barriers afterwards.
        """
        least, most = bound.range() or (0, 0)
        step = bound.divisor()
        distance = math.lcm(period, step)
        forms = [
            form for guard in op.body.walk() if isinstance(guard, loop.GuardOp) for form in self._conditions(guard)
        ]
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

    def _steps(
        self, op: loop.ForOp, period: int, trips: int | None, state: State
    ) -> Generator[Fault | Pause | LastOne, None, bool]:
        """Walk iterations one by one; where the state repeats, skip to the last ones before a guard changes.

        A loop whose end varies may end after each of them. Returns whether iterations were skipped.
        """
        bounds = value_range(op.iv)
        most = trips if trips is not None or bounds is None else bounds[1] + 1
        changes = [*self._changes(op), *([] if most is None else [most])]
        if most is None:
            self._endless.add(op.iv)
        after = state.copy()
        around, issued = self._at.around, self._at.issued
        self._at.around, self._at.issued = [], set()
        cursor = Cursor(op.iv, period, changes)
        self._at.loops.append(cursor)
        seen: dict[tuple[Hashable, ...], list[int]] = {}
        has_skipped = False
        while most is None or cursor.now < most:
            if cursor.now in changes:
                seen = {}
                self._changed += bool(state.others)
            places = [turn.place for turn in self._turns] or [self._at]
            key = (
                self._changed,
                *(place.key() for place in places),
                *(turn.key() for turn in self._turns),
                state.key(),
            )
            if key in seen:
                if cursor.end is None:
                    break
                if skip(places, seen[key], cursor):
                    seen, has_skipped = {}, True
                    continue
            seen[key] = [each.now for place in places for each in place.loops]
            self._at.fixed[op.iv] = cursor.now
            yield from self.block(op.body.block, state)
            if trips is None:
                after.join(state)
            cursor.now += 1
        self._at.fixed.pop(op.iv, None)
        self._at.loops.pop()
        self._at.around, self._at.issued = around, issued
        if trips is None:
            after.slots = state.slots if state.others else after.slots
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
            for form in map(self._at_length, self._conditions(guard)):
                coefficient = form.coefficient(op.iv)
                if coefficient > 0:
                    found.append(-(form.constant // coefficient))
                elif coefficient < 0:
                    found.append(form.constant // -coefficient + 1)
        return [change for change in found if change > 0]

    def _holds(self, op: loop.GuardOp) -> bool | None:
        """Whether the conditions of a guard hold in this iteration; None if that depends on more."""
        bounds = [self._condition(form).range() for form in self._conditions(op)]
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
        now = (op, tuple(self._at.fixed.values()))
        if now not in self._placed:
            self._placed[now] = [self._one(self._access_now(access)) for access in self._accesses[op]]
        return self._placed[now]

    def _access_now(self, access: SharedAccess) -> SharedAccess:
        if not self._at.fixed or not access.subscripts:
            return access
        first, *rest = access.subscripts
        if access.by_proxy:
            rest = [self._now(form) for form in rest]
        return replace(access, subscripts=(self._now(first, is_slot=slot_of(first) is not None), *rest))

    def _one(self, access: SharedAccess) -> SharedAccess:
        """The object that stands for all equal accesses."""
        key = access.op, access.buffer, access.since, access.writes, access.subscripts
        return self._known.setdefault(key, access)

    def _now(self, form: Linear, is_slot: bool = True) -> Linear:
        """A form with the variables of loops that are walked iteration by iteration as numbers.

        A loop without a known end would never repeat its state if it counted through anything but the slots.
        """
        for root, value in self._at.fixed.items():
            if form.depends_on(root) and (is_slot or root not in self._endless):
                form = form.substitute(root, Linear(constant=value))
        return form

    def _relevant_ops(self, block: Block) -> list[Operation]:
        """The operations of a block that touch or order shared memory, or hold some that do."""
        if block not in self._relevant:
            self._relevant[block] = [op for op in block.ops if self._is_relevant(op)]
        return self._relevant[block]

    def _is_relevant(self, op: Operation) -> bool:
        if isinstance(op, loop.ForOp | loop.GuardOp | kernel.RolesOp | kernel.Team):
            return any(self._is_relevant(inner) for inner in op.body.block.ops)
        return op in self._accesses or op in self._orders
