"""Lowers and compiles candidates on all cores: processes lower, and nvcc is one by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, TypeVar

from deplodock.errors import CompileError
from deplodock.runtime.nvcc import stop
from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tune import compiling
from deplodock.tune.candidate import Candidate
from deplodock.tune.jobs import Jobs
from deplodock.tune.lowering import Lower, Lowered
from deplodock.tune.requests import Begin
from deplodock.tune.task import Task

START_LIMIT = 120.0
"""The seconds that a process may take to start, on a machine with other work."""

LOWER_LIMIT = 10.0
"""The seconds that lowering a candidate may take: thirty times what most take."""

NVCC_LIMIT = 60.0
"""The seconds that nvcc may take for a candidate: fifty times what most take."""

T = TypeVar("T")


class Lowerers:
    """As many jobs at a time as there are cores; a process that takes longer than its limit is killed."""

    def __init__(self, spared: int = 0, *, jobs: int | None = None) -> None:
        """Start no process yet.

        Args:
            spared: the cores to leave to others.
            jobs: how many work at a time, by default one for each core that is not spared.
        """
        count = jobs or max(1, len(os.sched_getaffinity(0)) - spared)
        self._jobs = Jobs(count, "deplodock-compile", self._stop)
        self._processes = [Process(compiling.serve) for _ in range(count)]
        self._free = SimpleQueue[Process]()
        for process in self._processes:
            self._free.put(process)
        self._programs: dict[str, PlannedProgram] = {}

    def start(self) -> None:
        """Start all processes, each by itself, while others do other things."""
        for _ in self._processes:
            self.submit(self._ask, None)

    def lower(self, task: Task) -> Lower:
        """What lowers schedules of a task; it starts when it is called."""

        def lowered(schedules: Sequence[str]) -> Iterator[Lowered]:
            found = [self.submit(self.lowered, task, schedule) for schedule in schedules]
            return (future.result()[0] for future in found)

        return lowered

    def submit(self, job: Callable[..., T], *args: Any) -> Future[T]:
        """Run a job when there is a core for it."""
        return self._jobs.submit(job, *args)

    def lowered(self, task: Task, schedule: str) -> tuple[Lowered, PlannedProgram | None]:
        """What `lower_planned` gives, from a process. It is a job."""
        found = self._ask((task, schedule))
        if isinstance(found, str):
            return Lowered(Candidate(task.key, schedule, ""), "", found), None
        lowered, program = found
        if program is not None:
            self._programs[lowered.candidate.code] = program
        return lowered, program

    def compiled(self, task: Task, candidate: Candidate) -> tuple[PlannedProgram, int] | str:
        """The program of a candidate with its machine code, and the bytes that it spills; or why there is none."""
        program = self._programs.get(candidate.code)
        if program is None:
            lowered, program = self.lowered(task, candidate.schedule)
            if program is None:
                return lowered.refusal
        try:
            return compiling.machine_code(program, NVCC_LIMIT)
        except CompileError as error:
            return next(iter(str(error).splitlines()), "nvcc fails")

    def beginning(self, task: Task) -> Begin | str:
        """What a device needs to know of a task, or why it cannot be measured. It is a job."""
        found = self._ask((task, None))
        if isinstance(found, str):
            return found
        try:
            return replace(found, reference=compiling.machine_code(found.reference, NVCC_LIMIT)[0])
        except CompileError as error:
            return next(iter(str(error).splitlines()), "nvcc fails")

    def close(self) -> None:
        """End all jobs and processes, whatever they do."""
        self._jobs.close()

    def _stop(self) -> None:
        stop()
        for process in self._processes:
            process.kill()

    def _ask(self, request: tuple[Task, str | None] | None) -> Any:
        """The answer of a process, or the reason why there is none."""
        process = self._free.get()
        try:
            return process.ask(request, LOWER_LIMIT if process.is_running else START_LIMIT)
        except TooLate:
            return f"it takes more than {LOWER_LIMIT:g} s to lower"
        except Ended as error:
            return f"where it is lowered, {error}"
        finally:
            self._free.put(process)
