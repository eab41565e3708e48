"""What is measured when a kernel is tuned, and what a measurement found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "wrong", "unstable", "hang", "fault", "refused"]
"""What became of a candidate: its time is known; its result is wrong; right on its first run only; it did not end, or
the GPU reported an error; or it was never run, as the rules, the target or nvcc do not take it."""

STATUSES: tuple[Status, ...] = ("ok", "wrong", "unstable", "hang", "fault", "refused")


@dataclass(frozen=True)
class Candidate:
    """One way to run a kernel."""

    kernel: str
    """The key of the kernel: what it computes and the target, equal in every process (`tune/task.py`)."""
    schedule: str
    """The schedule in full."""
    code: str
    """A digest of the CUDA text that the schedule gives: candidates of equal text are one."""


@dataclass(frozen=True)
class Measurement:
    """What was found of a candidate."""

    kernel: str
    schedule: str
    code: str
    status: Status
    us: float | None
    """Microseconds of a run on the device, comparable with other measurements of the kernel; None unless `ok`."""
    detail: str = ""
    """Why there is no time, or what else is worth a note, in one line."""

    @property
    def candidate(self) -> Candidate:
        """What was measured."""
        return Candidate(self.kernel, self.schedule, self.code)


Measure: TypeAlias = Callable[[Sequence[Candidate]], Iterable[Measurement]]
"""Measures candidates. The work starts when it is called, and what it returns yields a measurement of each, as they
come; so a second call may add work while the first one's results are awaited."""
