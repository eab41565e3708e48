"""Data races: accesses of one element by two threads, one of them a write, that nothing orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from xdsl.ir import Operation

from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, MemoryUnit, Touch
from deplodock.interpreters.simulate.elements import is_same_in_ctas, select, widened
from deplodock.interpreters.simulate.flight import Copies
from deplodock.interpreters.simulate.lanes import all_lanes
from deplodock.interpreters.simulate.memory import AccessLog, Buffer
from deplodock.interpreters.values import Array


class Races(Check):
    """Logs accesses of shared memory since the last barrier, and of global memory that the launch writes."""

    def __init__(self, memory: MemoryUnit) -> None:
        super().__init__(memory)
        self._global: dict[int, AccessLog] = {}
        self._shared: dict[int, AccessLog] = {}

    def on_launch(self, buffers: Iterable[Buffer]) -> None:
        """Log these buffers through the launch."""
        self._global = {id(buffer): AccessLog(buffer.data.size, self.memory.grid) for buffer in buffers}

    def on_start(self) -> None:
        """Nobody has accessed shared memory."""
        self._shared = {}

    def on_allocate(self, op: Operation, buffer: Buffer) -> None:
        """Log this buffer of all CTAs."""
        clocks = None if self.memory.phases is None else self.memory.phases.clocks
        self._shared[id(buffer)] = AccessLog(buffer.data.size // self.memory.ctas, clocks)

    def on_barrier(self, ctas: Array) -> None:
        """What the threads of these CTAs did is over."""
        for log in self._shared.values():
            log.clear(ctas)

    def on_read(self, touch: Touch, elements: Array) -> None:
        """Log reads of the CTA's own memory."""
        if touch.rank is None:
            self._log(touch, AccessLog.read)

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Log writes."""
        self._log(touch, AccessLog.write)

    def on_issue(self, touch: Touch, elements: Array) -> None:
        """Look at writes that only start; they are logged where they land."""
        self._log(touch, AccessLog.overwrite)

    def on_land(self, copies: Copies, is_same_in_ctas: bool) -> None:
        """Log what copies write."""
        log = self._shared.get(id(copies.buffer))
        if log is None:
            return
        if is_same_in_ctas:
            copies = copies.of(copies.cta == 0) if log.copies == 1 else copies
        else:
            log.spread(self.memory.ctas)
        log.write(copies.element, copies.tag)

    def _log(self, touch: Touch, note: Callable[[AccessLog, Array, Array], Array]) -> None:
        """Note an access in its log, if there is one, and report its races with earlier ones."""
        access, buffer, memory = touch.access, touch.buffer, self.memory
        assert isinstance(buffer, Buffer)
        shape, mask, times = touch.frame.shape, touch.frame.mask, 1
        element, thread = widened(touch.element, access, touch.frame), np.arange(memory.threads)
        log = self._shared.get(id(buffer))
        if log is not None:
            thread = thread if memory.phases is None else memory.phases.clocks.stamp()
            is_one = log.copies == 1 and is_same_in_ctas(thread)
            if is_one and is_same_in_ctas(element) and (mask is None or is_same_in_ctas(mask)):
                shape, times = (*shape[:-2], 1, shape[-1]), memory.ctas
            else:
                log.spread(memory.ctas)
                element = element + memory.copies_of(buffer)
        elif (log := self._global.get(id(buffer))) is not None:
            thread = self._in_grid(thread, touch)
        else:
            return
        tags = AccessLog.tag(2 * memory.numbers[access.op] + access.writes, thread)
        elements, tags = (select(lanes, access, shape, mask) for lanes in (element, tags))
        races = note(log, elements, tags)
        if (races >= 0).any():
            self._report(touch, buffer, elements, tags, races, times)

    def _in_grid(self, thread: Array, touch: Touch) -> Array:
        """The threads of the CTAs as tags hold them: numbered through the grid."""
        memory = self.memory
        threads = thread + memory.ids.reshape(-1, 1) * memory.threads
        if memory.grid is None:
            return threads
        if touch.access.writes:
            memory.grid.write(memory.ids, all_lanes(touch.frame))
        return memory.grid.stamp(memory.ids, threads)

    def _report(self, touch: Touch, buffer: Buffer, element: Array, tags: Array, earlier: Array, times: int) -> None:
        races, memory = earlier >= 0, self.memory

        def message() -> str:
            first = int(np.argmax(races))
            number, thread = memory.untag(int(tags[first]), buffer)
            other_number, other = memory.untag(int(earlier[first]), buffer)
            copy, element_number = divmod(int(element[first]), max(1, buffer.layout.size))
            shared = memory.is_shared(buffer)
            place = f"{memory.name(touch.access)}{buffer.layout.element(element_number)}"
            here, there = (
                f"thread {t}" + ("" if shared else f" of CTA {cta}")
                for cta, t in (divmod(tag, memory.threads) for tag in (thread, other))
            )
            where = f"in CTA {int(memory.ids[copy])}, " if shared else ""
            return (
                f"{where}{here} {_verb(number)} {place}, which {there} {_verb(other_number)} in "
                f"{self.report.reference(memory.ops[other_number // 2])}, "
                + self._missing_order(shared, number, other_number)
            )

        self.report.add(kinds.DATA_RACE, touch.access.op, int(np.count_nonzero(races)) * times, message)

    def _missing_order(self, shared: bool, number: int, other_number: int) -> str:
        """What does not order two accesses, by the numbers of their tags."""
        if not shared and self.memory.grid is not None:
            return "with no kernel.fence and kernel.ticket after the first, then a ticket and a fence before the second"
        if not shared:
            return "and nothing orders the threads of a launch"
        if self.memory.phases is None:
            return "with no barrier between"
        if number % 2 and not other_number % 2:
            return "with no phase between: the slot is released early, before its reader arrives, or not waited for"
        return "with no phase between that the first arrives at and the second waits for"


def _verb(number: int) -> str:
    return "writes" if number % 2 else "reads"
