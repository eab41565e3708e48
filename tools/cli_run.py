"""What `deplodock run` does with a program: simulates it, compares it, and reports."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.arguments import checks, entry_function
from deplodock.analysis.cost import Rates
from deplodock.analysis.reductions import longest_reduction
from deplodock.analysis.resources import shared_bytes
from deplodock.analysis.targets import target_of
from deplodock.dialects import kernel
from deplodock.errors import Error, InvalidInputError
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import evaluate, input_types
from deplodock.interpreters.simulator import Counters, Finding, simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import LEVELS, Level, level_of
from deplodock.runtime import ncu
from deplodock.runtime.compare import Verdict, compare
from deplodock.runtime.device import Executable
from deplodock.runtime.simulated import LANE_STEP_LIMIT, lane_steps
from deplodock.tools.cli_program import Program, Session
from deplodock.tools.watchdog import limited

if TYPE_CHECKING:
    from deplodock.tools.cli_bench import Benchmark
    from deplodock.tools.cli_profile import Profile

NCU_LIMIT = 300.0
"""The seconds that ncu may take where nothing else is said."""


@dataclass(frozen=True)
class _Task:
    """A program before it is lowered: what it is run on, and what should come out.

    `evaluable` is the program at a level that the evaluators run. `reference` holds the outputs in float64 and `eager`
    those of another run in the program's own types, both from `source`; neither exists for a program at kernel level.
    `sensitivity` gives how far errors would move each output, where PyTorch can say.
    """

    inputs: list[Array]
    reference: list[Array] | None
    eager: list[Array] | None
    source: str
    reduction_extent: int
    evaluable: ModuleOp | None
    sensitivity: Callable[[], list[Array]] | None = None


@dataclass(frozen=True)
class RunOptions:
    """Where `deplodock run` runs a program (`cuda` or `sim`), and what it reports besides the result.

    `autotune` lets torch.compile take part in mode max-autotune, too. `limit` is the seconds that the GPU may take for
    the run, and for what is measured, before the process is ended.
    """

    device: str = "sim"
    bench: bool = False
    autotune: bool = False
    profile: bool = False
    json: bool = False
    limit: float | None = None


@dataclass(frozen=True)
class _Report:
    """Whether a program is right, the CUDA texts that were compiled, not found in the cache, and what was measured."""

    passed: bool
    compiled: int
    bench: Benchmark | None
    profile: Profile | None

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON types."""
        return {
            "passed": self.passed,
            "compiled": self.compiled,
            "bench": None if self.bench is None else self.bench.as_json(),
            "profile": None if self.profile is None else self.profile.as_json(),
        }


def run(
    session: Session,
    program: Program,
    ir: Level | None,
    replacement: str | None,
    options: RunOptions = RunOptions(),
) -> bool:
    """Run a program and print the report; whether it is right and the simulator finds nothing.

    Args:
        session: the command at work.
        program: the program; it is lowered.
        ir: a level to print, too.
        replacement: a file of IR text to run in the program's place.
        options: where to run it, and what to report besides.
    """
    if options.json:
        with contextlib.redirect_stdout(sys.stderr):
            report = _run(session, program, ir, replacement, options)
        print(json.dumps(report.as_json()))
        return report.passed
    report = _run(session, program, ir, replacement, options)
    for part in (report.bench, report.profile):
        if part is not None:
            print("\n".join(part.lines()))
    return report.passed


def _run(session: Session, program: Program, ir: Level | None, replacement: str | None, options: RunOptions) -> _Report:
    module = program.module
    task = (
        _captured_task(session, program, options.device)
        if program.captured is not None
        else _text_task(session, module)
    )
    if replacement is not None:
        module = session.read_module(replacement)
        task = replace(task, evaluable=None)
    printed = _lower(session, module, ir)
    if printed is not None and ir is not None:
        session.write(printed, ir)
        if ir is Level.CUDA:
            session.report_nvcc(printed, module)
    executable = _compile(session, module) if options.device == "cuda" else None
    with _limited(module, options):
        outputs, findings = _execute(session, module, task, executable)
    right = _check(task, outputs)
    for finding in findings or ():
        print(finding)
    failed = [message for number, message in checks(entry_function(module)).items() if not outputs[number]]
    for message in failed:
        print(f"check failed: {message}")
    succeeded = right and not findings and not failed
    print(f"{'passed' if succeeded else 'FAILED'}: {_compared(task, right)}, {_found(findings)}")
    compiled = 0 if executable is None else int(executable.cubin.is_new)
    bench, profile = None, None
    if executable is not None and succeeded:
        bench, profile = _measure(session, program, module, task, executable, options)
    session.finish(module)
    return _Report(succeeded, compiled, bench, profile)


def _measure(
    session: Session, program: Program, module: ModuleOp, task: _Task, executable: Executable, options: RunOptions
) -> tuple[Benchmark | None, Profile | None]:
    """Measure a right program on the GPU, as far as the options ask for it."""
    counters, reason = _counters(session, module, options) if options.profile else ({}, "")
    with _limited(module, options):
        bench = _bench(program, module, task, executable, options.autotune) if options.bench else None
        profile = _profile(module, task, executable, counters, reason) if options.profile else None
    return bench, profile


def _limited(module: ModuleOp, options: RunOptions) -> contextlib.AbstractContextManager[None]:
    """End the process if the GPU takes too long."""
    if options.device != "cuda" or options.limit is None:
        return contextlib.nullcontext()
    kernels = ", ".join(f"@{op.sym_name.data}" for op in kernel.functions(module))
    return limited(options.limit, f"{kernels} on the GPU; `run --device sim` finds waits that never end")


def _captured_task(session: Session, program: Program, device: str) -> _Task:
    """A program from Python, compared with PyTorch. It is lowered to tensor level."""
    captured, module = program.captured, program.module
    assert captured is not None
    for name, value in zip(captured.names, captured.inputs, strict=True):
        if value.is_meta:
            raise InvalidInputError(f"{name} is on the device meta and has no values to run on; `compile` needs none")
    session.lower(module, Level.TENSOR)
    to_array = importlib.import_module("deplodock.frontend.arrays").to_array
    with session.clock.part("PyTorch's result"):
        inputs = [to_array(value) for value in captured.inputs]
        on_device = captured.on("cuda") if device == "cuda" else captured
        reference = [to_array(value) for value in on_device.reference()]
        eager = [to_array(value) for value in on_device.eager()]

    @cache
    def sensitivity() -> list[Array]:
        return [to_array(value) for value in on_device.sensitivity()]

    extent, evaluable = longest_reduction(module), module.clone()
    return _Task(inputs, reference, eager, "PyTorch in float64", extent, evaluable, sensitivity)


def _text_task(session: Session, module: ModuleOp) -> _Task:
    """A program in IR text, compared with the evaluator. Torch level is lowered to tensor level."""
    if level_of(module) is Level.TORCH:
        session.lower(module, Level.TENSOR)
    inputs = draw_inputs(input_types(entry_function(module)), session.options.seed, "normal", lowest=0)
    if level_of(module) is Level.KERNEL:
        return _Task(inputs, None, None, "", 1, None)
    with session.clock.part("evaluator's result"):
        reference = evaluate(module, inputs, precision="float64")
        eager = evaluate(module, inputs)
    return _Task(inputs, reference, eager, "the evaluator in float64", longest_reduction(module), module.clone())


def _lower(session: Session, module: ModuleOp, ir: Level | None) -> str | None:
    """Lower to kernel level; the text at the level to print on the way."""
    text = None
    if ir is not None and LEVELS.index(ir) < LEVELS.index(Level.KERNEL):
        session.lower(module, ir)
        text = session.text(module, ir)
    session.lower(module, Level.KERNEL)
    if ir is not None and text is None:
        text = session.text(module, ir)
    return text


def _compile(session: Session, module: ModuleOp) -> Executable:
    """Compile and load a program for the GPU."""
    with session.clock.part("nvcc"):
        return Executable(module)


def _execute(
    session: Session, module: ModuleOp, task: _Task, executable: Executable | None
) -> tuple[list[Array], Sequence[Finding] | None]:
    """The outputs of the program, and what is found: nothing on the GPU, None where the kernels did not run."""
    if executable is None:
        return _simulate(session, module, task)
    with session.clock.part("GPU"):
        outputs = executable.run(task.inputs)
    _print_kernels(module, {})
    return outputs, ()


def _simulate(session: Session, module: ModuleOp, task: _Task) -> tuple[list[Array], Sequence[Finding] | None]:
    """The outputs of the program, and what the simulator finds, None if it did not run; prints each kernel."""
    steps = lane_steps(module)
    if steps > LANE_STEP_LIMIT and task.evaluable is not None:
        session.note(
            f"simulating about {steps:.1e} lane steps would take too long (the limit is {LANE_STEP_LIMIT:.0e}): "
            f"the evaluator ran the program at {level_of(task.evaluable)} level instead, the kernels did not run"
        )
        _print_kernels(module, {})
        return evaluate(task.evaluable, task.inputs), None
    simulation = simulate(module, task.inputs)
    session.clock.add("simulator", simulation.seconds)
    session.note(f"simulated in {simulation.seconds:.3f} s")
    _print_kernels(module, simulation.counters)
    return simulation.outputs, simulation.findings


def _bench(program: Program, module: ModuleOp, task: _Task, executable: Executable, autotune: bool) -> Benchmark:
    """Time a captured program on the GPU beside PyTorch."""
    assert program.captured is not None

    def wrong(outputs: Sequence[Array]) -> str:
        return next((str(verdict) for verdict in _verdicts(task, outputs) if not verdict.passed), "")

    return importlib.import_module("deplodock.tools.cli_bench").bench(
        program.captured.on("cuda"), executable, wrong, Rates.of(target_of(module)), autotune=autotune
    )


def _counters(session: Session, module: ModuleOp, options: RunOptions) -> tuple[dict[str, dict[str, float]], str]:
    """What ncu measures of each kernel, and why it measured nothing, if so."""
    names = [op.sym_name.data for op in kernel.functions(module)]
    try:
        return ncu.measure(session.text(module, Level.KERNEL), names, limit=options.limit or NCU_LIMIT), ""
    except Error as error:
        return {}, str(error)


def _profile(
    module: ModuleOp, task: _Task, executable: Executable, counters: dict[str, dict[str, float]], reason: str
) -> Profile:
    """Time each kernel of a program on the GPU."""
    cli_profile = importlib.import_module("deplodock.tools.cli_profile")
    kernels = cli_profile.profile(executable, task.inputs, target_of(module), counters)
    return cli_profile.Profile(tuple(kernels), reason)


def _print_kernels(module: ModuleOp, counters: dict[str, Counters]) -> None:
    arch = target_of(module).arch.data
    for function in kernel.functions(module):
        name = function.sym_name.data
        print(
            f"@{name}: {function.num_blocks} blocks of {function.num_threads} threads, "
            f"{shared_bytes(function)} bytes of shared memory, for {arch}"
        )
        if (counts := counters.get(name)) is not None:
            print(
                f"  global memory: {counts.global_bytes_read} bytes read, {counts.global_bytes_written} written; "
                f"barriers: {counts.barriers}"
            )


def _check(task: _Task, outputs: Sequence[Array]) -> bool:
    """Compare the outputs and print each verdict."""
    verdicts = _verdicts(task, outputs)
    for number, verdict in enumerate(verdicts):
        print(f"output {number}: {'right' if verdict.passed else 'WRONG'}: {verdict}")
    return all(verdict.passed for verdict in verdicts)


def _verdicts(task: _Task, outputs: Sequence[Array]) -> list[Verdict]:
    """How each output compares with the reference; none at kernel level, where there is no reference."""
    if task.reference is None or task.eager is None:
        return []
    if len(outputs) != len(task.reference):
        raise Error(f"the program has {len(outputs)} outputs, but {len(task.reference)} are expected")
    return [_verdict(task, position, got) for position, got in enumerate(outputs)]


def _verdict(task: _Task, position: int, got: Array) -> Verdict:
    assert task.reference is not None
    assert task.eager is not None
    known = task.sensitivity
    sensitivity = None if known is None else lambda: known()[position]
    return compare(got, task.reference[position], task.eager[position], task.reduction_extent, sensitivity)


def _compared(task: _Task, right: bool) -> str:
    if task.reference is None:
        return "nothing to compare with at kernel level"
    return f"the result {'agrees with' if right else 'DIFFERS from'} {task.source}"


def _found(findings: Sequence[Finding] | None) -> str:
    if findings is None:
        return "the kernels did not run"
    count = len(findings)
    return f"{count} finding{'s' if count > 1 else ''}" if count else "no findings"
