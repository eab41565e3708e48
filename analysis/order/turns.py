"""Roles walked in turns: each goes on until it waits for a phase that is not over, and then another one does.

Waits and arrivals only ever let more go on, so one order of turns tells whether all roles can end. A role that
completes a phase lets others go on first, so that they meet each phase before the next one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.shared_accesses import Hazard, MissingFence, SharedAccess, Unfinished
from deplodock.analysis.operations import position_of
from deplodock.analysis.order.phases import PhaseFault, Slot
from deplodock.dialects.kernel import Team

Fault = Hazard | MissingFence | PhaseFault | Unfinished
"""What is wrong with the order of a kernel's accesses of shared memory."""


@dataclass(frozen=True)
class Pause:
    """A role lets others go on, at an operation; where a parity is given, until a wait for that phase is over."""

    op: Operation
    slot: Slot[SharedAccess]
    parity: int | None = None

    def is_over(self) -> bool:
        """Whether the role can go on."""
        return self.parity is None or self.slot.is_over(self.parity)


@dataclass(frozen=True)
class LastOne:
    """A role waits at an operation until it is the only one that has not ended."""

    op: Operation
    turns: Sequence[Turn]

    def is_over(self) -> bool:
        """Whether all others are done."""
        return sum(not turn.is_done for turn in self.turns) == 1


Walk = Iterator[Fault | Pause | LastOne]
"""The walk over a part of a kernel: what is wrong there, and where it lets others go on."""


@dataclass
class Cursor:
    """A loop that is walked iteration by iteration, and the one that it is at."""

    variable: SSAValue
    period: int
    """After how many iterations its slots repeat."""
    changes: Sequence[int]
    """The iterations from which on guards hold or fail, and its end."""
    now: int = 0

    @property
    def end(self) -> int | None:
        """The next iteration from which on something changes."""
        return min((change for change in self.changes if change > self.now), default=None)


@dataclass
class LoopPosition:
    """Where a walk is in the loops of its role."""

    loops: list[Cursor] = field(default_factory=list[Cursor])
    """The loops around that are walked iteration by iteration."""

    fixed: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The variables of loops that are walked iteration by iteration, as numbers."""
    around: list[SSAValue] = field(default_factory=list[SSAValue])
    """The variables of the loops around that are taken for all iterations at once, since the last fixed one."""
    issued: set[SharedAccess] = field(default_factory=set[SharedAccess])
    """The copies issued in those loops so far."""

    def key(self) -> tuple[Hashable, ...]:
        """What tells places apart, of iterations that differ by a period."""
        return tuple((each.variable, each.now % each.period) for each in self.loops)


def skip(places: Sequence[LoopPosition], before: Sequence[int], current: Cursor) -> bool:
    """Go on as if what happened since some iterations happened again, as often as nothing changes in any loop.

    `before` holds the iterations of all loops; `current` is the one that is about to start one, the others are inside
    of theirs. Returns whether anything was skipped.
    """
    loops = [each for place in places for each in place.loops]
    steps = [each.now - then for each, then in zip(loops, before, strict=True)]
    ends = [each.end for each in loops]
    rooms = [
        (end - each.now - (each is not current)) // step
        for each, step, end in zip(loops, steps, ends, strict=True)
        if step and end is not None
    ]
    times = min(rooms, default=0)
    for place in places:
        for each in place.loops:
            each.now += times * steps.pop(0)
            if each.variable in place.fixed:
                place.fixed[each.variable] = each.now
    return times > 0


@dataclass(eq=False)
class Turn:
    """A role that is walked, where it is, and what it waits for."""

    role: Team
    walk: Walk
    place: LoopPosition = field(default_factory=LoopPosition)
    pause: Pause | LastOne | None = None
    is_done: bool = False

    def key(self) -> tuple[Hashable, ...]:
        """What tells turns apart, less the places."""
        return self.is_done, None if self.pause is None else self.pause.op

    def can_go_on(self) -> bool:
        """Whether it is not done, and what it waits for is over."""
        return not self.is_done and (self.pause is None or self.pause.is_over())


def next_turn(turns: Sequence[Turn], last: Turn | None) -> Turn | None:
    """The role that goes on after one that did; None where none can."""
    start = 0 if last is None else turns.index(last) + 1
    return next((turn for turn in (*turns[start:], *turns[:start]) if turn.can_go_on()), None)


def deadlock(turns: Sequence[Turn]) -> PhaseFault:
    """What is wrong where no role can go on, and some are not done; first a phase that lacks bytes alone.

    One of them waits for a phase, as no two can wait to be the last one.
    """
    waiting = [(turn.role.role_name, turn.pause) for turn in turns if turn.pause is not None and not turn.is_done]
    phases = [(role, pause) for role, pause in waiting if isinstance(pause, Pause)]
    role, pause = min(phases, key=lambda each: each[1].slot.arrived < each[1].slot.arrivals)
    assert pause.parity is not None
    parts = [f"of role {role} {pause.slot.wait(pause.op, pause.parity)}"]
    parts += [f"role {other} waits at {_place(its)}" for other, its in waiting if its is not pause]
    parts += [f"role {turn.role.role_name} has ended" for turn in turns if turn.is_done]
    return PhaseFault(pause.op, "; ".join(parts))


def _place(pause: Pause | LastOne) -> str:
    position = position_of(pause.op)
    return f"{pause.op.name}" + ("" if position is None else f" ({position})")
