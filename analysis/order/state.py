"""What is known while a kernel is walked: accesses that not all threads know to be over, and copies in flight."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from xdsl.ir import Operation

from deplodock.analysis.access.shared_accesses import SharedAccess
from deplodock.analysis.order.phases import Slot


@dataclass
class State:
    """What happened since the last barrier, and the groups of copies in flight, oldest first."""

    pending: dict[SharedAccess, int] = field(default_factory=dict[SharedAccess, int])
    """The accesses that not all threads know to be over, with the time of the last one."""
    groups: list[dict[SharedAccess, None]] = field(default_factory=list[dict[SharedAccess, None]])
    opened: dict[SharedAccess, None] = field(default_factory=dict[SharedAccess, None])
    slots: dict[tuple[Operation, int], Slot[SharedAccess]] = field(
        default_factory=dict[tuple[Operation, int], Slot[SharedAccess]]
    )
    """The barriers with phases, by what makes them and their subscripts."""
    now: int = 0
    unfenced: dict[SharedAccess, None] = field(default_factory=dict[SharedAccess, None])
    """Writes that their threads have not fenced from copies of boxes."""
    exposed: dict[SharedAccess, None] = field(default_factory=dict[SharedAccess, None])
    """Those among them that threads have handed over, so that their fence comes too late."""

    def copy(self) -> State:
        """A state that changes apart from this one."""
        slots = {place: slot.copy() for place, slot in self.slots.items()}
        unfenced, exposed = dict(self.unfenced), dict(self.exposed)
        return State(dict(self.pending), list(self.groups), dict(self.opened), slots, self.now, unfenced, exposed)

    def become(self, other: State) -> None:
        """Take over the other state."""
        self.pending, self.groups, self.opened = other.pending, other.groups, other.opened
        self.slots, self.now = other.slots, other.now
        self.unfenced, self.exposed = other.unfenced, other.exposed

    def join(self, other: State) -> None:
        """Be what either state may be; groups are matched from the latest on. Phases stay those of this state."""
        count = max(len(self.groups), len(other.groups))
        none: dict[SharedAccess, None] = {}
        mine, theirs = ([none] * (count - len(groups)) + groups for groups in (self.groups, other.groups))
        self.groups = [{**a, **b} for a, b in zip(mine, theirs, strict=True)]
        for access, time in other.pending.items():
            self.pending[access] = max(time, self.pending.get(access, time))
        self.opened = {**self.opened, **other.opened}
        self.now = max(self.now, other.now)
        self.unfenced, self.exposed = self.unfenced | other.unfenced, self.exposed | other.exposed

    def meet(self) -> None:
        """All threads meet, and see what the others did."""
        self.pending = {}
        self.hand_over()

    def hand_over(self) -> None:
        """Threads let others go on; what they did not fence stays so."""
        self.exposed, self.unfenced = self.exposed | self.unfenced, {}

    def in_flight(self) -> Iterator[SharedAccess]:
        """The copies that have not landed."""
        for group in (*self.groups, self.opened):
            yield from group
        for slot in self.slots.values():
            yield from slot.arriving
            yield from slot.landed

    def take(self) -> list[SharedAccess]:
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

    def wait(self, pending: int) -> list[SharedAccess]:
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
        fences = frozenset(self.unfenced), frozenset(self.exposed)
        return (pending, frozenset(self.opened), slots, fences, *map(frozenset, self.groups))
