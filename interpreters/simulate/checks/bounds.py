"""Accesses outside of their buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deplodock.dialects.interfaces import Access
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.values import Array


class Bounds(Check):
    """Reports lanes whose subscripts are outside."""

    def on_outside(self, access: Access, subscripts: Sequence[Array], frame: Frame, outside: Array) -> None:
        """Report the lanes."""

        def message() -> str:
            position = frame.first(outside)
            at = ", ".join(str(int(np.broadcast_to(s, frame.shape)[position])) for s in subscripts)
            many = f"{access.width} elements from " if access.width > 1 else ""
            return (
                f"{many}{self.memory.name(access)}[{at}] in {self.memory.lane(position)}, outside of "
                f"{access.buffer.type}; guard the access or clamp its subscripts"
            )

        self.report.add(kinds.OUT_OF_BOUNDS, access.op, frame.count(outside), message)
