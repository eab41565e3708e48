"""From a schedule of a task to the CUDA text that it gives, or the reason why there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.machine.banks import Wavefronts, kernel_wavefronts
from deplodock.analysis.machine.targets import target_of
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel
from deplodock.dialects.tile import Binding
from deplodock.errors import Error
from deplodock.passes.driver import Level, StageRun, lower
from deplodock.passes.failures import ExceedsTarget
from deplodock.runtime.planned import PlannedProgram, planned_program
from deplodock.tune.candidate import Candidate
from deplodock.tune.task import Task, module_of


@dataclass(frozen=True)
class Lowered:
    """What a schedule of a task gives."""

    candidate: Candidate
    """Its `code` is empty if the schedule is refused."""
    cuda: str
    """The CUDA text, empty if the schedule is refused."""
    refusal: str = ""
    """Why the rules or the limits of the target do not take the schedule, in one line."""
    conflicts: float = 1.0
    """The wavefronts of its accesses to shared memory, over the fewest for as many lanes."""


_LAST_BOUND = "permute-register-tile"
"""The rule behind which no other one takes threads from a CTA."""

Lower: TypeAlias = Callable[[Sequence[str]], Iterable[Lowered]]
"""Lowers schedules of a task, and yields what they give in their order."""


def lower_schedule(task: Task, schedule: str) -> Lowered:
    """Lower a task by a schedule. Needs no GPU; workers may call it."""
    return lower_planned(task, schedule)[0]


def lower_planned(task: Task, schedule: str) -> tuple[Lowered, PlannedProgram | None]:
    """`lower_schedule`, and what runs of it, None if the schedule is refused."""
    try:
        module = kernel_module(task, schedule)
        program = planned_program(module)
    except (DiagnosticException, Error) as error:
        reason = " ".join(str(error).split())
        return Lowered(Candidate(task.key, schedule, ""), "", reason), None
    code = hashlib.sha256(program.text.encode()).hexdigest()[:16]
    return Lowered(Candidate(task.key, schedule, code), program.text, conflicts=conflicts_of(module)), program


def conflicts_of(module: ModuleOp) -> float:
    """The wavefronts that a module at kernel level needs in shared memory, over the fewest for as many lanes."""
    found = [kernel_wavefronts(op) for op in module.walk() if isinstance(op, kernel.FuncOp)]
    total = sum((each for wavefronts in found for each in wavefronts.values()), Wavefronts())
    return total.needed / total.ideal if total.ideal else 1.0


def kernel_module(task: Task, schedule: str | None) -> ModuleOp:
    """A task at kernel level, by a schedule or the heuristics'. Raises what `driver.lower` raises.

    CTAs of too many threads are refused as soon as the rules have bound them: what follows takes minutes for a million.
    """
    module, context = module_of(task)
    most = target_of(module).fact("threads_per_block")

    def check(run: StageRun, now: ModuleOp) -> None:
        if run.stage.name == _LAST_BOUND:
            for launch in (launch for function in kernels(now) for launch in launches(function)):
                if (threads := known_points(launch.bound_to(Binding.THREAD))) > most:
                    raise ExceedsTarget(f"@{task.name} has {threads} threads in a CTA, the target allows {most}")

    lower(module, context, Level.KERNEL, schedule=schedule, observer=check)
    return module


def remembering(lower: Lower) -> Lower:
    """A function that lowers each schedule once."""
    known: dict[str, Lowered] = {}

    def lower_new(schedules: Sequence[str]) -> Iterable[Lowered]:
        new = [schedule for schedule in dict.fromkeys(schedules) if schedule not in known]
        known.update(zip(new, lower(new), strict=True))
        return [known[schedule] for schedule in schedules]

    return lower_new
