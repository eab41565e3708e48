"""What threads wrote to shared memory by themselves, which copies of boxes see only after a fence of their proxy.

A thread fences its own writes, and does so before it hands them over: at a barrier, or at an arrival.
"""

from __future__ import annotations

import numpy as np

from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.values import Array

_FENCED = 0
_EXPOSED = -1


class Proxies:
    """The elements of the CTAs that run together: fenced, written by a thread, or handed over without a fence."""

    def __init__(self, ctas: int) -> None:
        self._ctas = ctas
        self._marks: dict[int, Array] = {}
        """By buffer: 0, 1 + the thread that wrote the element, or -1."""

    def watch(self, buffer: Buffer) -> None:
        """Follow the writes of a buffer that takes boxes."""
        self._marks.setdefault(id(buffer), np.zeros(buffer.data.size, np.int32))

    def write(self, buffer: Buffer, element: Array, thread: Array) -> None:
        """Threads write elements."""
        if (marks := self._marks.get(id(buffer))) is not None:
            marks[element] = thread + 1

    def fence(self, lanes: Array) -> None:
        """Lanes, of shape [CTAs, threads], fence what they wrote."""
        ctas = np.arange(self._ctas).reshape(-1, 1)
        for marks in self._marks.values():
            mine = marks.reshape(self._ctas, -1)
            mine[(mine > 0) & lanes[ctas, np.maximum(mine, 1) - 1]] = _FENCED

    def hand_over(self, lanes: Array) -> None:
        """Lanes let others go on."""
        ctas = np.arange(self._ctas).reshape(-1, 1)
        for marks in self._marks.values():
            mine = marks.reshape(self._ctas, -1)
            mine[(mine > 0) & lanes[ctas, np.maximum(mine, 1) - 1]] = _EXPOSED

    def unfenced(self, buffer: Buffer, start: Array, elements: int) -> Array:
        """Whether a copy of so many elements from `start` of each lane on goes where some are not fenced."""
        marks = self._marks.get(id(buffer))
        if marks is None:
            return np.zeros((1, 1), np.bool_)
        ctas = np.arange(self._ctas).reshape(-1, 1)
        box = start + np.arange(elements).reshape(-1, 1, 1)
        return (marks.reshape(self._ctas, -1)[ctas, box] != _FENCED).any(axis=0)
