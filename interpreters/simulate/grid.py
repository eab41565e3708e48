"""What the CTAs of a grid know of each other: tickets (`kernel.ticket`), and fences around them (`kernel.fence`).

The time of a CTA is the number of tickets that it has taken. What a thread did is released by a ticket that its CTA
takes later, if all its writes are fenced by then, and known to the CTAs that take a ticket of the same counter after
that one, once their threads have fenced. What they know of third CTAs in this way is not passed on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deplodock.errors import UnsupportedError
from deplodock.interpreters.values import Array

_THREAD_BITS = 32
_THREAD = (1 << _THREAD_BITS) - 1
_MOST_TICKETS = 255


@dataclass(frozen=True)
class _Tickets:
    """The tickets that CTAs take at one of their times: counters (-1 for none), turns, and whether they release."""

    counter: Array
    turn: Array
    releases: Array


class Grid:
    """The tickets and fences of all CTAs of one launch."""

    def __init__(self, ctas: int, threads: int) -> None:
        self._threads = threads
        self._ctas = ctas
        self._time = np.zeros(ctas, np.int64)
        self._tickets: list[_Tickets] = []
        self._turns = 0
        self._is_fenced = np.ones((ctas, threads), np.bool_)
        """Whether a thread has fenced all that it wrote."""
        self._seen = np.zeros((ctas, threads), np.int64)
        """How many of its CTA's tickets a thread has seen, and fenced since."""

    def stamp(self, ctas: Array, threads: Array) -> Array:
        """Threads of the grid with the times of their CTAs."""
        return threads | self._time[ctas].reshape(-1, 1) << _THREAD_BITS

    @staticmethod
    def thread(stamp: int) -> int:
        """The thread of a stamp."""
        return stamp & _THREAD

    def write(self, ctas: Array, lanes: Array) -> None:
        """Lanes have written to global memory."""
        self._is_fenced[ctas] &= ~lanes.reshape(-1, *lanes.shape[-2:]).any(axis=0)

    def fence(self, ctas: Array, lanes: Array) -> None:
        """Lanes fence."""
        self._is_fenced[ctas] |= lanes
        self._seen[ctas] = np.where(lanes, self._time[ctas].reshape(-1, 1), self._seen[ctas])

    def take(self, cta: int, counter: int) -> None:
        """A CTA takes the next ticket of a counter."""
        time = int(self._time[cta])
        if time >= _MOST_TICKETS:
            raise UnsupportedError(f"a CTA takes more than {_MOST_TICKETS} tickets")
        if time == len(self._tickets):
            none, zeros = np.full(self._ctas, -1), np.zeros(self._ctas, np.int64)
            self._tickets.append(_Tickets(none, zeros, np.zeros(self._ctas, np.bool_)))
        tickets = self._tickets[time]
        tickets.counter[cta], tickets.turn[cta] = counter, self._turns
        tickets.releases[cta] = self._is_fenced[cta].all()
        self._turns += 1
        self._time[cta] += 1

    def happened(self, _: Array, earlier: Array, now: Array) -> Array:
        """Whether the thread with the stamp `now` knows that what has the stamp `earlier` is over."""
        first, second = earlier & _THREAD, now & _THREAD
        time = np.where(earlier < 0, 0, earlier >> _THREAD_BITS & _MOST_TICKETS)
        cta, own = np.where(earlier < 0, 0, first // self._threads), second // self._threads
        seen = self._seen[own, second % self._threads]
        known = (first == second) | ((cta == own) & (time < self._time[own]))
        for late, taken in enumerate(self._tickets):
            for early, given in enumerate(self._tickets):
                is_before = (given.counter[cta] == taken.counter[own]) & (given.turn[cta] < taken.turn[own])
                known |= is_before & given.releases[cta] & (time <= early) & (late < seen) & (given.counter[cta] >= 0)
        return known
