"""What is asked again and again of one kernel while barriers are placed in it.

`KernelFacts` has what is true of the kernel. `State` has what is known while it is walked: accesses that not all
threads know to be over, and copies in flight. `Meetings` says which accesses of shared memory touch the same element,
by the same thread or by different ones; `thread_of` says which thread touches an element, where subscripts tell.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.shared_accesses import SharedAccess, conditions_of, ordered_accesses
from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Atom, Linear
from deplodock.analysis.affine.ranges import Range
from deplodock.analysis.operations import ancestors
from deplodock.analysis.order.phases import Slot, Times, later, phase_forms, ranked
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import Landing, accesses_of
from deplodock.dialects.kernel.order import UsesPhase, order_of


class KernelFacts:
    """What the operations of a kernel access and order, and which accesses meet.

    It stays true where barriers and fences come and go, each of which is told to `add`; it holds for no other change.
    """

    def __init__(self, function: kernel.FuncOp) -> None:
        self.function = function
        self.meetings = Meetings(function)
        ops = list(function.walk())
        self.orders = {op: found for op in ops if (found := order_of(op)) is not None}
        products = [access for op in ops for access in accesses_of(op) if access.lands is Landing.PRODUCT]
        self.sums = {access.buffer for access in products if access.memory is Memory.REGISTER}
        """The accumulators of products, and the factors that threads hold."""
        self.accesses = {op: found for op in ops if (found := ordered_accesses(op, self.orders.get(op), self.sums))}
        boxes = [op for op, accesses in self.accesses.items() if any(access.by_proxy for access in accesses)]
        self.boxed = {access.buffer for op in boxes for access in self.accesses[op]}
        """The memory that copies of boxes use."""
        self._conditions: dict[loop.GuardOp, list[Linear]] = {}
        self._phase_forms: dict[Operation, list[Linear]] = {}

    def conditions(self, guard: loop.GuardOp) -> list[Linear]:
        """The conditions of a guard as forms that are below 0 where they hold."""
        if guard not in self._conditions:
            self._conditions[guard] = conditions_of(guard)
        return self._conditions[guard]

    def phase_forms(self, op: Operation, use: UsesPhase) -> list[Linear]:
        """The slot of the barrier that an operation uses, and the parity that it waits for."""
        if op not in self._phase_forms:
            self._phase_forms[op] = phase_forms(use)
        return self._phase_forms[op]

    def add(self, op: Operation) -> None:
        """Note a barrier or fence that has come since."""
        if (order := order_of(op)) is not None:
            self.orders[op] = order


class Groups:
    """Accesses in flight, of copies, products or stores: groups that are closed, the oldest first, and the open one."""

    def __init__(self) -> None:
        self.closed: list[dict[SharedAccess, None]] = []
        self.opened: dict[SharedAccess, None] = {}

    def copy(self) -> Groups:
        """Groups that change apart from these."""
        other = Groups()
        other.closed, other.opened = list(self.closed), dict(self.opened)
        return other

    def join(self, other: Groups) -> None:
        """Be what either may be; groups are matched from the latest on."""
        count = max(len(self.closed), len(other.closed))
        none: dict[SharedAccess, None] = {}
        mine, theirs = ([none] * (count - len(each.closed)) + each.closed for each in (self, other))
        self.closed = [{**a, **b} for a, b in zip(mine, theirs, strict=True)]
        self.opened = {**self.opened, **other.opened}

    def __iter__(self) -> Iterator[SharedAccess]:
        for group in (*self.closed, self.opened):
            yield from group

    def take(self) -> list[SharedAccess]:
        """Take all accesses out of the groups."""
        taken = list(self)
        self.closed, self.opened = [], {}
        return taken

    def close(self, most: int) -> None:
        """Close the open group; groups older than any wait leaves in flight, `most`, count as one."""
        self.closed = [*self.closed, self.opened]
        self.opened = {}
        if len(self.closed) > most + 1:
            first, second, *rest = self.closed
            self.closed = [{**first, **second}, *rest]

    def wait(self, pending: int) -> list[SharedAccess]:
        """Take out all groups but the `pending` last ones. Returns their accesses."""
        count = max(0, len(self.closed) - pending)
        over, self.closed = self.closed[:count], self.closed[count:]
        return [access for group in over for access in group]

    def key(self) -> tuple[Hashable, ...]:
        """What tells groups apart."""
        return (frozenset(self.opened), *map(frozenset, self.closed))


@dataclass
class State:
    """What happened since the last barrier, and what is in flight."""

    pending: dict[SharedAccess, int] = field(default_factory=dict[SharedAccess, int])
    """The accesses that not all threads know to be over, with the time of the last one."""
    copies: Groups = field(default_factory=Groups)
    """The asynchronous copies that have not landed, less those that arrive at phases."""
    products: Groups = field(default_factory=Groups)
    """What the products of warpgroups read, and the registers of theirs."""
    stores: Groups = field(default_factory=Groups)
    """What stores of boxes read."""
    slots: dict[tuple[Operation, int], Slot[SharedAccess]] = field(
        default_factory=dict[tuple[Operation, int], Slot[SharedAccess]]
    )
    """The barriers with phases, by what makes them and their subscripts."""
    now: int = 0
    unfenced: dict[SharedAccess, None] = field(default_factory=dict[SharedAccess, None])
    """Writes that their threads have not fenced from the asynchronous proxy."""
    exposed: dict[SharedAccess, None] = field(default_factory=dict[SharedAccess, None])
    """Those among them that threads have handed over, so that their fence comes too late."""
    unready: dict[SharedAccess, None] = field(default_factory=dict[SharedAccess, None])
    """Writes of registers of products that their threads have not fenced from those."""

    number: int = 0
    """The team of threads whose state it is: 0 for all threads of a CTA, 1 and more for those of its roles."""
    heard: Times = field(default_factory=dict[int, int])
    """The times of the other teams that this one knows."""
    others: Sequence[State] = ()
    """The states of the other teams, which have the same slots."""

    def groups(self, of: Landing) -> Groups:
        """The groups of copies, of products, or of stores."""
        return {Landing.PRODUCT: self.products, Landing.STORE: self.stores}.get(of, self.copies)

    def split(self, teams: int) -> list[State]:
        """The states of so many teams that go on from here, with the same slots."""
        found = [State(slots=self.slots, number=number) for number in range(1, teams + 1)]
        for each in found:
            each.others = (self, *(other for other in found if other is not each))
        return found

    def copy(self) -> State:
        """A state that changes apart from this one."""
        slots = {place: slot.copy() for place, slot in self.slots.items()}
        fences = dict(self.unfenced), dict(self.exposed), dict(self.unready)
        groups = self.copies.copy(), self.products.copy(), self.stores.copy()
        return State(dict(self.pending), *groups, slots, self.now, *fences, self.number, dict(self.heard), self.others)

    def become(self, other: State) -> None:
        """Take over the other state."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def join(self, other: State) -> None:
        """Be what either state may be. Phases stay those of this state."""
        self.copies.join(other.copies)
        self.products.join(other.products)
        self.stores.join(other.stores)
        for access, time in other.pending.items():
            self.pending[access] = max(time, self.pending.get(access, time))
        self.now = max(self.now, other.now)
        self.unfenced, self.exposed = self.unfenced | other.unfenced, self.exposed | other.exposed
        self.unready = self.unready | other.unready
        self.heard = {team: min(time, other.heard[team]) for team, time in self.heard.items() if team in other.heard}

    def meet(self) -> None:
        """All threads of the team meet, and see what the others did."""
        if self.others:
            self.heard = later(self.heard, {self.number: self.now})
            self.now += 1
        else:
            self.pending = {}
        self.hand_over()

    def hand_over(self) -> None:
        """Threads let others go on; what they did not fence stays so."""
        self.exposed, self.unfenced = self.exposed | self.unfenced, {}

    def known(self) -> Times:
        """The times that all threads of the team know when they arrive: what they did so far is over then."""
        return later(self.heard, {self.number: self.now})

    def learn(self, times: Times) -> None:
        """All threads of the team know times."""
        if self.others:
            self.heard = later(self.heard, times)
        elif self.number in times:
            self.pending = {access: last for access, last in self.pending.items() if last > times[self.number]}

    def unknown(self) -> Iterator[SharedAccess]:
        """The accesses that not all threads of the team know to be over."""
        if not self.others:
            yield from self.pending
            return
        for each in (self, *self.others):
            heard = self.heard.get(each.number, -1)
            yield from (access for access, time in each.pending.items() if time > heard)

    def copies_in_flight(self) -> Iterator[SharedAccess]:
        """The copies that have not landed."""
        for each in (self, *self.others):
            yield from each.copies
        for slot in self.slots.values():
            yield from slot.arriving
            yield from slot.landed

    def reads_in_flight(self) -> Iterator[SharedAccess]:
        """What products read and add to, and what stores read."""
        for each in (self, *self.others):
            yield from each.products
            yield from each.stores

    def unseen(self) -> Iterator[SharedAccess]:
        """The writes that the asynchronous proxy may not see."""
        for each in (self, *self.others):
            yield from each.unfenced
            yield from each.exposed

    def key(self) -> tuple[Hashable, ...]:
        """What tells states apart, of all teams together; of times only the order counts."""
        states = (self, *self.others)
        held = {time for slot in self.slots.values() for times in (slot.given, slot.known) for time in times.items()}
        held |= {time for each in states for time in each.heard.items()}
        held |= {(each.number, time) for each in states for time in each.pending.values()}
        rank = {time: i for i, time in enumerate(sorted(held))}
        slots = tuple(slot.key(rank) for slot in self.slots.values())
        return (slots, *(each.own_key(rank) for each in states))

    def own_key(self, rank: Mapping[tuple[int, int], int]) -> tuple[Hashable, ...]:
        """What tells states of this team apart, less the slots."""
        pending = frozenset((access, rank[self.number, time]) for access, time in self.pending.items())
        fences = frozenset(self.unfenced), frozenset(self.exposed), frozenset(self.unready)
        groups = self.copies.key(), self.products.key(), self.stores.key()
        return (pending, ranked(self.heard, rank), fences, groups)


class Meetings:
    """The accesses of one kernel, and what is known of them."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self._function = function
        self._roles = {op: role for role in function.roles for op in role.walk()}
        self._owners: dict[SharedAccess, Path | None] = {}
        self._told: dict[tuple[SharedAccess, SSAValue | None], bool] = {}
        self._ranges: dict[SharedAccess, list[Range | None]] = {}

    def team(self, op: Operation) -> kernel.Team:
        """What has the threads that run an operation."""
        return self._roles.get(op, self._function)

    def conflict(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether different threads may touch the same element, and one of them write it."""
        if not (first.writes or second.writes) or not self.meet(first, second):
            return False
        owner = self._owner(first)
        is_of_one_team = self.team(first.op) is self.team(second.op)
        return owner is None or not is_of_one_team or owner != self._owner(second)

    def meet(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether two accesses may touch the same element: the same buffer, and no subscript that is never equal."""
        if first.buffer is not second.buffer:
            return False
        pairs = zip(self._range(first), self._range(second), strict=True)
        return not any(a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]) for a, b in pairs)

    def is_repeated(self, first: SharedAccess, second: SharedAccess, around: Sequence[SSAValue]) -> bool:
        """Whether two walks of one operation are of different iterations of the loops around, which elements tell."""
        if first is not second:
            return False
        return all(self._tells(second, root) for root in (None, *around))

    def _tells(self, access: SharedAccess, root: SSAValue | None) -> bool:
        """Whether the elements of an access tell the value of a coordinate, or without one the thread."""
        if (access, root) not in self._told:
            thread, (subscripts, _) = self._placed(access)
            self._told[access, root] = thread_of(root or thread, subscripts, access.width) is not None
        return self._told[access, root]

    def _placed(self, access: SharedAccess) -> tuple[SSAValue, tuple[Sequence[Linear], Sequence[Linear]]]:
        """The id of a thread, of those that guards leave of a team; the subscripts of an access and all conditions."""
        thread = self.team(access.op).thread_id
        guards = [guard for guard in ancestors(access.op) if isinstance(guard, loop.GuardOp)]
        forms = [form for guard in guards for form in conditions_of(guard)]
        left = [-form.constant for form in forms if form - form.constant == Linear.of(thread)]
        if not left:
            return thread, (access.subscripts, forms)
        one = stand_in(min(left))
        subscripts = [form.substitute(thread, Linear.of(one)) for form in access.subscripts]
        return one, (subscripts, [form.substitute(thread, Linear.of(one)) for form in forms])

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
            thread, (subscripts, conditions) = self._placed(access)
            told = () if access.by_proxy else subscripts
            self._owners[access] = thread_of(thread, told, access.width, _zeros(conditions))
        return self._owners.get(access)


def _zeros(conditions: Sequence[Linear]) -> list[Atom]:
    """The ids, loop variables and remainders that conditions leave at 0."""
    found: list[Atom] = []
    for form in conditions:
        bounds = form.range()
        if bounds is not None and bounds[0] == form.constant == -1 and len(form.terms) == 1:
            found.append(form.terms[0][0])
    return found


Path = tuple["str | int | Path", ...]
"""How an index follows from the subscripts of an element: equal paths give equal indices for the same element."""


def thread_of(thread: SSAValue, subscripts: Sequence[Linear], width: int, zeros: Sequence[Atom] = ()) -> Path | None:
    """How the thread that touches an element follows from the element's subscripts, or None if it does not.

    An access touches `width` elements along the last dimension, where the `zeros` are 0.

    A subscript gives back each of its terms whose digits do not overlap those of the others; the quotient and the
    remainder of a form by the same divisor give back the form, and so its terms. What they leave open may be 0.
    """
    last = len(subscripts) - 1
    known: dict[Atom, Path] = {}
    for dim, form in reversed(list(enumerate(subscripts))):
        _split(form, width - 1 if dim == last else 0, ("subscript", dim), known)
    _join(known)
    if thread not in known:
        for atom in zeros:
            known.setdefault(atom, ("zero",))
        _join(known)
    return known.get(thread)


def _split(form: Linear, slack: int, path: Path, known: dict[Atom, Path]) -> None:
    """Add the terms of a known form whose digits do not overlap those of the others."""
    for atom, coefficient in form.terms:
        size = _digit_size(form, atom, coefficient, slack)
        if size is not None and atom not in known:
            known[atom] = ("digit", path, coefficient, size)


def _join(known: dict[Atom, Path]) -> None:
    """Add the terms of all forms whose quotient and remainder are known."""
    count = 0
    while count < len(known):
        count = len(known)
        for atom in list(known):
            if not isinstance(atom, Division) or not atom.remainder:
                continue
            match atom.form // atom.divisor:
                case Linear(((quotient, 1),), 0) if quotient in known:
                    _split(atom.form, 0, ("join", known[quotient], known[atom], atom.divisor), known)
                case _:
                    pass


def _digit_size(form: Linear, atom: Atom, coefficient: int, slack: int) -> int | None:
    """The size n of a term's digit, so that the term is `form floordiv coefficient mod n`; None if others overlap it.

    `slack` is how far past the form's value an access reaches.
    """
    bounds = Linear.of(atom).range()
    if coefficient <= 0 or bounds is None or bounds[0] != 0:
        return None
    size = bounds[1] + 1
    low = form.constant % (coefficient * size) + slack
    for other, step in form.terms:
        if other is atom or step % (coefficient * size) == 0:
            continue
        reach = Linear.of(other, step).range()
        if reach is None or reach[0] < 0:
            return None
        low += reach[1]
    return size if low < coefficient else None
