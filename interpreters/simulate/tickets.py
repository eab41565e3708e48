"""Tickets of the CTAs of a launch: what they count, and what is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deplodock.dialects.kernel import team_of
from deplodock.dialects.kernel.grid import FenceOp, TicketOp
from deplodock.interpreters.affine import outside_as_false
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.lanes import Frame, all_lanes, evaluate_map
from deplodock.interpreters.simulate.machine import Handlers, Lockstep, Unit
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.simulate.threads import meet
from deplodock.interpreters.values import Array


class TicketUnit(Unit):
    """The counters of a launch. CTAs take their tickets in the order in which they run."""

    def __init__(self, launch: Lockstep) -> None:
        self._memory = launch.memory
        self._report = launch.report
        self._check = launch.check
        self._used: list[tuple[TicketOp, Buffer]] = []

    def take(self, op: TicketOp, counters: Buffer, subscripts: Sequence[Array], frame: Frame) -> Array:
        """Let the CTAs of a frame take a ticket; gives 1 where it is the last, as [CTAs, 1]."""
        lanes, last = all_lanes(frame), np.zeros((self._memory.ctas, 1), np.int64)
        if not any(known is op and buffer is counters for known, buffer in self._used):
            self._used.append((op, counters))
        inside = outside_as_false(subscripts, counters.layout.shape)
        if inside is not None and self._check:
            self._report.add(
                kinds.OUT_OF_BOUNDS, op, 1, lambda: f"there is no such counter in {op.counter.type} for some CTA"
            )
            return last
        numbers = sum((s * row for s, row in zip(subscripts, counters.layout.rows, strict=True)), np.asarray(0))
        numbers = np.broadcast_to(numbers, lanes.shape)
        for place in np.flatnonzero(lanes.any(axis=1)):
            counter = int(numbers[place, np.argmax(lanes[place])])
            before = int(counters.data[counter])
            last[place] = before == op.ctas.value.data - 1
            counters.data[counter] = 0 if before >= op.ctas.value.data - 1 else before + 1
            if self._memory.grid is not None:
                self._memory.grid.take(int(self._memory.ids[place]), self._used.index((op, counters)) << 32 | counter)
        return last

    def end(self) -> None:
        """Report counters that the launch does not leave at 0."""
        if not self._check:
            return
        for op, counters in self._used:
            if (left := counters.data != 0).any():
                self._report_open(op, counters, left)

    def _report_open(self, op: TicketOp, counters: Buffer, left: Array) -> None:
        first = int(np.argmax(left))

        def message() -> str:
            name = self._report.names.value(op.counter)
            return (
                f"the launch ends when {int(counters.data[first])} of {op.ctas.value.data} CTAs have taken a ticket of "
                f"{name}{counters.layout.element(first)}; the counter must be left at 0"
            )

        self._report.add(kinds.OPEN_TICKET, op, int(np.count_nonzero(left)), message)


def _fence(launch: Lockstep, op: FenceOp, frame: Frame) -> None:
    if launch.memory.grid is not None:
        launch.memory.grid.fence(launch.memory.ids, all_lanes(frame))


def _ticket(launch: Lockstep, op: TicketOp, frame: Frame) -> None:
    meet(launch, op, frame, team_of(op))
    counters = launch.buffers[op.counter]
    assert isinstance(counters, Buffer)
    subscripts = evaluate_map(op.map.data, launch.get(op.indices))
    launch.values[op.result] = launch.unit(TicketUnit).take(op, counters, subscripts, frame)


HANDLERS: Handlers = {FenceOp: _fence, TicketOp: _ticket}
"""How they run."""
