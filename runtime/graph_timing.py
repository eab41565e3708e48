"""Times on the GPU: CUDA graphs of runs on rotating sets of inputs, replayed in turns, and our programs in them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from deplodock.errors import DeviceError
from deplodock.interpreters.values import Array
from deplodock.runtime.device import POISON, Executable
from deplodock.runtime.plan import BufferPlan

ROTATED_BYTES = 160_000_000
"""What all sets of inputs have together, at least, so that no run finds those of the last one in L2."""

_MOST_SETS = 64
_REPLAYS = 9
SHORTEST_REPLAY_US = 400.0
"""What replays in a row take together, at least, so that events and the start of a graph do not count."""


@dataclass(frozen=True)
class Timing:
    """Microseconds of one run: the median, and the median distance from it."""

    name: str
    microseconds: float
    deviation: float


def rotation(size: int) -> int:
    """The sets of inputs to rotate through where a set, with its outputs, has so many bytes: 64 at most."""
    return min(_MOST_SETS, max(1, -(-ROTATED_BYTES // max(1, size))))


class OwnRuns:
    """Our program on every set of inputs, launched on a stream, and what it writes."""

    def __init__(
        self, executable: Executable, sets: Sequence[Sequence[torch.Tensor]], stream: torch.cuda.Stream
    ) -> None:
        self._executable = executable
        self._stream = stream.cuda_stream
        self._buffers = [_own_buffers(executable, values) for values in sets]
        self._launches = [executable.bind([*each]) for each in self._buffers]
        for launches, each in zip(self._launches, self._buffers, strict=True):
            launches.place([value.data_ptr() for value in each.values()])

    def run(self, sets: int | None = None) -> None:
        """Launch a run on every set, or on the first ones."""
        for launches in self._launches[:sets]:
            self._executable.launch(launches, self._stream)

    def step(self, number: int) -> None:
        """Start one launch of the program on every set."""
        for launches in self._launches:
            self._executable.launch(launches, self._stream, [number])

    def poison(self) -> None:
        """Fill what the runs write."""
        inputs = set(self._executable.plan.inputs)
        self._executable.poison()
        for buffers in self._buffers:
            for number, value in buffers.items():
                if number not in inputs:
                    value.fill_(POISON)

    def outputs(self, number: int) -> list[Array]:
        """The outputs of the last run on a set."""
        plan, buffers = self._executable.plan, self._buffers[number]
        return [_array(buffers[output], plan.buffers[output]) for output in plan.outputs]

    def results(self, number: int) -> list[torch.Tensor]:
        """The outputs of the last run on a set, where they lie on the GPU."""
        plan, buffers = self._executable.plan, self._buffers[number]
        return [_typed(buffers[output], plan.buffers[output]) for output in plan.outputs]


def _array(value: torch.Tensor, buffer: BufferPlan) -> Array:
    data = value.contiguous().view(-1).view(torch.uint8).cpu().numpy()
    return data[: buffer.bytes].view(buffer.dtype).reshape(buffer.shape)


def _typed(value: torch.Tensor, buffer: BufferPlan) -> torch.Tensor:
    data = value.contiguous().view(-1).view(torch.uint8)[: buffer.bytes]
    return data.view(torch_dtype(buffer)).view(buffer.shape)


def torch_dtype(buffer: BufferPlan) -> torch.dtype:
    """PyTorch's type of the elements of a buffer; numpy and PyTorch name them alike."""
    return getattr(torch, buffer.dtype.name)


def _own_buffers(executable: Executable, inputs: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Tensors for the buffers that are not in scratch memory, by number."""
    given = dict(zip(executable.plan.inputs, inputs, strict=True))
    return {
        number: given[number]
        if number in given
        else torch.empty(max(1, buffer.bytes), dtype=torch.uint8, device="cuda")
        for number, buffer in enumerate(executable.plan.buffers)
        if buffer.offset is None
    }


def time_graphs(
    contestants: Mapping[str, Callable[[], None]],
    sets: int,
    stream: torch.cuda.Stream,
    prepare: Callable[[], None],
) -> list[Timing]:
    """The time of one run of each contestant, from alternating replays of their graphs, captured on a stream.

    Args:
        contestants: by name what a graph captures, so many runs as there are sets.
        sets: the sets of inputs.
        stream: where graphs are captured.
        prepare: called before each round of replays.

    Raises DeviceError if the GPU reports a fault.
    """
    try:
        return _time_graphs(contestants, sets, stream, prepare)
    except torch.AcceleratorError as error:
        names = ", ".join(contestants)
        raise DeviceError(f"the GPU reports a fault in repeated runs ({names}): {str(error).splitlines()[0]}") from None


def _time_graphs(
    contestants: Mapping[str, Callable[[], None]],
    sets: int,
    stream: torch.cuda.Stream,
    prepare: Callable[[], None],
) -> list[Timing]:
    graphs: dict[str, tuple[torch.cuda.CUDAGraph, int]] = {}
    for name, run in contestants.items():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()
            run()
        stream.synchronize()
        graphs[name] = graph_of(run, stream)
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(_REPLAYS):
        prepare()
        for name, (graph, repeats) in graphs.items():
            times[name].append(replay_us(graph, repeats) / sets)
    return [timing(name, values) for name, values in times.items()]


def graph_of(run: Callable[[], None], stream: torch.cuda.Stream) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of runs, captured on a stream, and how often in a row it is to be replayed for a time that counts."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    once = replay_us(graph, 3)
    return graph, max(1, round(SHORTEST_REPLAY_US / max(once, 0.1)))


def replay_us(graph: torch.cuda.CUDAGraph, repeats: int) -> float:
    """The microseconds of one replay, the mean of some in a row."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / repeats


def timing(name: str, values: Sequence[float]) -> Timing:
    """The median of times in microseconds, and the median distance from it."""
    median = statistics.median(values)
    return Timing(name, median, statistics.median(abs(value - median) for value in values))
