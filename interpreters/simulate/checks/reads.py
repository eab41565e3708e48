"""What is read beside the program until it is waited for: nobody may overwrite it, and the kernel not end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import Operation

from deplodock.dialects.interfaces import Landing, accesses_of
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, MemoryUnit, Touch
from deplodock.interpreters.simulate.elements import select
from deplodock.interpreters.simulate.lanes import all_lanes
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.values import Array

_CURES: Mapping[Landing, tuple[str, str]] = {
    Landing.PRODUCT: ("a product of a warpgroup", "kernel.wgmma_wait"),
    Landing.STORE: ("the store of a box", "kernel.tma_wait"),
}
"""What reads, and what waits for it."""


class ReadsInFlight(Check):
    """Reports writes of elements that products or stores in flight read, and stores whose box may be gone."""

    def __init__(self, memory: MemoryUnit) -> None:
        super().__init__(memory)
        self._readers: dict[int, dict[Operation, Array]] = {}
        """By buffer and operation, how often it reads each element."""
        self._touches: dict[Operation, Touch] = {}

    def on_start(self) -> None:
        """Nothing is in flight."""
        self._readers = {}

    def on_reading(self, touch: Touch, elements: Array) -> None:
        """One more reads elements."""
        self._count(touch, elements, 1)

    def on_reading_end(self, touch: Touch, elements: Array) -> None:
        """One less does."""
        self._count(touch, elements, -1)

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Report writes of what is read."""
        self._report(touch, elements)

    def on_issue(self, touch: Touch, elements: Array) -> None:
        """Report copies to what is read."""
        self._report(touch, elements)

    def on_finish(self) -> None:
        """Report stores that nobody waited for."""
        for readers in self._readers.values():
            for op, counts in readers.items():
                if _lands(op) is Landing.STORE and counts.any():
                    self._report_unfinished(self._touches[op], counts)

    def _count(self, touch: Touch, elements: Array, change: int) -> None:
        buffer, op = touch.buffer, touch.access.op
        assert isinstance(buffer, Buffer)
        self._touches[op] = touch
        of_buffer = self._readers.setdefault(id(buffer), {})
        counts = of_buffer.setdefault(op, np.zeros(buffer.data.size, np.int32))
        np.add.at(counts, select(elements, touch.access, touch.frame.shape, touch.frame.mask), change)

    def _report(self, touch: Touch, elements: Array) -> None:
        for op, counts in self._readers.get(id(touch.buffer), {}).items():
            if not counts.any():
                continue
            frame = touch.frame.widened(touch.access.width)
            wrong = (counts[elements] > 0) & all_lanes(frame)
            if wrong.any():
                self._report_write(touch, frame.first(wrong), frame.count(wrong), _lands(op))

    def _report_write(self, touch: Touch, position: tuple[int, ...], count: int, lands: Landing) -> None:
        reader, cure = _CURES[lands]
        self.report.add(
            kinds.DATA_RACE,
            touch.access.op,
            count,
            lambda: (
                f"{self.memory.lane(position)} writes {self.memory.name(touch.access)}{touch.subscripts(position)}, "
                f"which {reader} still reads; a {cure} for it must come first"
            ),
        )

    def _report_unfinished(self, touch: Touch, counts: Array) -> None:
        ctas = counts.reshape(self.memory.ctas, -1).any(axis=1)
        self.report.add(
            kinds.UNFINISHED_STORE,
            touch.access.op,
            int(np.count_nonzero(ctas)),
            lambda: (
                f"CTA {int(self.memory.ids[np.argmax(ctas)])} ends while {self.memory.name(touch.access)} may still be "
                "read; a kernel.tma_wait 0 must come first"
            ),
        )


def _lands(op: Operation) -> Landing:
    """What an operation that reads beside the program is."""
    return next(lands for lands in _CURES if any(access.lands is lands for access in accesses_of(op)))
