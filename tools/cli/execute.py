"""Lowers a program to kernels and runs those: on the GPU, in the simulator, or a sample of their CTAs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.resources import shared_bytes
from deplodock.analysis.machine.targets import target_of
from deplodock.dialects import kernel
from deplodock.interpreters.simulate import Counters, Finding, simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, level_of
from deplodock.runtime.device import Executable
from deplodock.runtime.sampled import KernelRun, SampledRun, launches_of, sample_functions, sample_whole
from deplodock.runtime.simulated import LANE_STEP_LIMIT, MOST_LANE_STEPS, lane_steps
from deplodock.tools.cli.program import Session
from deplodock.tools.cli.task import RunTask
from deplodock.tools.progress import working


@dataclass(frozen=True)
class LoweredProgram:
    """A program at kernel level, the text of it at the level that was asked for, and what its kernels were made from.

    `loops` is the program at loop level, None for one that was given below; `launches` finds out how many launches each
    of its functions became.
    """

    module: ModuleOp
    text: str | None
    loops: ModuleOp | None
    launches: Callable[[], Mapping[str, int]]


@dataclass(frozen=True)
class Execution:
    """What a run gave: the outputs, None where only parts of them were computed; findings; and each kernel's part.

    `evaluated` says that the outputs are those of the evaluator, as the kernels ran in part.
    """

    outputs: list[Array] | None
    findings: Sequence[Finding]
    kernels: list[KernelRun]
    counters: dict[str, Counters] = field(default_factory=dict[str, Counters])
    evaluated: bool = False


def lower_program(session: Session, module: ModuleOp, ir: Level | None) -> LoweredProgram:
    """Lower to kernel level, and keep the text at the level to print on the way."""
    if ir is Level.TENSOR:
        session.lower(module, ir)
    text = session.text(module, ir) if ir is not None and ir is level_of(module) else None
    loops = session.lower(module, Level.KERNEL)

    @cache
    def tiles() -> ModuleOp:
        assert loops is not None
        session.lower(lowered := loops.clone(), Level.TILE)
        return lowered

    if ir is not None and text is None:
        state = module
        if loops is not None and ir in (Level.LOOP, Level.TILE):
            state = loops if ir is Level.LOOP else tiles()
        text = session.text(state, ir)
    return LoweredProgram(module, text, loops, lambda: launches_of(tiles()))


def run_on_gpu(session: Session, module: ModuleOp, task: RunTask, executable: Executable) -> Execution:
    """Run a program on the GPU."""
    with session.clock.part("GPU"):
        outputs = executable.run(task.inputs)
    return Execution(outputs, (), _whole(module))


def simulate_program(session: Session, lowered: LoweredProgram, task: RunTask) -> Execution:
    """Simulate a program, or a sample of its CTAs where all would take too long."""
    module, steps = lowered.module, lane_steps(lowered.module)
    if steps <= LANE_STEP_LIMIT:
        with working("simulating"):
            simulation = simulate(module, task.inputs, most_steps=MOST_LANE_STEPS)
        session.clock.add("simulator", simulation.seconds)
        session.note(f"simulated in {simulation.seconds:.3f} s")
        return Execution(simulation.outputs, simulation.findings, _whole(module), simulation.counters)
    session.note(
        f"simulating about {steps:.1e} lane steps would take too long (the limit is {LANE_STEP_LIMIT:.0e}): "
        "a sample of the CTAs runs"
        + ("" if lowered.loops is None else ", on what the evaluator gives for the loop IR before each kernel")
    )
    with working("simulating"):
        sample = _sample(lowered, task, session.options.seed)
    session.clock.add("simulator", sample.seconds)
    session.note(f"simulated in {sample.seconds:.3f} s")
    return Execution(sample.outputs, sample.findings, sample.kernels, sample.counters, sample.outputs is not None)


def _sample(lowered: LoweredProgram, task: RunTask, seed: int) -> SampledRun:
    if lowered.loops is not None:
        return sample_functions(lowered.module, lowered.loops, lowered.launches(), task.inputs, task.rounded, seed)
    return sample_whole(lowered.module, task.inputs, None if task.reference is None else task.verdict, seed)


def _whole(module: ModuleOp) -> list[KernelRun]:
    """Kernels all of whose CTAs ran."""
    found = kernel.functions(module)
    return [KernelRun(op.sym_name.data, op.num_blocks, op.num_blocks) for op in found]


def print_kernels(module: ModuleOp, execution: Execution) -> None:
    """Print what each kernel is, how many of its CTAs ran, and what the simulator counted."""
    arch, runs = target_of(module).arch.data, {run.name: run for run in execution.kernels}
    for function in kernel.functions(module):
        name = function.sym_name.data
        print(
            f"@{name}: {function.num_blocks} blocks of {function.num_threads} threads, "
            f"{shared_bytes(function)} bytes of shared memory, for {arch}"
        )
        if (run := runs.get(name)) is not None and run.ran < run.total:
            print(f"  {_sampled(run)}")
        if (counts := execution.counters.get(name)) is not None:
            print(
                f"  global memory: {counts.global_bytes_read} bytes read, {counts.global_bytes_written} written; "
                f"barriers: {counts.barriers}"
            )


def _sampled(run: KernelRun) -> str:
    """What a sample says of a kernel."""
    if not run.ran:
        return f"not run: {run.reason}"
    text = f"{run.ran} of {run.total} CTAs ran"
    if run.verdict is None:
        return text
    word = "right" if run.verdict.passed else "WRONG"
    return f"{text}; the {run.elements} elements that they wrote are {word}: {run.verdict}"
