"""`deplodock run --bench`: a program on the GPU beside PyTorch, both in CUDA graphs.

Inputs rotate over more than 160 MB, three times the L2 cache of an H100, so that no run finds those of the last one
there. A graph holds a run on each set; replays of all contestants alternate, and the median of each counts. What we
write is poisoned before each round of replays, and checked after the last: it is the timed runs that are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from deplodock.analysis.machine.cost import Rates
from deplodock.errors import Error
from deplodock.frontend.precision import pytorch_beside
from deplodock.frontend.program import CapturedProgram
from deplodock.interpreters.values import Array
from deplodock.runtime.device import Executable, device_name
from deplodock.runtime.graph_timing import ROTATED_BYTES, OwnRuns, Timing, rotation, time_graphs, timing
from deplodock.tools.bench.report import EAGER, MODES, OWN, products_of_pytorch

Check = Callable[[Sequence[Array]], str]
"""What is wrong with the outputs of a run; empty if they are right."""

ATTENTION = torch.ops.aten.scaled_dot_product_attention.default

_PARTIAL_READS = (
    torch.ops.aten.embedding.default,
    torch.ops.aten.gather.default,
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_select.default,
    torch.ops.aten.select.int,
    torch.ops.aten.slice.Tensor,
)

_EAGER_CALLS = 20


@dataclass(frozen=True)
class Benchmark:
    """What a program costs: its timings, the bytes it must move, its operations, and the least time for both.

    `precision` is the coarsest one of its products of FP32, `pytorch` how PyTorch computes these.
    """

    card: str
    timings: tuple[Timing, ...]
    bytes: int
    flops: int
    floor: float
    sets: int
    compiled: int
    precision: str
    pytorch: str

    def of(self, name: str) -> float:
        """The microseconds of a contestant."""
        return next(timing.microseconds for timing in self.timings if timing.name == name)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON types."""
        return asdict(self)

    def lines(self) -> list[str]:
        """A table for people."""
        own = self.of(OWN)
        rows = [
            f"{timing.name:22} {timing.microseconds:10.1f} us  x{timing.microseconds / own:5.2f}  {self._rate(timing)}"
            for timing in self.timings
        ]
        products = f"products of FP32: ours {self.precision}, PyTorch's {self.pytorch}"
        return [f"{self.card}, {self.sets} sets of inputs, floor {self.floor:.1f} us, {products}", *rows]

    def _rate(self, timing: Timing) -> str:
        seconds = timing.microseconds * 1e-6
        rates = f"{self.bytes / seconds / 1e12:6.2f} TB/s"
        if self.flops:
            rates += f"  {self.flops / seconds / 1e12:6.1f} TFLOP/s"
        return f"{rates}  {100 * self.floor / timing.microseconds:5.1f} % of the floor"


def bench(
    program: CapturedProgram,
    executable: Executable,
    check: Check,
    rates: Rates,
    *,
    modes: Sequence[str] = ("default",),
    precision: str = "highest",
) -> Benchmark:
    """Time a program on the GPU.

    The floor is the card's roofline: the longest of the bytes of inputs and outputs at the bandwidth of DRAM and of the
    operations that PyTorch counts at the FP32 rate; those on floats of 16 bits, and at a precision below the highest,
    which tensor cores may do, count nothing. Programs whose sets of inputs do not fill 160 MB may find them in L2, so
    for them the bytes count at the most that the SMs can take from L2. Inputs of which perhaps a part is read, such as
    tables, count nothing. PyTorch computes products of FP32 strictly, but beside `medium` ones in TF32.

    Args:
        program: the program on the GPU.
        executable: the same, compiled.
        check: judges the outputs of timed runs.
        rates: what the card can do, for the floor.
        modes: the modes in which torch.compile takes part, of `MODES`; max-autotune can take minutes.
        precision: the coarsest one of the program's products of FP32.

    Raises:
        Error: a timed run is wrong, or a time is below the floor, so that it cannot be one of the whole program.
    """
    with torch.no_grad():
        results = program.graph(*program.arguments(program.inputs))
    flops = program.flops() - _masked_flops(program)
    is_narrow = any(value.is_floating_point() and value.itemsize < 4 for value in program.inputs)
    written = [value for value in _tensors(results) if all(value is not given for given in program.inputs)]
    moved = sum(map(_bytes, [*read_inputs(program), *written]))
    sets = _sets(program, sum(map(_bytes, [*program.inputs, *written])))
    del results, written
    stream = torch.cuda.Stream()
    own = OwnRuns(executable, sets, stream)
    with pytorch_beside(precision):
        contestants = {**_peers(program, sets, modes), OWN: own.run}
        timings = [_eager_loop(program, sets), *time_graphs(contestants, len(sets), stream, own.poison)]
    for number in sorted({0, len(sets) - 1}):
        if wrong := check(own.outputs(number)):
            raise Error(f"the timed runs are wrong on set {number} of the inputs: {wrong}")
    operations = 0 if is_narrow or precision != "highest" else flops
    floor = rates.floor_ns(moved, operations, cached=len(sets) * moved <= ROTATED_BYTES) * 1e-3
    new, pytorch = int(executable.cubin.is_new), products_of_pytorch(precision)
    found = Benchmark(device_name(), tuple(timings), moved, flops, floor, len(sets), new, precision, pytorch)
    if (time := found.of(OWN)) < floor:
        raise Error(f"{time:.1f} us are below the floor of {floor:.1f} us: the measurement is wrong")
    return found


def read_inputs(program: CapturedProgram) -> list[torch.Tensor]:
    """The inputs that the program reads as a whole, as far as its operations tell."""
    nodes = {node.name: node for node in program.graph.graph.find_nodes(op="placeholder")}
    return [
        value
        for name, value in zip(program.placeholders, program.inputs, strict=True)
        if name in nodes and _is_read(nodes[name])
    ]


def _is_read(node: torch.fx.Node) -> bool:
    """Whether all of a value is read, through views of it too."""
    return any(
        user.op != "output"
        and user.target not in _PARTIAL_READS
        and (not getattr(user.target, "is_view", False) or _is_read(user))
        for user in node.users
    )


def _masked_flops(program: CapturedProgram) -> int:
    """Of what `flops` counts, the operations on scores that causal masks hide: half of the square."""
    hidden = 0
    for node in program.graph.graph.find_nodes(op="call_function", target=ATTENTION):
        names = [argument.name for argument in ATTENTION._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if given.get("is_causal"):
            query, key, value = (given[name].meta["val"].shape for name in ("query", "key", "value"))
            hidden += math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return hidden


def _sets(program: CapturedProgram, size: int) -> list[list[torch.Tensor]]:
    """Copies of the inputs, as many as it takes to rotate through L2 where inputs and outputs have this size."""
    return [[value.clone() for value in program.inputs] for _ in range(rotation(size))]


def _peers(
    program: CapturedProgram, sets: Sequence[Sequence[torch.Tensor]], modes: Sequence[str]
) -> dict[str, Callable[[], None]]:
    """What the graphs of PyTorch capture: a run on every set."""
    arguments = [program.arguments(values) for values in sets]

    def all_sets(function: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            with torch.no_grad():
                for args in arguments:
                    function(*args)

        return run

    compiled = {MODES[mode]: all_sets(torch.compile(program.graph, dynamic=False, mode=mode)) for mode in modes}
    return {EAGER: all_sets(program.graph), **compiled}


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
    return timing("PyTorch, loop", times[3:])


def _tensors(results: Any) -> list[torch.Tensor]:
    return [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor)]


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.element_size()
