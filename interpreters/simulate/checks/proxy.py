"""What threads wrote to shared memory by themselves, which the asynchronous proxy sees only after their fence.

A thread fences its own writes, and does so before it hands them over: at a barrier, or at an arrival.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation

from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, MemoryUnit, Touch
from deplodock.interpreters.simulate.elements import select
from deplodock.interpreters.simulate.flight import Copies
from deplodock.interpreters.simulate.lanes import Frame, all_lanes
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.values import Array

_FENCED = 0
_EXPOSED = -1


class Proxies(Check):
    """The elements of the CTAs that run together: fenced, written by a thread, or handed over without a fence."""

    def __init__(self, memory: MemoryUnit) -> None:
        super().__init__(memory)
        used = [access.buffer for op in memory.ops for access in accesses_of(op) if access.by_proxy]
        self._used = {buffer.owner for buffer in used}
        """What allocates the memory that the proxy reads and writes."""
        self._marks: dict[int, Array] = {}
        """By buffer: 0, 1 + the thread that wrote the element, or -1."""

    def on_start(self) -> None:
        """Nobody has written anything."""
        self._marks = {}

    def on_allocate(self, op: Operation, buffer: Buffer) -> None:
        """Follow the writes of a buffer that the proxy uses."""
        if op in self._used:
            self._marks[id(buffer)] = np.zeros(buffer.data.size, np.int32)

    def on_read(self, touch: Touch, elements: Array) -> None:
        """Report reads by the proxy of what some threads did not fence."""
        marks = self._marks.get(id(touch.buffer)) if touch.access.by_proxy else None
        if marks is None:
            return
        frame = touch.frame.widened(touch.access.width)
        wrong = (marks[elements] != _FENCED) & all_lanes(frame)
        if wrong.any():
            self._report(touch.access, frame, wrong, lambda name: f"reads {name}{touch.subscripts(frame.first(wrong))}")

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Threads write elements."""
        if (marks := self._marks.get(id(touch.buffer))) is not None:
            lanes = elements, np.arange(self.memory.threads)
            element, thread = (select(one, touch.access, touch.frame.shape, touch.frame.mask) for one in lanes)
            marks[element] = thread + 1

    def on_land(self, copies: Copies, is_same_in_ctas: bool) -> None:
        """Copies of threads are their writes."""
        if not copies.is_box and (marks := self._marks.get(id(copies.buffer))) is not None:
            marks[copies.element] = copies.thread + 1

    def on_fence_proxy(self, lanes: Array) -> None:
        """Lanes fence what they wrote."""
        self._mark(lanes, _FENCED)

    def on_arrive(self, lanes: Array) -> None:
        """Lanes hand over what they wrote."""
        self._mark(lanes, _EXPOSED)

    def on_barrier(self, ctas: Array) -> None:
        """All threads of some CTAs hand over what they wrote."""
        self._mark(np.broadcast_to(ctas.reshape(-1, 1), (self.memory.ctas, self.memory.threads)), _EXPOSED)

    def _mark(self, lanes: Array, mark: int) -> None:
        """Mark what lanes wrote, of shape [CTAs, threads]."""
        ctas = np.arange(self.memory.ctas).reshape(-1, 1)
        for marks in self._marks.values():
            mine = marks.reshape(self.memory.ctas, -1)
            mine[(mine > 0) & lanes[ctas, np.maximum(mine, 1) - 1]] = mark

    def on_box(self, access: Access, buffer: Buffer, start: Array, elements: int, frame: Frame) -> None:
        """Report boxes that go where some elements are not fenced, or come from there."""
        marks = self._marks.get(id(buffer))
        if marks is None:
            return
        ctas = np.arange(self.memory.ctas).reshape(-1, 1)
        box = start + np.arange(elements).reshape(-1, 1, 1)
        wrong = (marks.reshape(self.memory.ctas, -1)[ctas, box] != _FENCED).any(axis=0) & all_lanes(frame)
        if wrong.any():
            does = "copies a box to" if access.writes else "stores a box of"
            self._report(access, frame, wrong, lambda name: f"{does} {name}")

    def _report(self, access: Access, frame: Frame, wrong: Array, does: Callable[[str], str]) -> None:
        self.report.add(
            kinds.MISSING_FENCE,
            access.op,
            frame.count(wrong),
            lambda: (
                f"{self.memory.lane(frame.first(wrong))} {does(self.memory.name(access))} where threads wrote before; "
                "each needs a kernel.fence_proxy_async after its write, before it hands that over"
            ),
        )
