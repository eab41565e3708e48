"""Tickets of the CTAs of a launch: what they count, and what is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deplodock.dialects.kernel import team_of
from deplodock.dialects.kernel.grid import AwaitLaunchesOp, FenceOp, TicketOp
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
        self._launch = launch
        self._memory = launch.memory
        self._report = launch.report
        self._check = launch.check
        self._used: list[tuple[TicketOp, Buffer]] = []
        self._counts: list[dict[int, int]] = []
        """The CTAs that each counter of those counts."""

    def take(self, op: TicketOp, counters: Buffer, subscripts: Sequence[Array], counts: Array, frame: Frame) -> Array:
        """Let the CTAs of a frame take a ticket of `counts` of them; gives 1 where it is the last, as [CTAs, 1]."""
        lanes, last = all_lanes(frame), np.zeros((self._memory.ctas, 1), np.int64)
        if not any(known is op and buffer is counters for known, buffer in self._used):
            self._used.append((op, counters))
            self._counts.append({})
        inside = outside_as_false(subscripts, counters.layout.shape)
        if inside is not None and self._check and (lanes & ~inside).any():
            self._report.add(
                kinds.OUT_OF_BOUNDS, op, 1, lambda: f"there is no such counter in {op.counter.type} for some CTA"
            )
            return last
        numbers = sum((s * row for s, row in zip(subscripts, counters.layout.rows, strict=True)), np.asarray(0))
        numbers, counts = np.broadcast_to(numbers, lanes.shape), np.broadcast_to(counts, lanes.shape)
        used = self._used.index((op, counters))
        for place in np.flatnonzero(lanes.any(axis=1)):
            first = np.argmax(lanes[place])
            counter, ctas = int(numbers[place, first]), int(counts[place, first])
            before = int(counters.data[counter])
            last[place] = before == ctas - 1
            counters.data[counter] = 0 if before >= ctas - 1 else before + 1
            self._counts[used][counter] = ctas
            if self._memory.grid is not None:
                self._memory.grid.take(int(self._memory.ids[place]), used << 32 | counter)
        return last

    def end(self) -> None:
        """Report counters that the launch does not leave at 0; where CTAs are left out, some of theirs are not."""
        if not self._check or self._launch.is_sample:
            return
        for (op, counters), counts in zip(self._used, self._counts, strict=True):
            if (left := counters.data != 0).any():
                first = int(np.argmax(left))
                self._report_open(op, counters, left, counts.get(first, 0))

    def _report_open(self, op: TicketOp, counters: Buffer, left: Array, ctas: int) -> None:
        first = int(np.argmax(left))

        def message() -> str:
            name = self._report.names.value(op.counter)
            return (
                f"the launch ends when {int(counters.data[first])} of {ctas} CTAs have taken a ticket of "
                f"{name}{counters.layout.element(first)}; the counter must be left at 0"
            )

        self._report.add(kinds.OPEN_TICKET, op, int(np.count_nonzero(left)), message)


def _await(_launch: Lockstep, _op: AwaitLaunchesOp, _frame: Frame) -> None:
    """The launches before have ended: they run one after the other here."""


def _fence(launch: Lockstep, op: FenceOp, frame: Frame) -> None:
    if launch.memory.grid is not None:
        launch.memory.grid.fence(launch.memory.ids, all_lanes(frame))


def _ticket(launch: Lockstep, op: TicketOp, frame: Frame) -> None:
    meet(launch, op, frame, team_of(op))
    counters = launch.buffers[op.counter]
    assert isinstance(counters, Buffer)
    subscripts = evaluate_map(op.map.data, launch.get(op.indices))
    (counts,) = evaluate_map(op.ctas.data, launch.get(op.cta_indices))
    launch.values[op.result] = launch.unit(TicketUnit).take(op, counters, subscripts, counts, frame)


HANDLERS: Handlers = {AwaitLaunchesOp: _await, FenceOp: _fence, TicketOp: _ticket}
"""How they run."""
