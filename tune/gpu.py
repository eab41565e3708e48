"""The process that has a GPU: it draws the inputs of kernels, knows what should come out, and measures candidates.

A candidate may fault or never end. Then the answer is the last one, and whoever asked ends the process.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import target
from deplodock.errors import Error
from deplodock.runtime.device import Executable, device_target
from deplodock.runtime.files import FileLock
from deplodock.runtime.graph_timing import ROTATED_BYTES, OwnRuns, graph_of, replay_us, rotation
from deplodock.runtime.planned import PlannedProgram
from deplodock.tune.checking import wrong_results
from deplodock.tune.drawing import drawn
from deplodock.tune.requests import Begin, Incumbent, Measure
from deplodock.tune.rounds import Found, Hung, measured

_POLL = 2e-4
"""The seconds between two looks whether a first run has ended."""

_SHARE = 0.5
"""The share of a GPU's memory that the kernels which have begun take together; the rest is for a candidate's runs."""

_BESIDE = 8
"""How often a kernel has its inputs and outputs beside the sets that rotate: in float64, and as those compute."""


def serve(connection: Connection, gpu: int) -> None:
    """Answer requests on a GPU; the first one, None, when it is ready."""
    gc.freeze()
    connection.recv()
    bench = _Bench(gpu)
    connection.send(None)
    while True:
        request = connection.recv()
        connection.send(bench.begin(request) if isinstance(request, Begin) else bench.measure(request))


class _Bench:
    """A GPU with the inputs and the right results of some kernels."""

    def __init__(self, gpu: int) -> None:
        torch.cuda.set_device(gpu)
        self._gpu = gpu
        self._stream = torch.cuda.Stream()
        self._rates = Rates.of(target(device_target(gpu)))
        self._kernels: dict[str, _Kernel] = {}
        """Those that have begun, the one that was measured last at the end."""
        self._hung: Hung | None = None
        facts = torch.cuda.get_device_properties(gpu)
        self._most_bytes = facts.total_memory * _SHARE
        self._lock = FileLock(Path(tempfile.gettempdir()) / f"deplodock-{os.geteuid()}-{facts.uuid}.lock")

    def begin(self, request: Begin) -> str:
        """Draw the inputs of a kernel, and compute what should come out. Returns why that cannot be, if so.

        Where there is no room, those make place that were not measured for the longest time.
        """
        self._kernels.pop(request.kernel, None)
        needed = _bytes(request)
        while self._kernels and needed + sum(own.bytes for own in self._kernels.values()) > self._most_bytes:
            self._kernels.pop(next(iter(self._kernels)))
        try:
            self._kernels[request.kernel] = _Kernel(request, self._gpu, self._stream, self._rates)
        except (Error, RuntimeError) as error:
            return " ".join(str(error).split())
        return ""

    def measure(self, request: Measure) -> Found | None:
        """Measure a candidate of a kernel, while no other process uses the GPU for that; None if it has not begun."""
        if (own := self._kernels.pop(request.kernel, None)) is None:
            return None
        self._kernels[request.kernel] = own
        try:
            with self._lock.held():
                return own.measure(request)
        except Hung as error:
            # To free what a run holds is to wait for its end, so it is kept until the process is killed.
            self._hung = error
            return Found("hang", detail=str(error))
        except (Error, RuntimeError) as error:
            return Found("fault", detail=next(iter(str(error).splitlines()), type(error).__name__))


class _Kernel:
    """The sets of inputs of a kernel and its results in float64; the runs of the incumbent are kept."""

    def __init__(self, request: Begin, gpu: int, stream: torch.cuda.Stream, rates: Rates) -> None:
        self.gpu, self.stream, self._request = gpu, stream, request
        self.bytes = _bytes(request)
        inputs = drawn(request, "cuda")
        self.sets = [[value.clone() for value in inputs] for _ in range(rotation(_size(request)))]
        is_cached = len(self.sets) * request.moved_bytes <= ROTATED_BYTES
        self._floor_us = rates.floor_ns(request.moved_bytes, 0, cached=is_cached) * 1e-3
        self._incumbent: tuple[Incumbent, _GpuRuns] | None = None
        doubled = [value.double() if value.is_floating_point() else value for value in inputs]
        self.reference = self._results(request.reference, doubled)
        self.narrow = None if request.narrow is None else self._results(request.narrow, doubled)

    def _results(self, program: PlannedProgram, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What a program of float64 gives."""
        runs = OwnRuns(Executable(program, self.gpu), [list(inputs)], self.stream)
        runs.poison()
        torch.cuda.synchronize()
        runs.run()
        torch.cuda.synchronize()
        return [value.clone() for value in runs.results(0)]

    def wrong(self, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> str:
        """What is wrong with the results for a set of inputs; empty if they are right."""
        return wrong_results(self._request, inputs, results, self.reference, self.narrow)

    def measure(self, request: Measure) -> Found:
        """Measure a candidate beside the incumbent of the request."""
        incumbent = request.incumbent
        if incumbent is not None and (self._incumbent is None or self._incumbent[0] != incumbent):
            self._incumbent = incumbent, _GpuRuns(self, incumbent.program, request.limit)
            self._incumbent[1].start()
        runs = _GpuRuns(self, request.program, request.limit)
        if incumbent is None or self._incumbent is None:
            return measured(runs, None, 0.0, self._floor_us)
        return measured(runs, self._incumbent[1], incumbent.us, self._floor_us)


class _GpuRuns:
    """The runs of a program on the sets of inputs of a kernel, see `rounds.Runs`: replays of a CUDA graph."""

    def __init__(self, own: _Kernel, program: PlannedProgram, limit: float) -> None:
        self._kernel, self._limit = own, limit
        self._runs = OwnRuns(Executable(program, own.gpu), own.sets, own.stream)
        self._graph: tuple[torch.cuda.CUDAGraph, int] | None = None

    def poison(self) -> None:
        """Fill outputs and scratch memory."""
        self._runs.poison()
        torch.cuda.synchronize()

    def start(self) -> float:
        """Run on the first set, twice; raises Hung if the first run does not end within the limit."""
        stream = self._kernel.stream
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._runs.run(1)
        first.record(stream)
        end = time.monotonic() + self._limit
        while not first.query():
            if time.monotonic() > end:
                raise Hung(f"no end of the first run in {self._limit:g} s")
            time.sleep(_POLL)
        first.record(stream)
        self._runs.run(1)
        last.record(stream)
        last.synchronize()
        return first.elapsed_time(last) * 1e3

    def replay(self) -> float:
        """Microseconds of a run."""
        if self._graph is None:
            self._graph = graph_of(self._runs.run, self._kernel.stream)
        graph, repeats = self._graph
        return replay_us(graph, repeats) / len(self._kernel.sets)

    def wrong(self, *, is_started: bool = False) -> str:
        """What is wrong on the first and the last set, or on the first alone."""
        torch.cuda.synchronize()
        for number in sorted({0} if is_started else {0, len(self._kernel.sets) - 1}):
            if reason := self._kernel.wrong(self._kernel.sets[number], self._runs.results(number)):
                return reason
        return ""


def _size(request: Begin) -> int:
    """The bytes of the inputs and outputs of a kernel."""
    return sum(buffer.bytes for buffer in (*request.inputs, *request.outputs))


def _bytes(request: Begin) -> int:
    """About the bytes of a kernel that has begun: its sets, and what is computed in float64."""
    return (rotation(_size(request)) + _BESIDE) * _size(request)
