"""`deplodock run --bench`: a program on the GPU beside PyTorch, both in CUDA graphs.

Inputs rotate over more than 160 MB, three times the L2 cache of an H100, so that no run finds those of the last one
there. A graph holds a run on each set; replays of all contestants alternate, and the median of each counts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from deplodock.errors import Error
from deplodock.frontend.program import CapturedProgram
from deplodock.runtime.device import Executable, device_name, new_stream

ATTENTION = torch.ops.aten.scaled_dot_product_attention.default

_ROTATED_BYTES = 160_000_000
_MOST_SETS = 64
_REPLAYS = 9
_SHORTEST_REPLAY_US = 400.0
_EAGER_CALLS = 20


@dataclass(frozen=True)
class Timing:
    """Microseconds of one run: the median, and the median distance from it."""

    name: str
    microseconds: float
    deviation: float


@dataclass(frozen=True)
class Benchmark:
    """What a program costs: its timings, the bytes it must move, its operations, and the least time for both."""

    card: str
    timings: tuple[Timing, ...]
    bytes: int
    flops: int
    floor: float
    sets: int
    compiled: int

    def of(self, name: str) -> float:
        """The microseconds of a contestant."""
        return next(timing.microseconds for timing in self.timings if timing.name == name)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON types."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for people."""
        own = self.of("deplodock")
        rows = [
            f"{timing.name:22} {timing.microseconds:10.1f} us  x{timing.microseconds / own:5.2f}  {self._rate(timing)}"
            for timing in self.timings
        ]
        return [f"{self.card}, {self.sets} sets of inputs, floor {self.floor:.1f} us", *rows]

    def _rate(self, timing: Timing) -> str:
        seconds = timing.microseconds * 1e-6
        rates = f"{self.bytes / seconds / 1e12:6.2f} TB/s"
        if self.flops:
            rates += f"  {self.flops / seconds / 1e12:6.1f} TFLOP/s"
        return f"{rates}  {100 * self.floor / timing.microseconds:5.1f} % of the floor"


def bench(
    program: CapturedProgram, executable: Executable, *, dram_gbps: int, fp32_gflops: int, compile: bool = True
) -> Benchmark:
    """Time a program on the GPU.

    Args:
        program: the program on the GPU.
        executable: the same, compiled.
        dram_gbps: the card's bandwidth, 10^9 bytes per second, for the floor.
        fp32_gflops: the card's rate, 10^9 operations per second, for the floor.
        compile: whether torch.compile takes part.

    Raises:
        Error: a time is below the floor, so that it cannot be one of the whole program.
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        results = program.graph(*program.arguments(program.inputs))
    flops = int(counter.get_total_flops()) - _masked_flops(program)
    moved = sum(_bytes(value) for value in (*program.inputs, *_tensors(results)))
    del results
    sets = _sets(program, moved)
    buffers = [_own_buffers(executable, values) for values in sets]
    stream = new_stream()
    contestants = _contestants(program, executable, sets, buffers, stream, compile)
    shared = torch.cuda.ExternalStream(stream.handle)
    timings = [_eager_loop(program, sets), *_graphs(contestants, len(sets), shared)]
    floor = max(moved / dram_gbps * 1e-3, flops / fp32_gflops * 1e-3)
    new = int(executable.cubin.is_new)
    found = Benchmark(device_name(), tuple(timings), moved, flops, floor, len(sets), new)
    if (own := found.of("deplodock")) < floor and len(sets) * moved > _ROTATED_BYTES:
        raise Error(f"{own:.1f} us are below the floor of {floor:.1f} us: the measurement is wrong")
    return found


def _masked_flops(program: CapturedProgram) -> int:
    """Of what the counter counts, the operations on scores that causal masks hide: half of the square."""
    hidden = 0
    for node in program.graph.graph.find_nodes(op="call_function", target=ATTENTION):
        names = [argument.name for argument in ATTENTION._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if given.get("is_causal"):
            query, key, value = (given[name].meta["val"].shape for name in ("query", "key", "value"))
            hidden += math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return hidden


def _sets(program: CapturedProgram, moved: int) -> list[list[torch.Tensor]]:
    """Copies of the inputs, as many as it takes to move more than `_ROTATED_BYTES`."""
    count = min(_MOST_SETS, max(1, -(-_ROTATED_BYTES // max(1, moved))))
    return [[value.clone() for value in program.inputs] for _ in range(count)]


def _contestants(
    program: CapturedProgram,
    executable: Executable,
    sets: Sequence[Sequence[torch.Tensor]],
    buffers: Sequence[dict[int, torch.Tensor]],
    stream: Any,
    compile: bool,
) -> dict[str, Callable[[], None]]:
    """What each graph captures: a run on every set, ours on a pycuda stream."""
    arguments = [program.arguments(values) for values in sets]

    def all_sets(function: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            with torch.no_grad():
                for args in arguments:
                    function(*args)

        return run

    found = {"PyTorch, graph": all_sets(program.graph)}
    if compile:
        found["torch.compile, graph"] = all_sets(torch.compile(program.graph, dynamic=False))
    bound = [executable.bind({n: value.data_ptr() for n, value in each.items()}) for each in buffers]

    def own() -> None:
        for calls in bound:
            executable.launch(calls, stream)

    return {**found, "deplodock": own}


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


def _graphs(contestants: dict[str, Callable[[], None]], sets: int, stream: torch.cuda.Stream) -> list[Timing]:
    """The time of one run of each contestant, from alternating replays of their graphs, captured on a stream."""
    graphs: dict[str, tuple[torch.cuda.CUDAGraph, int]] = {}
    for name, run in contestants.items():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()
            run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        once = _replay_us(graph, 3)
        graphs[name] = graph, max(1, round(_SHORTEST_REPLAY_US / max(once, 0.1)))
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(_REPLAYS):
        for name, (graph, repeats) in graphs.items():
            times[name].append(_replay_us(graph, repeats) / sets)
    return [_timing(name, values) for name, values in times.items()]


def _replay_us(graph: torch.cuda.CUDAGraph, repeats: int) -> float:
    """The microseconds of one replay, the mean of some in a row."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / repeats


def _eager_loop(program: CapturedProgram, sets: Sequence[Sequence[torch.Tensor]]) -> Timing:
    """The time of a call from Python, one after the other, as a user sees it."""
    times: list[float] = []
    with torch.no_grad():
        for call in range(_EAGER_CALLS + 3):
            args = program.arguments(sets[call % len(sets)])
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            program.graph(*args)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
    return _timing("PyTorch, loop", times[3:])


def _timing(name: str, values: Sequence[float]) -> Timing:
    median = statistics.median(values)
    return Timing(name, median, statistics.median(abs(value - median) for value in values))


def _tensors(results: Any) -> list[torch.Tensor]:
    return [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor)]


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.element_size()
