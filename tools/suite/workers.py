"""Processes of a suite: each has one problem, many prepare theirs at once, one at a time has the GPU.

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
from deplodock.tools.suite.options import READY, SuiteOptions

_ENDING = 10.0
"""The seconds to wait for the end of a process that is killed."""

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["__main__", "deplodock.tools.suite.warmed"])
_SPAWNED = multiprocessing.get_context("spawn")
"""What has imported PyTorch may not be forked where a GPU is used."""


class _Job:
    """A process with a problem: until when it must answer next, None while it waits for the GPU."""

    def __init__(self, row: Row, options: SuiteOptions) -> None:
        self.row, self._limit = row, options.limit
        context = _SPAWNED if options.measures else _FORKED
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, row, options), daemon=True)
        self._process.start()
        other.close()
        self.deadline: float | None = time.monotonic() + options.limit
        self.has_gpu = False

    def give_gpu(self) -> None:
        """Let it go on, on the GPU."""
        self.has_gpu, self.deadline = True, time.monotonic() + self._limit
        with contextlib.suppress(OSError):
            self.connection.send(True)

    def answer(self) -> dict[str, Any] | None:
        """What it says, None while it goes on."""
        try:
            if self.connection.poll():
                found = self.connection.recv()
            elif self.deadline is not None and time.monotonic() > self.deadline:
                found = {"error": f"no end in {self._limit:.0f} s{'' if self.has_gpu else ' of compiling'}"}
            else:
                return None
        except (EOFError, OSError):
            found = {"error": f"the process ended{'' if self.has_gpu else ' while compiling'}"}
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


def _serve(connection: Connection, row: Row, options: SuiteOptions) -> None:
    from deplodock.tools.suite.worker import serve

    serve(connection, row, options)


def answers(rows: Sequence[Row], options: SuiteOptions) -> Iterator[tuple[Row, dict[str, Any]]]:
    """What comes of each problem, as they end: {"error": why}, or what `measure` gives.

    Where nothing is measured, that is {"seconds": those of compiling}.
    """
    todo, jobs, end = deque(rows), list[_Job](), time.monotonic() + options.budget
    most = len(os.sched_getaffinity(0))
    try:
        while todo or jobs:
            while todo and len(jobs) < most and time.monotonic() < end:
                jobs.append(_Job(todo.popleft(), options))
            if not jobs:
                yield from ((row, {"error": UNMEASURED}) for row in todo)
                return
            waiting = [job for job in jobs if job.deadline is None]
            if waiting and not any(job.has_gpu for job in jobs):
                waiting[0].give_gpu()
            deadlines = [job.deadline for job in jobs if job.deadline is not None]
            left = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
            wait([job.connection for job in jobs], left)
            for job in list(jobs):
                if (found := job.answer()) is not None:
                    jobs.remove(job)
                    job.kill() if "error" in found else job.end()
                    yield job.row, found
    finally:
        for job in jobs:
            job.kill()
