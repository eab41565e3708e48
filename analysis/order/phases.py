"""What is known of a barrier with phases while a kernel is walked: arrivals, completed phases, and what those order."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, forms_of
from deplodock.dialects.kernel.order import UsesPhase, WaitPhase

Copy = TypeVar("Copy", bound=Hashable)


@dataclass(frozen=True)
class PhaseFault:
    """What is wrong with the phases of a barrier, and the operation where it shows."""

    op: Operation
    reason: str

    def __str__(self) -> str:
        return f"{self.op.name} {self.reason}"


Times: TypeAlias = Mapping[int, int]
"""A time of some teams of threads, by their numbers: what all threads of a team did until then is over."""


def later(times: Times, others: Times) -> dict[int, int]:
    """The later one of two times of each team."""
    return {**times, **{team: max(time, times.get(team, time)) for team, time in others.items()}}


def ranked(times: Times, rank: Mapping[tuple[int, int], int]) -> Hashable:
    """What tells times apart of which only the order counts."""
    return frozenset((team, rank[team, time]) for team, time in times.items())


@dataclass
class Slot(Generic[Copy]):
    """One barrier. Times count the arrivals of all threads of a team: those who wait know what came before."""

    arrivals: int
    arrived: int = 0
    bytes: int = 0
    """The bytes that the current phase still expects."""
    completed: int = 0
    given: Times = field(default_factory=dict[int, int])
    """The times that the arrivals at the current phase make known."""
    known: Times = field(default_factory=dict[int, int])
    """The times that the completed phases make known."""
    arriving: dict[Copy, None] = field(default_factory=dict[Copy, None])
    """The copies that arrive at the current phase."""
    landed: dict[Copy, None] = field(default_factory=dict[Copy, None])
    """The copies of completed phases that nobody has waited for."""
    met: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """How many phases each wait has met, the time before the first included."""

    def copy(self) -> Slot[Copy]:
        """A slot that changes apart from this one."""
        times = (self.arrivals, self.arrived, self.bytes, self.completed, self.given, self.known)
        return Slot(*times, dict(self.arriving), dict(self.landed), dict(self.met))

    def arrive(self, count: int, times: Times | None = None, copies: Sequence[Copy] = (), bytes: int = 0) -> None:
        """Let `count` arrivals come, which give times or copies and expect `bytes` in all; below 0 they bring them."""
        self.arrived += count
        self.bytes += bytes
        if times:
            self.given = later(self.given, times)
        self.arriving |= dict.fromkeys(copies)
        while self.arrived >= self.arrivals and not self.bytes:
            self.arrived -= self.arrivals
            self.completed += 1
            self.known, self.given = later(self.known, self.given), {}
            self.landed, self.arriving = self.landed | self.arriving, {}

    def is_over(self, parity: int) -> bool:
        """Whether a wait for a phase of this parity ends now."""
        return self.completed % 2 != parity % 2

    def wait(self, op: Operation, parity: int, is_all: bool = True) -> str | None:
        """Let a wait of all threads of a team, or some, meet the last phase. Returns what is wrong, or None."""
        if self.completed % 2 == parity % 2 and self.arrived >= self.arrivals:
            wrong = f"{self.bytes} bytes more" if self.bytes > 0 else f"{-self.bytes} bytes less"
            return (
                f"waits forever, wrong byte count: phase {self.completed} of its barrier expects {wrong} than come; "
                "a box counts as a whole"
            )
        if self.completed % 2 == parity % 2:
            return (
                f"waits forever for phase {self.completed} of its barrier, which never completes: {self.arrived} of "
                f"{self.arrivals} arrivals come before; an arrival is missing, or the parity is wrong"
            )
        if self.met.get(op, 0) > self.completed:
            return (
                f"has the wrong parity: it does not wait for phase {self.completed} of its barrier, "
                "as it has met the phases before"
            )
        self.met[op] = self.completed + 1
        if is_all:
            self.landed = {}
        return None

    def key(self, rank: Mapping[tuple[int, int], int]) -> tuple[Hashable, ...]:
        """What tells slots apart, with times as ranks and phases modulo 2."""
        met = frozenset((op, self.completed - count) for op, count in self.met.items())
        counts = self.arrived, self.bytes, self.completed % 2, ranked(self.given, rank), ranked(self.known, rank)
        return *counts, frozenset(self.arriving), frozenset(self.landed), met


def phase_forms(use: UsesPhase) -> list[Linear]:
    """The forms that say which barrier and which of its phases an operation means."""
    parity = forms_of(*use.parity) if isinstance(use, WaitPhase) else []
    return [*forms_of(*use.slot), *parity]


def threads_where(conditions: Sequence[Linear], thread: SSAValue, threads: int) -> int | None:
    """For how many threads all conditions are below 0; None where they depend on more."""
    if any(root is not thread for form in conditions for root in form.roots()):
        return None
    if all(not form.terms for form in conditions):
        return threads if all(form.constant < 0 for form in conditions) else 0
    numbers = (Linear(constant=number) for number in range(threads))
    return sum(all(form.substitute(thread, number).constant < 0 for form in conditions) for number in numbers)


def period(form: Linear) -> int:
    """A number of steps after which a form repeats, modulo 2 where it is not a sum of remainders."""
    is_remainder = all(isinstance(atom, Division) and atom.remainder for atom, _ in form.terms)
    return math.prod((atom.divisor for atom in _divisions(form)), start=1 if is_remainder else 2)


def _divisions(form: Linear) -> Iterator[Division[Linear]]:
    for atom, _ in form.terms:
        if isinstance(atom, Division):
            yield atom
            yield from _divisions(atom.form)
