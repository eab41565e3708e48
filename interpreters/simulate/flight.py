"""Asynchronous copies between their issue and the moment they land: at the wait of the thread that issued them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation

from deplodock.interpreters.simulate.memory import AccessLog, Buffer, Values
from deplodock.interpreters.values import Array

_NOBODY = -1


@dataclass(frozen=True)
class Copies:
    """Elements that lanes copy to shared memory, one entry each: `element` counts through the memory of all CTAs."""

    buffer: Buffer
    element: Array
    value: Values
    tag: Array
    cta: Array
    thread: Array
    is_same_in_ctas: bool
    """Whether every CTA copies to the same elements of its memory."""
    is_box: bool = False
    """Whether the asynchronous proxy writes the elements, not the threads."""

    def of(self, lanes: Array) -> Copies:
        """The entries for which `lanes` holds."""
        element, tag, cta, thread = (array[lanes] for array in (self.element, self.tag, self.cta, self.thread))
        return replace(self, element=element, value=self.value.of(lanes), tag=tag, cta=cta, thread=thread)

    def by(self, stamp: Array) -> Copies:
        """The same copies as writes by others: those of these stamps."""
        return replace(self, tag=AccessLog.restamp(self.tag, stamp))


class Flight:
    """The copies in flight of the CTAs that run together, and the groups that each of their threads has closed."""

    def __init__(self, ctas: int, threads: int) -> None:
        self._groups = np.zeros((ctas, threads), np.int64)
        self._copies: list[tuple[Copies, Array]] = []
        self._arriving: dict[tuple[Operation, int], list[tuple[Copies, int]]] = {}
        self._marks: dict[int, Array] = {}

    def issue(self, copies: Copies) -> None:
        """Start copies, in the open group of each lane."""
        self._copies.append((copies, self._groups[copies.cta, copies.thread]))
        self._marks_of(copies.buffer)[copies.element] = copies.tag

    def commit(self, lanes: Array) -> None:
        """Close the open group of the lanes for which `lanes`, of shape [CTAs, threads], holds."""
        self._groups += lanes

    def land(self, lanes: Array, pending: int) -> list[Copies]:
        """Take what lands when lanes wait for all groups but their last `pending` ones, in the order of issue."""
        landed: list[Copies] = []
        remaining: list[tuple[Copies, Array]] = []
        for copies, group in self._copies:
            closed = self._groups[copies.cta, copies.thread] - pending
            lands = lanes[copies.cta, copies.thread] & (group < closed)
            if lands.all():
                landed.append(copies)
            elif not lands.any():
                remaining.append((copies, group))
            else:
                landed.append(copies.of(lands))
                remaining.append((copies.of(~lands), group[~lands]))
        self._copies = remaining
        for copies in landed:
            self._marks_of(copies.buffer)[copies.element] = _NOBODY
        return landed

    def arrive(self, barrier: Operation, slot: int, lanes: Array, phase: int) -> None:
        """Let what lanes, of shape [CTAs, threads], copy land with a phase of a barrier."""
        remaining: list[tuple[Copies, Array]] = []
        for copies, group in self._copies:
            arrives = lanes[copies.cta, copies.thread]
            if arrives.any():
                self._arriving.setdefault((barrier, slot), []).append((copies.of(arrives), phase))
            if not arrives.all():
                remaining.append((copies.of(~arrives), group[~arrives]))
        self._copies = remaining

    def issue_to(self, barrier: Operation, slot: int, copies: Copies, phase: int) -> None:
        """Start copies that land with a phase of a barrier."""
        self._arriving.setdefault((barrier, slot), []).append((copies, phase))
        self._marks_of(copies.buffer)[copies.element] = copies.tag

    def land_phases(self, barrier: Operation, slot: int, ctas: Array, completed: int) -> list[Copies]:
        """Take what landed in some CTAs with the first `completed` phases of a barrier."""
        landed: list[Copies] = []
        remaining: list[tuple[Copies, int]] = []
        for copies, phase in self._arriving.get((barrier, slot), []):
            lands = ctas[copies.cta] & (phase < completed)
            if lands.any():
                landed.append(copies if lands.all() else copies.of(lands))
            if not lands.all():
                remaining.append((copies.of(~lands), phase))
        self._arriving[barrier, slot] = remaining
        for copies in landed:
            self._marks_of(copies.buffer)[copies.element] = _NOBODY
        return landed

    def tags(self, buffer: Buffer, element: Array) -> Array | None:
        """The tag of the copy on its way to each element, or -1; None if nothing is on its way to the buffer."""
        arriving = (copies for entries in self._arriving.values() for copies, _ in entries)
        if not any(copies.buffer is buffer for copies in (*(copies for copies, _ in self._copies), *arriving)):
            return None
        return self._marks_of(buffer)[element]

    def _marks_of(self, buffer: Buffer) -> Array:
        if id(buffer) not in self._marks:
            self._marks[id(buffer)] = np.full(buffer.data.size, _NOBODY, np.int64)
        return self._marks[id(buffer)]
