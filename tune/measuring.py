"""Measures candidates: cores compile ahead, and one killable process for each GPU measures what is ready.

Each step of a candidate has a limit of seconds; who exceeds it is killed, and the candidate's measurement says so.
Nothing here waits for a process without a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock

from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tune.candidate import Candidate, Measurement
from deplodock.tune.lowerers import START_LIMIT, Lowerers
from deplodock.tune.requests import MOST_KERNELS, Begin, Incumbent, Measure
from deplodock.tune.rounds import Found
from deplodock.tune.task import Task


@dataclass(frozen=True)
class Limits:
    """The seconds on a GPU of inputs and right results of a kernel, a candidate's first run, and its measurement."""

    begin: float = 120.0
    run: float = 2.0
    measure: float = 10.0


_Compiled = tuple[PlannedProgram, int]


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
        self._measuring = ThreadPoolExecutor(len(gpus), "deplodock-gpu")
        for device in self._devices:
            self._measuring.submit(self._start, device)

    def add(self, task: Task) -> None:
        """Take a task, of which candidates will be measured."""
        self._kernels.setdefault(task.key, _MeasuredKernel(task))

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Measure candidates, from now on; the measurements come as they are ready."""
        results = SimpleQueue["Future[Measurement]"]()
        for candidate in candidates:
            own = self._kernels[candidate.kernel]
            if own.begin is None:
                own.begin = self._lowerers.submit(self._lowerers.beginning, own.task)
            if (known := own.known.get(candidate.code)) is not None:
                results.put(_done(_measurement(candidate, known)))
                continue
            compiled = self._lowerers.submit(self._lowerers.compiled, own.task, candidate)
            compiled.add_done_callback(partial(self._compiled, candidate, results))
        return (results.get().result() for _ in candidates)

    def anchor(self, measurement: Measurement) -> None:
        """Say what was measured of a task before, by another process: times will be on that scale."""
        own = self._kernels[measurement.kernel]
        if own.incumbent is None and measurement.us is not None:
            own.anchor = measurement

    def close(self) -> None:
        """End all processes of GPUs, whatever they do."""
        self._measuring.shutdown(wait=False, cancel_futures=True)
        for device in self._devices:
            device.process.kill()

    def _compiled(
        self, candidate: Candidate, results: SimpleQueue[Future[Measurement]], future: Future[_Compiled | str]
    ) -> None:
        """What follows the compilation of a candidate: a GPU, if it did not fail."""
        try:
            if isinstance(found := future.result(), str):
                results.put(_done(_measurement(candidate, Found("refused", detail=found))))
            else:
                self._measuring.submit(self._time, candidate, *found).add_done_callback(results.put)
        except (CancelledError, RuntimeError) as error:
            # Whoever waits for the measurement is told that it does not come.
            failed = Future[Measurement]()
            failed.set_exception(error)
            results.put(failed)

    def _time(self, candidate: Candidate, program: PlannedProgram, spilled: int) -> Measurement:
        own = self._kernels[candidate.kernel]
        device = self._idle.get()
        try:
            found = self._found(own, device, program, spilled)
        finally:
            self._idle.put(device)
        own.known[candidate.code] = found
        return _measurement(candidate, found)

    def _found(self, own: _MeasuredKernel, device: _Device, program: PlannedProgram, spilled: int) -> Found:
        """What a GPU finds of a candidate. One that spills registers, where the first one did not, is not run."""
        assert own.begin is not None
        if isinstance(begin := own.begin.result(), str):
            return Found("refused", detail=f"its results cannot be checked: {begin}")
        self._raise_anchor(own)
        if own.incumbent is None:
            own.spilled = spilled
        elif spilled > own.spilled:
            return Found("refused", detail=f"spills {spilled} bytes")
        found = device.measure(begin, program, own.incumbent)
        if found.us is not None and found.wins:
            own.offer(Incumbent(program, found.us))
        return found

    def _raise_anchor(self, own: _MeasuredKernel) -> None:
        """Make the incumbent of a kernel what was measured of it before, if that compiles still."""
        anchor, own.anchor = own.anchor, None
        if own.incumbent is not None or anchor is None or anchor.us is None:
            return
        if not isinstance(found := self._lowerers.compiled(own.task, anchor.candidate), str):
            own.incumbent, own.spilled = Incumbent(found[0], anchor.us), found[1]

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
    """The process of a GPU, and the kernels that have begun in it, with why they cannot be measured, if so."""

    def __init__(self, gpu: int, limits: Limits, serve: Callable[..., None]) -> None:
        self.process = Process(serve, gpu)
        self._limits = limits
        self._begun: dict[str, str] = {}

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
        if reason := self.start() or self._begin(begin):
            return Found("fault", detail=f"the GPU: {reason}")
        try:
            found = self.process.ask(Measure(begin.kernel, program, incumbent, self._limits.run), self._limits.measure)
        except TooLate:
            return Found("hang", detail=f"no end of the measurement in {self._limits.measure:g} s")
        except Ended as error:
            return Found("fault", detail=str(error))
        if found.status in ("hang", "fault"):
            self.process.kill()
        return found

    def _begin(self, begin: Begin) -> str:
        """Let a kernel begin, once in a process. Returns why it cannot, if so."""
        if begin.kernel not in self._begun:
            while len(self._begun) >= MOST_KERNELS:
                self._begun.pop(next(iter(self._begun)))
            try:
                self._begun[begin.kernel] = self.process.ask(begin, self._limits.begin)
            except TooLate:
                return f"no inputs and results in float64 within {self._limits.begin:g} s"
            except Ended as error:
                return str(error)
        return self._begun[begin.kernel]


def _measurement(candidate: Candidate, found: Found) -> Measurement:
    return Measurement(candidate.kernel, candidate.schedule, candidate.code, found.status, found.us, found.detail)


def _done(measurement: Measurement) -> Future[Measurement]:
    done = Future[Measurement]()
    done.set_result(measurement)
    return done


def _serve_gpu(connection: Connection, gpu: int) -> None:
    from deplodock.tune.gpu import serve

    serve(connection, gpu)
