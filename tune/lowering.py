"""From a schedule of a task to the CUDA text that it gives, or the reason why there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.codegen.cuda import print_module
from deplodock.errors import Error
from deplodock.passes.driver import Level, lower
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


Lower: TypeAlias = Callable[[Sequence[str]], Iterable[Lowered]]
"""Lowers schedules of a task, and yields what they give in their order."""


def lower_schedule(task: Task, schedule: str) -> Lowered:
    """Lower a task by a schedule. Needs no GPU; workers may call it."""
    try:
        text = print_module(kernel_module(task, schedule))
    except (DiagnosticException, Error) as error:
        reason = " ".join(str(error).split())
        return Lowered(Candidate(task.key, schedule, ""), "", reason)
    code = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Lowered(Candidate(task.key, schedule, code), text)


def kernel_module(task: Task, schedule: str | None) -> ModuleOp:
    """A task at kernel level, by a schedule or the heuristics'. Raises what `driver.lower` raises."""
    module, context = module_of(task)
    lower(module, context, Level.KERNEL, schedule=schedule)
    return module


def remembering(lower: Lower) -> Lower:
    """A function that lowers each schedule once."""
    known: dict[str, Lowered] = {}

    def lower_new(schedules: Sequence[str]) -> Iterable[Lowered]:
        new = [schedule for schedule in dict.fromkeys(schedules) if schedule not in known]
        known.update(zip(new, lower(new), strict=True))
        return [known[schedule] for schedule in schedules]

    return lower_new
