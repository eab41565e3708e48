"""Elements that a copy is still on its way to: nobody may read or write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, Touch
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.values import Array


class Landed(Check):
    """Reports accesses of elements in flight."""

    def on_read(self, touch: Touch, elements: Array) -> Array | None:
        """Report reads; their values count as written, so that they are not reported again."""
        return self._report(kinds.READ_IN_FLIGHT, "reads", "; " + self._cure, touch, elements)

    def on_write(self, touch: Touch, elements: Array) -> None:
        """Report writes."""
        self._report(kinds.DATA_RACE, "writes", "", touch, elements)

    def on_issue(self, touch: Touch, elements: Array) -> None:
        """Report copies that go where another one goes."""
        self._report(kinds.DATA_RACE, "writes", "", touch, elements)

    def _report(self, kind: str, verb: str, cure: str, touch: Touch, elements: Array) -> Array | None:
        buffer, memory = touch.buffer, self.memory
        assert isinstance(buffer, Buffer)
        tags = memory.flight.tags(buffer, elements)
        if tags is None or not (tags >= 0).any():
            return None
        frame = touch.frame.widened(touch.access.width)
        wrong = tags >= 0 if frame.mask is None else (tags >= 0) & frame.mask
        if wrong.any():
            position = frame.first(wrong)
            tag = int(np.broadcast_to(tags, frame.shape)[position])
            self.report.add(
                kind,
                touch.access.op,
                frame.count(wrong),
                lambda: self._message(verb, touch, position, *memory.untag(tag, buffer)) + cure,
            )
        return tags >= 0

    def _message(self, verb: str, touch: Touch, position: Sequence[int], number: int, thread: int) -> str:
        element = f"{self.memory.name(touch.access)}{touch.subscripts(position)}"
        return (
            f"{self.memory.lane(position)} {verb} {element} while thread {thread} still copies to it in "
            f"{self.report.reference(self.memory.ops[number // 2])}"
        )

    @property
    def _cure(self) -> str:
        if self.memory.phases is None:
            return "that thread must wait for the group of the copy first, and a barrier follow"
        return "a wait for the phase at which the copy arrives, or for its group and a barrier, must come first"
