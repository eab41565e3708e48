"""Barriers with phases (`kernel.mbarrier`): what has arrived, and what each thread knows to have happened.

A thread has a clock that its arrivals advance, and so have its asynchronous copies, as an agent of their own. Each
thread knows a time of every agent: what that agent did until then happens before what the thread does next. An
arrival gives this knowledge to the phase, a wait takes it from the phases that have completed.

All threads of a role, or of a CTA without roles, run in lockstep here, so a wait must stand after those of its own
arrivals that it needs in the program's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from deplodock.dialects.kernel import Team, team_of
from deplodock.interpreters.values import Array

_AGENT_BITS = 12
_AGENT = (1 << _AGENT_BITS) - 1
_TIME = (1 << 28) - 1


class Clocks:
    """What each thread knows of the times of all threads, then of the copies of all threads.

    As long as all CTAs do the same, one copy stands for all.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.copies = 1
        self.known = np.zeros((1, threads, 2 * threads), np.int32)
        self.known[:, range(threads), range(threads)] = 1
        self.issued = np.ones((1, threads), np.int32)
        """The times of the copies."""

    def spread(self, copies: int) -> None:
        """Keep a copy for each CTA from now on."""
        if self.copies != copies:
            self.copies = copies
            self.known, self.issued = np.repeat(self.known, copies, 0), np.repeat(self.issued, copies, 0)

    def stamp(self, *, copies: bool = False) -> Array:
        """The agents with their times, as [CTAs, threads]: of what the threads do now, or of their copies."""
        agents = np.arange(self.threads, dtype=np.int64)
        times = self.issued if copies else self.known[:, agents, agents]
        return agents + copies * self.threads | times.astype(np.int64) << _AGENT_BITS

    def thread(self, stamp: int) -> int:
        """The thread of a stamp."""
        return (stamp & _AGENT) % self.threads

    def happened(self, cta: Array, earlier: Array, now: Array) -> Array:
        """Whether the thread with the stamp `now` knows that what has the stamp `earlier` is over."""
        agent, time = earlier & _AGENT, earlier >> _AGENT_BITS & _TIME
        row = (now & _AGENT) % self.threads
        return self.known[cta if self.copies > 1 else 0, row, agent % (2 * self.threads)] >= time


@dataclass
class Barrier:
    """The barriers that one operation makes, as arrays [CTAs, slots]."""

    value: SSAValue
    """What the operation gives."""
    arrivals: int
    makers: Array
    """The CTAs that initialised them."""
    arrived: Array
    bytes: Array
    """The bytes that the current phase still expects."""
    completed: Array
    """The number of phases that have completed."""
    given: Array
    """What the arrivals at the current phase have made known, [CTAs, slots, agents]."""
    known: Array
    """What the phases that have completed make known."""
    met: dict[Operation, Array] = field(default_factory=dict[Operation, Array])
    """For each wait, how many phases its threads have met, [CTAs, slots, threads]."""
    is_visible: bool = False
    is_fenced: bool = False
    """Whether its first thread fenced it from copies of boxes before others saw it."""
    is_used: bool = False
    """Whether it was used since the last kernel.barrier."""

    def complete(self) -> None:
        """Go to the next phase where nothing is missing any more."""
        while (done := (self.arrived >= self.arrivals) & (self.bytes == 0)).any():
            self.arrived[done] -= self.arrivals
            self.completed[done] += 1
            self.known[done] = np.maximum(self.known[done], self.given[done])
            self.given[done] = 0

    def meet(self, op: Operation, cta: int, slot: int, lanes: Array) -> bool:
        """Record that lanes met the last phase at a wait. Returns whether one of them had met it there before."""
        shape = (*self.completed.shape, lanes.size)
        met = self.met.setdefault(op, np.zeros(shape, np.int64))
        now = self.completed[cta, slot] + 1
        again = bool((met[cta, slot][lanes] >= now).any())
        met[cta, slot][lanes] = now
        return again

    def spread(self, copies: int) -> None:
        """Keep a copy for each CTA from now on."""
        if len(self.arrived) == copies:
            return
        for name in ("arrived", "bytes", "completed", "given", "known"):
            setattr(self, name, np.repeat(getattr(self, name), copies, 0))
        self.met = {op: np.repeat(met, copies, 0) for op, met in self.met.items()}


class Phases:
    """All barriers with phases of the CTAs that run together."""

    def __init__(self, ctas: int, threads: int) -> None:
        self.clocks = Clocks(threads)
        self.barriers: dict[Operation, Barrier] = {}
        self._ctas = ctas

    def initialise(self, op: Operation, slots: int, arrivals: int, ctas: Array) -> bool:
        """Initialise barriers of some CTAs. Returns whether threads may still use them from before."""
        known = self.barriers.get(op)
        counts = (self.clocks.copies, slots)
        arrived, bytes, completed = (np.zeros(counts, np.int64) for _ in range(3))
        given, past = (np.zeros((*counts, 2 * self.clocks.threads), np.int32) for _ in range(2))
        self.barriers[op] = Barrier(op.results[0], arrivals, ctas, arrived, bytes, completed, given, past)
        return known is not None and known.is_used

    def synchronise(self) -> None:
        """All threads met at a kernel.barrier: they see what was initialised, and have used what they used."""
        for barrier in self.barriers.values():
            barrier.is_visible, barrier.is_used = True, False

    def meet(self, lanes: Array, role: Team) -> None:
        """The threads of a role, `lanes`, meet: each knows what the others did, and sees barriers that they made."""
        if self.clocks.copies == 1 and not _is_same(lanes):
            self.clocks.spread(self._ctas)
        for known, here in zip(self.clocks.known, lanes, strict=False):
            agents = np.flatnonzero(here)
            known[agents] = known[agents].max(axis=0, initial=0)
            known[agents, agents] += 1
        for op, barrier in self.barriers.items():
            if team_of(op) is role:
                barrier.is_visible, barrier.is_used = True, False

    def fence(self, lanes: Array) -> None:
        """Lanes fence the barriers that they initialised; the first thread initialises them."""
        for barrier in self.barriers.values():
            barrier.is_fenced |= not barrier.is_visible and bool(lanes[barrier.makers, 0].all())

    def rows(self, lanes: Array, slot: Array) -> list[tuple[int, int, Array]]:
        """The CTAs (0 for all while they do the same), slots and threads of lanes, all arrays as [CTAs, threads]."""
        if self.clocks.copies == 1 and not (_is_same(lanes) and _is_same(slot)):
            self.clocks.spread(self._ctas)
        for barrier in self.barriers.values():
            barrier.spread(self.clocks.copies)
        found: list[tuple[int, int, Array]] = []
        for cta in range(self.clocks.copies):
            for number in np.unique(slot[cta][lanes[cta]]):
                found.append((cta, int(number), lanes[cta] & (slot[cta] == number)))
        return found

    def arrive(self, barrier: Barrier, cta: int, slot: int, lanes: Array, count: int, bytes: int) -> None:
        """Let lanes arrive, as `count` arrivals that expect `bytes` more; what they did so far is given."""
        known, agents = self.clocks.known[cta], np.flatnonzero(lanes)
        barrier.given[cta, slot] = np.maximum(barrier.given[cta, slot], known[agents].max(axis=0))
        barrier.arrived[cta, slot] += count
        barrier.bytes[cta, slot] += bytes
        known[agents, agents] += 1

    def arrive_copies(self, barrier: Barrier, cta: int, slot: int, lanes: Array) -> None:
        """Let the copies of lanes arrive; what was copied so far is given."""
        agents, threads = np.flatnonzero(lanes), self.clocks.threads
        barrier.given[cta, slot, threads + agents] = self.clocks.issued[cta, agents]
        barrier.arrived[cta, slot] += len(agents)
        self.clocks.issued[cta, agents] += 1

    def complete_bytes(self, barrier: Barrier, cta: int, slot: int, lanes: Array, bytes: int) -> None:
        """Let `bytes` that each of some lanes copies complete on the current phase; what they copied is given."""
        agents, threads = np.flatnonzero(lanes), self.clocks.threads
        barrier.given[cta, slot, threads + agents] = self.clocks.issued[cta, agents]
        barrier.bytes[cta, slot] -= bytes * len(agents)
        self.clocks.issued[cta, agents] += 1

    def wait(self, barrier: Barrier, cta: int, slot: int, lanes: Array) -> None:
        """Let lanes know what the completed phases make known."""
        known = self.clocks.known[cta]
        known[lanes] = np.maximum(known[lanes], barrier.known[cta, slot])


def _is_same(lanes: Array) -> bool:
    return bool((lanes == lanes[:1]).all())
