"""What the products of warpgroups read until they are waited for: nobody may overwrite it."""

from __future__ import annotations

import numpy as np

from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, MemoryUnit, Touch
from deplodock.interpreters.simulate.lanes import all_lanes
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.values import Array


class ProductReads(Check):
    """Reports writes of elements that products in flight read."""

    def __init__(self, memory: MemoryUnit) -> None:
        super().__init__(memory)
        self._readers: dict[int, Array] = {}
        """By buffer, how many products read each element."""

    def on_start(self) -> None:
        """No product is in flight."""
        self._readers = {}

    def on_product(self, touch: Touch, elements: Array) -> None:
        """One more reads elements."""
        self._count(touch, elements, 1)

    def on_product_end(self, touch: Touch, elements: Array) -> None:
        """One less does."""
        self._count(touch, elements, -1)

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Report writes of what a product reads."""
        self._report(touch, elements)

    def on_issue(self, touch: Touch, elements: Array) -> None:
        """Report copies to where a product reads."""
        self._report(touch, elements)

    def _count(self, touch: Touch, elements: Array, change: int) -> None:
        buffer = touch.buffer
        assert isinstance(buffer, Buffer)
        readers = self._readers.setdefault(id(buffer), np.zeros(buffer.data.size, np.int32))
        lanes = all_lanes(touch.frame)
        np.add.at(readers, np.broadcast_to(elements, lanes.shape)[lanes], change)

    def _report(self, touch: Touch, elements: Array) -> None:
        readers = self._readers.get(id(touch.buffer))
        if readers is None:
            return
        frame = touch.frame.widened(touch.access.width)
        wrong = (readers[elements] > 0) & all_lanes(frame)
        if not wrong.any():
            return
        position = frame.first(wrong)
        self.report.add(
            kinds.DATA_RACE,
            touch.access.op,
            frame.count(wrong),
            lambda: (
                f"{self.memory.lane(position)} writes {self.memory.name(touch.access)}{touch.subscripts(position)}, "
                "which a product of a warpgroup still reads; a kernel.wgmma_wait for it must come first"
            ),
        )
