"""`deplodock run --profile`: what each kernel of a program takes, and what the counters of the GPU say of it.

Each launch is timed in a CUDA graph of its own, on rotating sets of inputs, after those before it have run: what other
kernels left in scratch memory is as in a run of the program. The time is that from one launch to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from deplodock.analysis.machine.resources import Occupancy, occupancy
from deplodock.dialects.kernel import TargetAttr
from deplodock.interpreters.values import Array
from deplodock.runtime.device import Executable
from deplodock.runtime.graph_timing import OwnRuns, rotation, time_graphs
from deplodock.runtime.plan import LaunchPlan


@dataclass(frozen=True)
class KernelProfile:
    """A kernel: its launches, microseconds of all of them together and their share of the program's, its resources.

    `shared` is bytes of a CTA, static and dynamic. `occupancy` is the share of an SM's threads that its CTAs fill, by
    the rules; `counters` is what ncu measures, in percent, by name.
    """

    name: str
    launches: int
    microseconds: float
    share: float
    blocks: int
    threads: int
    registers: int
    shared: int
    ctas: int
    limited_by: str
    occupancy: float
    counters: Mapping[str, float]

    def line(self) -> str:
        """For people."""
        found = "".join(f", {name} {value:.0f} %" for name, value in self.counters.items())
        times = f" in {self.launches} launches" if self.launches > 1 else ""
        return (
            f"{self.microseconds:10.1f} us  {100 * self.share:5.1f} %  @{self.name}{times}: {self.blocks} blocks of "
            f"{self.threads} threads, {self.registers} registers, {self.shared} bytes of shared memory, {self.ctas} "
            f"CTAs on an SM by {self.limited_by}, occupancy {100 * self.occupancy:.0f} %{found}"
        )


@dataclass(frozen=True)
class Profile:
    """The kernels of a program, the slowest first, and why ncu said nothing, if so."""

    kernels: tuple[KernelProfile, ...]
    without_counters: str

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON types."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        note = [f"no counters: {self.without_counters}"] if self.without_counters else []
        return [*(kernel.line() for kernel in self.kernels), *note]


def profile(
    executable: Executable, inputs: Sequence[Array], target: TargetAttr, counters: Mapping[str, Mapping[str, float]]
) -> list[KernelProfile]:
    """Time every kernel of a program on the GPU, the slowest first.

    Args:
        executable: the program.
        inputs: what it runs on.
        target: the GPU.
        counters: what ncu measured of each kernel, by name.
    """
    launches = executable.plan.launches
    times: dict[str, list[float]] = {}
    for launch, microseconds in zip(launches, _launch_times(executable, inputs), strict=True):
        times.setdefault(launch.kernel, []).append(microseconds)
    total = sum(map(sum, times.values()))
    plans = {launch.kernel: launch for launch in launches}
    found = [
        _kernel(plans[name], executable, target, each, total, counters.get(name, {})) for name, each in times.items()
    ]
    return sorted(found, key=lambda kernel: -kernel.microseconds)


def _launch_times(executable: Executable, inputs: Sequence[Array]) -> list[float]:
    """The microseconds of each launch of a program in order."""
    plan = executable.plan
    size = sum(buffer.bytes for buffer in plan.buffers if buffer.offset is None)
    given = [torch.frombuffer(bytearray(values.tobytes() or b"\0"), dtype=torch.uint8).cuda() for values in inputs]
    sets = [[value.clone() for value in given] for _ in range(rotation(size))]
    stream = torch.cuda.Stream()
    runs = OwnRuns(executable, sets, stream)
    return [_launch_time(runs, number, len(sets), stream) for number in range(len(plan.launches))]


def _launch_time(runs: OwnRuns, number: int, sets: int, stream: torch.cuda.Stream) -> float:
    (timing,) = time_graphs({"": lambda: runs.step(number)}, sets, stream, lambda: None)
    return timing.microseconds


def _kernel(
    launch: LaunchPlan,
    executable: Executable,
    target: TargetAttr,
    times: Sequence[float],
    total: float,
    counters: Mapping[str, float],
) -> KernelProfile:
    report = executable.cubin.kernel.reports[launch.kernel]
    shared = report.shared + launch.shared
    found: Occupancy = occupancy(target, launch.threads, report.registers, shared)
    return KernelProfile(
        name=launch.kernel,
        launches=len(times),
        microseconds=sum(times),
        share=sum(times) / total,
        blocks=launch.blocks,
        threads=launch.threads,
        registers=report.registers,
        shared=shared,
        ctas=found.ctas,
        limited_by=found.limited_by,
        occupancy=found.ctas * launch.threads / target.fact("threads_per_sm"),
        counters=dict(counters),
    )
