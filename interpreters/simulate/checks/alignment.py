"""Wide accesses at addresses that the hardware does not take."""

from __future__ import annotations

import numpy as np

from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import Check, Touch


class Alignment(Check):
    """Reports lanes whose elements do not lie side by side at a multiple of their bytes."""

    def on_touch(self, touch: Touch) -> None:
        """Look at accesses of several elements."""
        width, layout, frame = touch.access.width, touch.buffer.layout, touch.frame
        if width == 1:
            return
        bytes = min(width * layout.dtype.itemsize, ACCESS_BYTES)
        wrong = touch.address % bytes != 0
        if layout.strides[-1:] != (1,):
            wrong = np.ones_like(wrong)
        if frame.mask is not None:
            wrong = wrong & frame.mask
        if not wrong.any():
            return

        def message() -> str:
            position = frame.first(wrong)
            number = int(np.broadcast_to(touch.element, frame.shape)[position])
            address = int(np.broadcast_to(touch.address, frame.shape)[position])
            return (
                f"{width} elements from {self.memory.name(touch.access)}{layout.element(number)} are not {bytes} "
                f"aligned bytes (offset {address}, stride {layout.strides[-1]}) in {self.memory.lane(position)}; "
                "use a smaller width or pad the rows"
            )

        self.report.add(kinds.MISALIGNED_ACCESS, touch.access.op, frame.count(wrong), message)
