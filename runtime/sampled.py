"""Runs a sample of the CTAs of a program that is too large to simulate whole, and compares what they write.

Each kernel gets inputs that can be trusted. Where the loop IR is known, that is its evaluation, function by function:
what the sampled CTAs write is compared with the same function in float64 on the same inputs, and the outputs of the
evaluation are the program's. Otherwise the kernels run on what sampled CTAs of earlier kernels wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp as LoopFunction

from deplodock.analysis.host.arguments import Role, argument_roles
from deplodock.analysis.host.program import HostProgram, Step, host_program
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.analysis.shape.roundings import Roundings
from deplodock.dialects import kernel
from deplodock.errors import Error
from deplodock.interpreters.evaluate import BufferState, call
from deplodock.interpreters.simulate import Finding
from deplodock.interpreters.simulate.memory import Buffer, Layout, Written
from deplodock.interpreters.simulate.report import UNWRITTEN_OUTPUT, Counters
from deplodock.interpreters.simulate.sample import SampledWrites, Sampler, TooManyCtas
from deplodock.interpreters.values import Array
from deplodock.runtime.compare import Verdict, compare
from deplodock.runtime.simulated import EVALUATOR_STEP_LIMIT, steps_of_cta

SAMPLE_STEPS = 4_000_000_000
"""The lane steps of the CTAs that run, of all kernels together: 10 seconds, as many CTAs run at once."""


@dataclass(frozen=True)
class KernelRun:
    """What a sample says of one kernel: the CTAs that ran, of how many, and why none did, if so.

    `verdict` compares what they wrote, where that is known; `elements` counts it.
    """

    name: str
    ran: int
    total: int
    reason: str = ""
    verdict: Verdict | None = None
    elements: int = 0

    @property
    def passed(self) -> bool:
        """Whether CTAs ran and what they wrote is right, as far as that is known."""
        return self.ran > 0 and (self.verdict is None or self.verdict.passed)


@dataclass(frozen=True)
class SampledRun:
    """A sample of a program: each kernel, what the simulator found, and counts of the CTAs that ran.

    `outputs` are those of the evaluation, None without one.
    """

    kernels: list[KernelRun]
    findings: list[Finding]
    counters: dict[str, Counters]
    outputs: list[Array] | None
    seconds: float


@dataclass
class _Samples:
    """The samples of the kernels of a module as they are taken."""

    module: ModuleOp
    seed: int
    runs: dict[str, KernelRun] = field(default_factory=dict[str, KernelRun])

    def __post_init__(self) -> None:
        functions = kernel.functions(self.module)
        most = SAMPLE_STEPS // max(1, len(functions))
        steps = {function: (steps_of_cta(function), most) for function in functions}
        self.sampler = Sampler(self.module, self.seed, steps)

    def take(
        self,
        steps: Sequence[Step],
        buffers: Mapping[int, Buffer],
        verdict: Callable[[int, SampledWrites], Verdict | None],
        outputs: Sequence[int],
    ) -> None:
        """Run samples of some launches, and compare what they write to each of the buffers `outputs`."""
        known = {step.function.sym_name.data: step.function for step in steps}
        try:
            written = self.sampler.run(steps, buffers, outputs)
        except TooManyCtas as reason:
            for name, function in known.items():
                assert isinstance(function, kernel.FuncOp)
                self.runs.setdefault(name, KernelRun(name, 0, function.num_blocks, str(reason)))
            return
        for step in steps:
            name, function = step.function.sym_name.data, step.function
            assert isinstance(function, kernel.FuncOp)
            own = [number for number in step.writes() if number in written]
            verdicts = [found for number in own if (found := verdict(number, written[number])) is not None]
            wrong = next((found for found in verdicts if not found.passed), None)
            worst = max(verdicts, key=lambda found: found.share, default=None)
            elements = sum(int(written[number].mask.sum()) for number in own)
            ran = self.sampler.ran[name]
            self.runs.setdefault(name, KernelRun(name, ran, function.num_blocks, "", wrong or worst, elements))

    def report_missing(self, step: Step, number: int, layout: Layout, missing: Array) -> None:
        """Report elements that no CTA writes, of a buffer that a launch writes."""
        if not missing.any():
            return
        function, report = step.function, self.sampler.report
        assert isinstance(function, kernel.FuncOp)
        parameter = function.parameters[step.buffers.index(number)]
        count = int(missing.sum())
        report.add(
            UNWRITTEN_OUTPUT,
            step.caller,
            count,
            lambda: (
                f"no CTA of @{function.sym_name.data} writes {count} of the {layout.size} elements of "
                f"{report.names.value(parameter)}, the first is {layout.element(int(missing.argmax()))}"
            ),
        )

    def result(self, outputs: list[Array] | None, start: float) -> SampledRun:
        """What the samples say together."""
        report, counters = self.sampler.report, self.sampler.counters
        return SampledRun(list(self.runs.values()), report.findings, counters, outputs, time.perf_counter() - start)


def launches_of(module: ModuleOp) -> dict[str, int]:
    """How many launches each function of a module at tile level has, which become kernels in that order."""
    return {function.sym_name.data: len(launches(function)) for function in kernels(module)}


def sample_functions(
    module: ModuleOp, loops: ModuleOp, counts: Mapping[str, int], inputs: Sequence[Array], rounded: Roundings, seed: int
) -> SampledRun:
    """Run a sample of a program, whose loop IR gives the inputs of each kernel and what it must write.

    Args:
        module: the program at kernel level.
        loops: the same program at loop level; it is evaluated.
        counts: the launches that each function of `loops` became.
        inputs: the inputs of the program.
        rounded: what rounds on the way to the results, as `compare` takes it.
        seed: what the CTAs are drawn by.

    Raises Error as `evaluate`, and where `module` is not what `loops` was lowered to.
    """
    start = time.perf_counter()
    functions = kernels(loops)
    high, low, samples = host_program(loops, functions), host_program(module), _Samples(module, seed)
    pairs = _Pairs(high, low, counts)
    memory: dict[int, BufferState | None] = {
        number: BufferState(a) for number, a in zip(high.inputs, inputs, strict=True)
    }
    last = {number: place for place, step in enumerate(high.steps) for number in step.buffers}
    for place, step in enumerate(high.steps):
        function = step.function
        assert isinstance(function, LoopFunction)
        before = [memory.get(number) for number in step.buffers]
        after = call(function, before, most_steps=EVALUATOR_STEP_LIMIT)
        segment = pairs.segments[place]
        if any(launch.function.sym_name.data not in samples.runs for launch in segment):
            exact = call(function, before, "float64", EVALUATOR_STEP_LIMIT)
            bar = partial(compare, rounded=rounded)
            _compare_function(samples, pairs, step, segment, before, (after, exact), bar)
        for number, role, held in zip(step.buffers, argument_roles(function), after, strict=True):
            if role is not Role.IN:
                memory[number] = _merged(memory.get(number), held)
        for number in step.buffers:
            if last[number] == place and number not in high.outputs:
                memory.pop(number, None)
    return samples.result([_data(memory.get(number)) for number in high.outputs], start)


def _compare_function(
    samples: _Samples,
    pairs: _Pairs,
    step: Step,
    segment: Sequence[Step],
    before: Sequence[BufferState | None],
    after: tuple[Sequence[BufferState], Sequence[BufferState]],
    bar: Callable[..., Verdict],
) -> None:
    """Sample the launches of one function of loop level, called on memory `before`, and compare with `after`.

    `bar` is `compare` without the facts of the program.
    """
    given = {pairs.low_of[number]: held for number, held in zip(step.buffers, before, strict=True)}
    native, exact = (
        {pairs.low_of[number]: held for number, held in zip(step.buffers, values, strict=True)} for values in after
    )
    roles = argument_roles(step.function)
    outputs = [pairs.low_of[number] for number in step.writes()]
    buffers = {
        number: _buffer(pairs.low, number, None if role is Role.OUT else given.get(number))
        for number, role in _roles_of(segment, {pairs.low_of[n]: r for n, r in zip(step.buffers, roles, strict=True)})
    }

    def verdict(number: int, written: SampledWrites) -> Verdict | None:
        own, truth = native[number], exact[number]
        wanted = np.ones(own.data.size, np.bool_) if own.initialised is None else own.initialised.reshape(-1)
        if written.by_any is not None and number not in reported:
            reported.add(number)
            writer = next(launch for launch in reversed(segment) if number in launch.writes())
            samples.report_missing(writer, number, buffers[number].layout, wanted & ~written.by_any)
        shape = own.data.shape
        mask = written.mask & wanted
        return bar(written.data.reshape(shape), truth.data, own.data, where=mask.reshape(shape))

    reported: set[int] = set()
    samples.take(segment, buffers, verdict, outputs)


def sample_whole(
    module: ModuleOp,
    inputs: Sequence[Array],
    verdict: Callable[[int, Array, Array], Verdict] | None,
    seed: int,
) -> SampledRun:
    """Run a sample of a program of which only the kernels are known.

    `verdict` compares an output, by its number, where a mask holds.
    """
    start = time.perf_counter()
    program, samples = host_program(module), _Samples(module, seed)
    given = {number: BufferState(value) for number, value in zip(program.inputs, inputs, strict=True)}
    used = {number for step in program.steps for number in step.buffers}
    buffers = {number: _buffer(program, number, given.get(number)) for number in used}
    written = {number for step in program.steps for number in step.writes()}
    outputs = [number for number in dict.fromkeys(program.outputs) if number in written]

    def judge(number: int, result: SampledWrites) -> Verdict | None:
        if result.by_any is not None and number not in reported:
            reported.add(number)
            writer = next(step for step in reversed(program.steps) if number in step.writes())
            if number not in given:
                samples.report_missing(writer, number, buffers[number].layout, ~result.by_any)
        if verdict is None:
            return None
        shape = Layout.of(program.values[number]).shape
        return verdict(program.outputs.index(number), result.data.reshape(shape), result.mask.reshape(shape))

    reported: set[int] = set()
    samples.take(program.steps, buffers, judge, outputs)
    return samples.result(None, start)


class _Pairs:
    """Which buffers and launches at kernel level stand for which buffers and calls at loop level."""

    def __init__(self, high: HostProgram, low: HostProgram, counts: Mapping[str, int]) -> None:
        self.low = low
        self.low_of: dict[int, int] = dict(zip(high.arguments, low.arguments, strict=True))
        self.segments: list[list[Step]] = []
        """The launches of each call."""
        first = 0
        for place, step in enumerate(high.steps):
            # A function that is inlined allocates after what stood before its call.
            self.low_of.update(zip(high.made_before(place), low.made_before(first), strict=False))
            end = first + counts[step.function.sym_name.data]
            self.segments.append(low.steps[first:end])
            first = end
        if first != len(low.steps) or not set(high.outputs) <= self.low_of.keys():
            raise Error("the kernels are not those of the program's loops")


def _roles_of(segment: Sequence[Step], known: Mapping[int, Role]) -> list[tuple[int, Role]]:
    """All buffers of some launches, with the role of those that are passed to them, `out` for others."""
    used = {number for step in segment for number in step.buffers} | set(known)
    return [(number, known.get(number, Role.OUT)) for number in sorted(used)]


def _buffer(program: HostProgram, number: int, held: BufferState | None) -> Buffer:
    layout = Layout.of(program.values[number])
    if number in program.counters:
        return Buffer.of(layout, np.zeros(layout.shape, layout.dtype))
    if held is None:
        return Buffer.unwritten(layout)
    buffer = Buffer.of(layout, held.data)
    if held.initialised is not None:
        buffer.written = Written((buffer.data.size,))
        buffer.written.flags[: layout.size] = held.initialised.reshape(-1)
    return buffer


def _merged(before: BufferState | None, after: BufferState) -> BufferState:
    """What a buffer holds after a function that may have left elements of it as they were."""
    if before is None or after.initialised is None or after.initialised.all():
        return after
    data = np.where(after.initialised, after.data, before.data)
    return BufferState(data, None if before.initialised is None else before.initialised | after.initialised)


def _data(held: BufferState | None) -> Array:
    if held is None or (held.initialised is not None and not held.initialised.all()):
        raise Error("the evaluation leaves elements of an output unwritten")
    return held.data
