"""Processes of a suite: each has one problem. Many compile theirs at once; one at a time has the GPU.

A problem that faults, leaks or hangs ends its own process alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from deplodock.tools.bench.report import UNMEASURED
from deplodock.tools.bench.rows import Row
from deplodock.tools.suite.options import READY, REFUSAL, SuiteOptions

_ENDING = 10.0
"""The seconds to wait for the end of a process that is killed."""

_AHEAD = 4
"""The processes that start while another one has the GPU: to import PyTorch takes longer than most problems."""

_FREE = 2
"""The cores left to the process that has the GPU: what it times from Python must not wait for one."""

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["__main__", "deplodock.tools.suite.warmed"])
_SPAWNED = multiprocessing.get_context("spawn")
"""What has imported PyTorch may not be forked where a GPU is used."""


def answers(rows: Sequence[Row], options: SuiteOptions) -> Iterator[tuple[Row, dict[str, Any]]]:
    """What comes of each problem, as they end: {"error": why}, or what `measure` gives.

    Where nothing is measured, that is {"seconds": those of compiling}.
    """
    queue = _Queue(rows, options)
    try:
        while queue.has_more():
            yield from queue.late()
            queue.start()
            queue.wait()
            yield from queue.ended()
    finally:
        queue.kill()


class _Queue:
    """Problems to compile, those that are compiled and wait to be measured, and the processes of others."""

    def __init__(self, rows: Sequence[Row], options: SuiteOptions) -> None:
        self._options, self._end = options, time.monotonic() + options.budget
        self._todo, self._compiled = deque(rows), deque[tuple[Row, str]]()
        self._jobs: list[_Job] = []
        cores = len(os.sched_getaffinity(0))
        self._most_compiling = max(1, cores - _AHEAD - _FREE) if options.measures else cores

    def has_more(self) -> bool:
        """Whether there is anything to do or to wait for."""
        return bool(self._todo or self._compiled or self._jobs)

    def late(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """The problems that are not started any more, once the budget is used up."""
        if time.monotonic() < self._end:
            return
        for row in (*(row for row, _ in self._compiled), *self._todo):
            yield row, {"error": UNMEASURED}
        self._compiled.clear()
        self._todo.clear()

    def start(self) -> None:
        """Start the processes for which there is room, and give the GPU to the first that waits for it."""
        measuring = [job for job in self._jobs if job.measures]
        while self._todo and len(self._jobs) - len(measuring) < self._most_compiling:
            self._jobs.append(_Job(self._todo.popleft(), self._options, None))
        while self._compiled and len(measuring) <= _AHEAD:
            measuring.append(_Job(self._compiled[0][0], self._options, self._compiled.popleft()[1]))
            self._jobs.append(measuring[-1])
        waiting = [job for job in measuring if job.deadline is None]
        if waiting and not any(job.has_gpu for job in measuring):
            waiting[0].give_gpu()

    def wait(self) -> None:
        """Wait until a process says something, or takes too long."""
        if not self._jobs:
            return
        deadlines = [job.deadline for job in self._jobs if job.deadline is not None]
        left = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        wait([job.connection for job in self._jobs], left)

    def ended(self) -> Iterator[tuple[Row, dict[str, Any]]]:
        """What comes of the problems whose processes have ended; those that are compiled may go on to be measured."""
        for job in list(self._jobs):
            if (found := job.answer()) is None:
                continue
            self._jobs.remove(job)
            job.kill() if "error" in found else job.end()
            if self._options.measures and not job.measures and "error" not in found:
                self._compiled.append((job.row, found[REFUSAL]))
            else:
                yield job.row, found

    def kill(self) -> None:
        """End all processes."""
        for job in self._jobs:
            job.kill()


class _Job:
    """A process with a problem: until when it must answer next, None while it waits for the GPU.

    It compiles the problem; with a `refusal`, which is empty for one that could be compiled as a whole, it measures it.
    """

    def __init__(self, row: Row, options: SuiteOptions, refusal: str | None) -> None:
        self.row, self.measures, self._limit = row, refusal is not None, options.limit
        context = _SPAWNED if self.measures else _FORKED
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, row, options, refusal), daemon=True)
        self._process.start()
        other.close()
        self.deadline: float | None = time.monotonic() + options.limit
        self.has_gpu = False

    def give_gpu(self) -> None:
        """Let it go on, on the GPU."""
        self.has_gpu, self.deadline = True, time.monotonic() + self._limit
        with contextlib.suppress(OSError):
            self.connection.send(READY)

    def answer(self) -> dict[str, Any] | None:
        """What it says, None while it goes on."""
        where = "" if self.measures else " of compiling"
        try:
            if self.connection.poll():
                found = self.connection.recv()
            elif self.deadline is not None and time.monotonic() > self.deadline:
                found = {"error": f"no end in {self._limit:.0f} s{where}"}
            else:
                return None
        except (EOFError, OSError):
            found = {"error": "the process ended" if self.measures else "the process ended while compiling"}
        if found == READY:
            self.deadline = None
            return None
        return found

    def end(self) -> None:
        """Let the process end, of which nothing more is wanted."""
        self.connection.close()

    def kill(self) -> None:
        """End the process, and wait until it is, so that the GPU's memory is free."""
        self.connection.close()
        self._process.kill()
        self._process.join(_ENDING)


def _serve(connection: Connection, row: Row, options: SuiteOptions, refusal: str | None) -> None:
    from deplodock.tools.suite.worker import serve

    serve(connection, row, options, refusal)
