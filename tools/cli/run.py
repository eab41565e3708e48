"""What `deplodock run` does with a program: simulates it, compares it, and reports."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.host.arguments import checks, entry_function
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import target_of
from deplodock.dialects import kernel
from deplodock.errors import Error
from deplodock.interpreters.simulate import Finding
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level
from deplodock.runtime import ncu, nvcc
from deplodock.runtime.compare import Verdict
from deplodock.runtime.device import Executable
from deplodock.runtime.sampled import KernelRun
from deplodock.tools.cli.execute import Execution, lower_program, print_kernels, run_on_gpu, simulate_program
from deplodock.tools.cli.further import Judged, judge_on_further_inputs, print_judged
from deplodock.tools.cli.program import Program, Session
from deplodock.tools.cli.task import RunTask, make_task
from deplodock.tools.watchdog import limited

if TYPE_CHECKING:
    from deplodock.tools.cli.bench import Benchmark
    from deplodock.tools.cli.profile import Profile

NCU_LIMIT = 300.0
"""The seconds that ncu may take where nothing else is said."""


@dataclass(frozen=True)
class RunOptions:
    """Where `deplodock run` runs a program (`cuda` or `sim`), and what it reports besides the result.

    `modes` are those in which torch.compile is timed, too. `limit` is the seconds that nvcc may take, and those that
    the GPU may take for the run and for what is measured.
    """

    device: str = "sim"
    bench: bool = False
    modes: tuple[str, ...] = ("default",)
    profile: bool = False
    json: bool = False
    limit: float | None = None


class RunOutcome(Enum):
    """How a run ends: its word in the last line, and the exit code."""

    PASSED = "passed"
    FAILED = "FAILED"
    NOT_RUN = "not run"

    @property
    def code(self) -> int:
        """The exit code of the command; 2 is that of a wrong command line."""
        return {RunOutcome.PASSED: 0, RunOutcome.FAILED: 1, RunOutcome.NOT_RUN: 3}[self]


@dataclass(frozen=True)
class _RunReport:
    """Whether a program is right, what it was compared with, the CTAs of each kernel that ran, and what was measured.

    `compiled` and `lowered` are those of the session.
    """

    outcome: RunOutcome
    compared: str | None
    kernels: list[KernelRun]
    further: list[Judged]
    compiled: int
    lowered: int
    bench: Benchmark | None
    profile: Profile | None

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON types."""
        return {
            "passed": self.outcome is RunOutcome.PASSED,
            "outcome": self.outcome.value.lower(),
            "compared": self.compared,
            "kernels": [
                {"name": run.name, "ctas_run": run.ran, "ctas": run.total, "reason": run.reason or None}
                for run in self.kernels
            ],
            "further": [each.as_json() for each in self.further],
            "compiled": self.compiled,
            "lowered": self.lowered,
            "bench": None if self.bench is None else self.bench.as_json(),
            "profile": None if self.profile is None else self.profile.as_json(),
        }


def run(
    session: Session,
    program: Program,
    ir: Level | None,
    replacement: str | None,
    options: RunOptions = RunOptions(),
) -> RunOutcome:
    """Run a program and print the report; it passes if it is right and the simulator finds nothing.

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
        return report.outcome
    report = _run(session, program, ir, replacement, options)
    for part in (report.bench, report.profile):
        if part is not None:
            print("\n".join(part.lines()))
    return report.outcome


def _run(
    session: Session, program: Program, ir: Level | None, replacement: str | None, options: RunOptions
) -> _RunReport:
    module = program.module
    task = make_task(session, program, options.device)
    if replacement is not None:
        module = session.read_module(replacement)
    lowered = lower_program(session, module, ir)
    if lowered.text is not None and ir is not None:
        session.write(lowered.text, ir)
        if ir is Level.CUDA:
            session.report_nvcc(lowered.text, module)
    executable = _compile(session, module, options.limit) if options.device == "cuda" else None
    with _limited(module, options):
        execution = (
            simulate_program(session, lowered, task)
            if executable is None
            else run_on_gpu(session, module, task, executable)
        )
    verdicts = [] if execution.outputs is None else task.verdicts(execution.outputs)
    judged: list[Judged] = []
    if not execution.findings and all(verdict.passed for verdict in verdicts):
        with _limited(module, options):
            judged = judge_on_further_inputs(session, lowered, task, executable, is_given=replacement is not None)
    outcome = _judge(module, task, execution, verdicts, judged)
    session.compiled += 0 if executable is None else int(executable.cubin.is_new)
    bench, profile = None, None
    if executable is not None and outcome is RunOutcome.PASSED:
        bench, profile = _measure(session, program, module, task, executable, options)
    session.finish(module)
    compared = None if task.reference is None else task.source
    return _RunReport(outcome, compared, execution.kernels, judged, session.compiled, session.lowered, bench, profile)


def _judge(
    module: ModuleOp, task: RunTask, execution: Execution, verdicts: Sequence[Verdict], judged: Sequence[Judged]
) -> RunOutcome:
    """Print the kernels, the verdicts, the findings and the last line."""
    print_kernels(module, execution)
    right = _check(verdicts, execution)
    right = print_judged(judged) and right
    for finding in execution.findings:
        print(finding)
    outputs = execution.outputs
    asserted = checks(entry_function(module)).items() if outputs is not None else ()
    failed = [message for number, message in asserted if outputs is not None and not outputs[number]]
    for message in failed:
        print(f"check failed: {message}")
    is_failure = not right or bool(execution.findings) or bool(failed)
    missed = [run.name for run in execution.kernels if not run.ran and run.total]
    outcome = RunOutcome.FAILED if is_failure else RunOutcome.NOT_RUN if missed else RunOutcome.PASSED
    print(f"{outcome.value}: {_compared(task, right)}, {_found(execution.findings)}{_ran(execution.kernels)}")
    return outcome


def _measure(
    session: Session, program: Program, module: ModuleOp, task: RunTask, executable: Executable, options: RunOptions
) -> tuple[Benchmark | None, Profile | None]:
    """Measure a right program on the GPU, as far as the options ask for it."""
    counters, reason = _counters(session, module, options) if options.profile else ({}, "")
    with _limited(module, options):
        bench = _bench(program, module, task, executable, options.modes) if options.bench else None
        profile = _profile(module, task, executable, counters, reason) if options.profile else None
    return bench, profile


def _limited(module: ModuleOp, options: RunOptions) -> contextlib.AbstractContextManager[None]:
    """End the process if the GPU takes too long."""
    if options.device != "cuda" or options.limit is None:
        return contextlib.nullcontext()
    kernels = ", ".join(f"@{op.sym_name.data}" for op in kernel.functions(module))
    return limited(options.limit, f"{kernels} on the GPU; `run --device sim` finds waits that never end")


def _compile(session: Session, module: ModuleOp, limit: float | None) -> Executable:
    """Compile a program for the GPU, in at most `limit` seconds, and load it."""
    with session.clock.part("nvcc"):
        return Executable(module, limit=limit or nvcc.LIMIT)


def _bench(
    program: Program, module: ModuleOp, task: RunTask, executable: Executable, modes: Sequence[str]
) -> Benchmark:
    """Time a captured program on the GPU beside PyTorch."""
    assert program.captured is not None

    def wrong(outputs: Sequence[Array]) -> str:
        return next((str(verdict) for verdict in task.verdicts(outputs) if not verdict.passed), "")

    from deplodock.tools.cli.bench import bench

    captured, rates = program.captured.on("cuda"), Rates.of(target_of(module))
    return bench(captured, executable, wrong, rates, modes=modes, precision=task.precision)


def _counters(session: Session, module: ModuleOp, options: RunOptions) -> tuple[dict[str, dict[str, float]], str]:
    """What ncu measures of each kernel, and why it measured nothing, if so."""
    names = [op.sym_name.data for op in kernel.functions(module)]
    try:
        return ncu.measure(session.text(module, Level.KERNEL), names, limit=options.limit or NCU_LIMIT), ""
    except Error as error:
        return {}, str(error)


def _profile(
    module: ModuleOp, task: RunTask, executable: Executable, counters: dict[str, dict[str, float]], reason: str
) -> Profile:
    """Time each kernel of a program on the GPU."""
    from deplodock.tools.cli.profile import Profile, profile

    return Profile(tuple(profile(executable, task.inputs, target_of(module), counters)), reason)


def _check(verdicts: Sequence[Verdict], execution: Execution) -> bool:
    """Print the verdict on each output; whether they and what each kernel wrote are right."""
    where = ", of the evaluated loop IR" if execution.evaluated else ""
    for number, verdict in enumerate(verdicts):
        print(f"output {number}{where}: {'right' if verdict.passed else 'WRONG'}: {verdict}")
    written = [run.verdict for run in execution.kernels if run.verdict is not None]
    return all(verdict.passed for verdict in (*verdicts, *written))


def _compared(task: RunTask, right: bool) -> str:
    if task.reference is None:
        return "nothing to compare with at kernel level"
    return f"the result {'agrees with' if right else 'DIFFERS from'} {task.source}"


def _found(findings: Sequence[Finding]) -> str:
    count = len(findings)
    return f"{count} finding{'s' if count > 1 else ''}" if count else "no findings"


def _ran(kernels: Sequence[KernelRun]) -> str:
    """How many CTAs ran, where not all did."""
    ran, total = sum(run.ran for run in kernels), sum(run.total for run in kernels)
    missed = [f"@{run.name}" for run in kernels if not run.ran and run.total]
    if ran == total:
        return ""
    return f"; {ran} of {total} CTAs ran" + (f", none of {', '.join(missed)}" if missed else "")
