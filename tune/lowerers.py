"""Lowers and compiles candidates on all cores: processes lower, and nvcc is one by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import SimpleQueue
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import CompileError, Error
from deplodock.runtime.nvcc import stop
from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tune import compiling
from deplodock.tune.candidate import Candidate
from deplodock.tune.jobs import Jobs
from deplodock.tune.lowering import Digests, Lower, Lowered
from deplodock.tune.requests import Begin
from deplodock.tune.task import Task

START_LIMIT = 120.0
"""The seconds that a process may take to start, on a machine with other work."""

LOWER_LIMIT = 10.0
"""The seconds that lowering a candidate may take: thirty times what most take."""

RUN_LIMIT = 60.0
"""The seconds that anything else may take in a process that lowers."""

NVCC_LIMIT = 60.0
"""The seconds that nvcc may take for a candidate: fifty times what most take."""

T = TypeVar("T")

_Found: TypeAlias = tuple[Lowered, PlannedProgram | None]


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
        self._lock = Lock()
        self._by_tiles: dict[tuple[str, str], Future[_Found]] = {}
        """What each task gives, by the digest of its tile level."""
        self._programs: dict[tuple[str, str], PlannedProgram] = {}
        """What runs of each task, by the digest of its CUDA text."""

    @property
    def seconds(self) -> float:
        """The seconds that jobs took so far, those at a time as one."""
        return self._jobs.seconds

    def start(self) -> None:
        """Start all processes, each by itself, while others do other things."""
        for _ in self._processes:
            self.submit(self._start)

    def lower(self, task: Task) -> Lower:
        """What lowers schedules of a task; it starts when it is called."""

        def lowered(schedules: Sequence[str]) -> Iterator[Lowered]:
            found = [self.submit(self.lowered, task, schedule) for schedule in schedules]
            return (future.result()[0] for future in found)

        return lowered

    def digests(self, task: Task) -> Digests:
        """What schedules of a task give at tile level; the work starts when it is called."""

        def found(schedules: Sequence[str]) -> Iterator[str]:
            futures = [self.submit(self._digest, task, schedule) for schedule in schedules]
            return (future.result() for future in futures)

        return found

    def submit(self, job: Callable[..., T], *args: Any) -> Future[T]:
        """Run a job when there is a core for it."""
        return self._jobs.submit(job, *args)

    def lowered(self, task: Task, schedule: str) -> _Found:
        """What a schedule gives, and what runs of it, None if it is refused; from a process. It is a job.

        A schedule that gives the same at tile level as another one gives the same.
        """
        try:
            with self._process() as ask:
                tiles = ask(compiling.ToTiles(task, schedule))
                if isinstance(tiles, Lowered):
                    return tiles, None
                known, is_new = self._found(task, tiles)
                if is_new:
                    _settle(known, ask)
            found, program = known.result()
        except _Unanswered as reason:
            return Lowered(Candidate(task.key, schedule, ""), "", str(reason)), None
        if program is not None:
            self._programs[task.key, found.candidate.code] = program
        return replace(found, candidate=replace(found.candidate, schedule=schedule)), program

    def compiled(self, task: Task, candidate: Candidate) -> tuple[PlannedProgram, int] | str:
        """The program of a candidate with its machine code, and the bytes that it spills; or why there is none."""
        program = self._programs.get((task.key, candidate.code))
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
        try:
            found = self._returned(compiling.beginning, task)
            reference, narrow = (
                None if program is None else compiling.machine_code(program, NVCC_LIMIT)[0]
                for program in (found.reference, found.narrow)
            )
            return replace(found, reference=reference, narrow=narrow)
        except (CompileError, _Unanswered) as error:
            return next(iter(str(error).splitlines()), "nvcc fails")
        except DiagnosticException as error:
            return " ".join(str(error).split())

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """What a function returns, or raises, that a process calls; see `runs.Run`. It is no job, but waits for one.

        Raises Error if the process does not answer.
        """
        return self.called(function, *args).result()

    def called(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """The same, as a job."""
        return self.submit(self._returned, function, *args)

    def forget(self, task: Task) -> None:
        """Drop the programs of a task."""
        with self._lock:
            for known in (self._by_tiles, self._programs):
                for key in [key for key in known if key[0] == task.key]:
                    del known[key]

    def close(self) -> None:
        """End all jobs and processes, whatever they do."""
        self._jobs.close()

    def _stop(self) -> None:
        stop()
        for process in self._processes:
            process.kill()

    def _digest(self, task: Task, schedule: str) -> str:
        try:
            with self._process() as ask:
                tiles = ask(compiling.ToTiles(task, schedule))
        except _Unanswered:
            return ""
        return "" if isinstance(tiles, Lowered) else tiles

    def _found(self, task: Task, tiles: str) -> tuple[Future[_Found], bool]:
        """What a task at tile level gives, by its digest, and whether whoever asks has to find out."""
        with self._lock:
            if (known := self._by_tiles.get((task.key, tiles))) is not None:
                return known, False
            new = self._by_tiles[task.key, tiles] = Future[_Found]()
            return new, True

    def _returned(self, function: Callable[..., T], *args: Any) -> T:
        with self._process() as ask:
            answer = ask(compiling.ToRun(function, args), RUN_LIMIT)
        if isinstance(answer, compiling.Returned):
            return answer.value
        raise answer

    def _start(self) -> None:
        with suppress(_Unanswered), self._process() as ask:
            ask(compiling.ToStart())

    @contextmanager
    def _process(self) -> Iterator[_Ask]:
        """What a process answers to requests, while nobody else asks it. That raises _Unanswered if it does not."""
        process = self._free.get()

        def ask(request: compiling.Request, limit: float = LOWER_LIMIT) -> Any:
            limit = limit if process.is_running else START_LIMIT
            try:
                return process.ask(request, limit)
            except TooLate:
                raise _Unanswered(f"it takes more than {limit:g} s to lower") from None
            except Ended as error:
                raise _Unanswered(f"where it is lowered, {error}") from None

        try:
            yield ask
        finally:
            self._free.put(process)


class _Ask(Protocol):
    """Asks a process."""

    def __call__(self, request: compiling.Request, limit: float = ...) -> Any:
        """The answer, which must come in so many seconds. Raises _Unanswered."""
        ...


class _Unanswered(Error):
    """A process did not answer; the text says why."""


def _settle(known: Future[_Found], ask: _Ask) -> None:
    """Find out what a task at tile level gives, or why that is not known."""
    try:
        known.set_result(ask(compiling.ToKernel()))
    except BaseException as error:
        known.set_exception(error)
        raise
