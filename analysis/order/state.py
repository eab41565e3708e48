"""What is known while a kernel is walked: accesses that not all threads know to be over, and copies in flight."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from xdsl.ir import Operation

from deplodock.analysis.access.shared_accesses import SharedAccess
from deplodock.analysis.order.phases import Slot, Times, later, ranked
from deplodock.dialects.interfaces import Landing


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
