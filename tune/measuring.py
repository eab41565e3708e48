"""Measures candidates: cores compile ahead, and one killable process for each GPU measures what is ready.

Each step of a candidate has a limit of seconds; who exceeds it is killed, and the candidate's measurement says so.
Nothing here waits for a process without a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.jobs import Jobs
from deplodock.tune.lowerers import START_LIMIT, Lowerers
from deplodock.tune.requests import Begin, Incumbent, Measure
from deplodock.tune.rounds import Found
from deplodock.tune.task import Task


@dataclass(frozen=True)
class Limits:
    """The seconds on a GPU of inputs and right results of a kernel, a candidate's first run, and its measurement."""

    begin: float = 120.0
    run: float = 2.0
    measure: float = 10.0


_Compiled = tuple[PlannedProgram, int]

S = TypeVar("S")
T = TypeVar("T")


class Measurer:
    """Measures candidates of some tasks; `measure` is what `tuning.tune` takes.

    The first candidate of a task that is measured is its incumbent: times are those of rounds in turn with it, and a
    faster one takes its place. What was measured is not measured again.
    """

    def __init__(
        self,
        lowerers: Lowerers,
        *,
        gpus: Sequence[int] = (0,),
        limits: Limits = Limits(),
        serve: Callable[..., None] | None = None,
    ) -> None:
        """Start the processes of the GPUs.

        Args:
            lowerers: who compiles.
            gpus: the numbers of the GPUs.
            limits: the seconds of each step.
            serve: what runs in the process of a GPU, `gpu.serve` by default.
        """
        self._kernels: dict[str, _MeasuredKernel] = {}
        self._lowerers = lowerers
        self._devices = [_Device(gpu, limits, serve or _serve_gpu) for gpu in gpus]
        self._idle = SimpleQueue[_Device]()
        self._measuring = Jobs(len(gpus), "deplodock-gpu", self._stop)
        for device in self._devices:
            self._measuring.submit(self._start, device)

    @property
    def seconds(self) -> float:
        """The seconds that GPUs measured so far, those at a time as one."""
        return sum(device.seconds for device in self._devices) / len(self._devices)

    def add(self, task: Task) -> None:
        """Take a task, of which candidates will be measured."""
        self._kernels.setdefault(task.key, _MeasuredKernel(task))

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Measure candidates, from now on; the measurements come as they are ready."""
        results = SimpleQueue["Future[Measurement]"]()
        for candidate in candidates:
            own = self._kernels[candidate.kernel]
            begin = own.begin = own.begin or self._lowerers.submit(self._beginning, own)
            if (known := own.known.get(candidate.code)) is not None:
                results.put(_done(_measurement(candidate, known)))
                continue
            compiled = self._lowerers.submit(self._lowerers.compiled, own.task, candidate)
            ready = partial(self._ready, candidate, results, begin, compiled)
            compiled.add_done_callback(partial(_then, begin, ready))
        return (results.get().result() for _ in candidates)

    def anchor(self, measurement: Measurement) -> None:
        """Say what was measured of a task before, by another process: times will be on that scale."""
        own = self._kernels[measurement.kernel]
        if own.incumbent is None and measurement.us is not None:
            own.anchor = measurement

    def close(self) -> None:
        """End all processes of GPUs, whatever they do."""
        self._measuring.close()

    def _stop(self) -> None:
        for device in self._devices:
            device.process.kill()

    def _beginning(self, own: _MeasuredKernel) -> Begin | str:
        """What a GPU needs of a kernel. What was measured of it before is its incumbent, if that compiles still."""
        anchor = own.anchor
        if anchor is not None and anchor.us is not None:
            found = self._lowerers.compiled(own.task, anchor.candidate)
            if not isinstance(found, str):
                own.incumbent, own.spilled = Incumbent(found[0], anchor.us), found[1]
        return self._lowerers.beginning(own.task)

    def _ready(
        self,
        candidate: Candidate,
        results: SimpleQueue[Future[Measurement]],
        begin: Future[Begin | str],
        compiled: Future[_Compiled | str],
    ) -> None:
        """What follows the compilation of a candidate, once its kernel may begin: a GPU, if nothing failed."""
        try:
            if isinstance(found := compiled.result(), str):
                results.put(_done(_measurement(candidate, Found("refused", detail=found))))
            elif isinstance(start := begin.result(), str):
                why = f"its results cannot be checked: {start}"
                results.put(_done(_measurement(candidate, Found("refused", detail=why))))
            else:
                self._measuring.submit(self._time, candidate, start, *found).add_done_callback(results.put)
        except Exception as error:
            # Whoever waits for the measurement is told that it does not come.
            failed = Future[Measurement]()
            failed.set_exception(error)
            results.put(failed)

    def _time(self, candidate: Candidate, begin: Begin, program: PlannedProgram, spilled: int) -> Measurement:
        own = self._kernels[candidate.kernel]
        device = self._idle.get()
        start = time.monotonic()
        try:
            found = _found(own, device, begin, program, spilled)
        finally:
            device.seconds += time.monotonic() - start
            self._idle.put(device)
        self._measuring.check()
        own.known[candidate.code] = found
        return _measurement(candidate, found)

    def _start(self, device: _Device) -> None:
        device.start()
        self._idle.put(device)


class _MeasuredKernel:
    """What is known of a task: what the GPUs need, the best program so far, and what the first one spilled."""

    def __init__(self, task: Task) -> None:
        self.task, self._lock = task, Lock()
        self.begin: Future[Begin | str] | None = None
        self.incumbent: Incumbent | None = None
        self.anchor: Measurement | None = None
        self.spilled = 0
        self.known: dict[str, Found] = {}

    def offer(self, incumbent: Incumbent) -> None:
        """Take a program that won, unless another one is faster by now."""
        with self._lock:
            if self.incumbent is None or incumbent.us < self.incumbent.us:
                self.incumbent = incumbent


class _Device:
    """The process of a GPU, the kernels that have begun in it, and why those that cannot begin there cannot."""

    def __init__(self, gpu: int, limits: Limits, serve: Callable[..., None]) -> None:
        self.process = Process(serve, gpu)
        self._limits = limits
        self.seconds = 0.0
        """The seconds in which it measured."""
        self._begun: set[str] = set()
        self._refused: dict[str, str] = {}

    def start(self) -> str:
        """Start the process, where it does not run. Returns why that cannot be, if so."""
        if self.process.is_running:
            return ""
        self._begun.clear()
        try:
            self.process.ask(None, START_LIMIT)
        except TooLate:
            return f"its process does not start in {START_LIMIT:g} s"
        except Ended as error:
            return f"it does not start: {error}"
        return ""

    def measure(self, begin: Begin, program: PlannedProgram, incumbent: Incumbent | None) -> Found:
        """Measure a candidate; a process in which one faults, or does not end, is killed."""
        if reason := self.start():
            return Found("fault", detail=f"the GPU: {reason}")
        request, found = Measure(begin.kernel, program, incumbent, self._limits.run), None
        try:
            if begin.kernel in self._begun:
                found = self.process.ask(request, self._limits.measure)
            if found is None:
                if reason := self._begin(begin):
                    return Found("fault", detail=f"the GPU: {reason}")
                found = self.process.ask(request, self._limits.measure)
        except TooLate:
            return Found("hang", detail=f"no end of the measurement in {self._limits.measure:g} s")
        except Ended as error:
            return Found("fault", detail=str(error))
        if found is None:
            return Found("fault", detail="the GPU: it has no memory for the inputs of one kernel")
        if found.status in ("hang", "fault"):
            self.process.kill()
        return found

    def _begin(self, begin: Begin) -> str:
        """Let a kernel begin. Returns why it cannot, if so; the process may let others make place for it."""
        if (reason := self._refused.get(begin.kernel)) is not None:
            return reason
        try:
            reason = self.process.ask(begin, self._limits.begin)
        except TooLate:
            reason = f"no inputs and results in float64 within {self._limits.begin:g} s"
        except Ended as error:
            reason = str(error)
        if reason:
            self._refused[begin.kernel] = reason
        else:
            self._begun.add(begin.kernel)
        return reason


def _found(own: _MeasuredKernel, device: _Device, begin: Begin, program: PlannedProgram, spilled: int) -> Found:
    """What a GPU finds of a candidate. One that spills registers, where the first one did not, is not run."""
    if own.incumbent is None:
        own.spilled = spilled
    elif spilled > own.spilled:
        return Found("refused", detail=f"spills {spilled} bytes")
    found = device.measure(begin, program, own.incumbent)
    if found.us is not None and found.wins:
        own.offer(Incumbent(program, found.us))
    return found


def _then(other: Future[T], job: Callable[[], None], _: Future[S]) -> None:
    """Do something when another one is done, too."""
    other.add_done_callback(lambda _: job())


def _measurement(candidate: Candidate, found: Found) -> Measurement:
    return Measurement(candidate.kernel, candidate.schedule, candidate.code, found.status, found.us, found.detail)


def _done(measurement: Measurement) -> Future[Measurement]:
    done = Future[Measurement]()
    done.set_result(measurement)
    return done


def _serve_gpu(connection: Connection, gpu: int) -> None:
    from deplodock.tune.gpu import serve

    serve(connection, gpu)
