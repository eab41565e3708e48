"""From a schedule of a task to the CUDA text that it gives, or the reason why there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.affine.linear import known_points
from deplodock.analysis.machine.banks import Wavefronts, kernel_wavefronts
from deplodock.analysis.machine.targets import target_of
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel
from deplodock.dialects.tile import Binding
from deplodock.errors import Error
from deplodock.passes.driver import Level, Observer, StageRun, lower
from deplodock.passes.pipeline import RULES, STAGES, Stage
from deplodock.passes.remarks import ExceedsTarget
from deplodock.passes.tile.choose_schedule import filled
from deplodock.passes.tile.rule import read_schedule
from deplodock.runtime.planned import PlannedProgram, planned_program
from deplodock.schedule.choose.kernels import choose, counted
from deplodock.schedule.steps import ATTRIBUTE, Schedule, format_schedule
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


_FIRST, *_, _LAST = (stage for stage in STAGES if stage.letter == "t")
"""The stage before the first rule, and the last one of the tile level."""

_LAST_BOUND = "permute-register-tile"
"""The rule behind which no other one takes threads from a CTA."""

Lower: TypeAlias = Callable[[Sequence[str]], Iterable[Lowered]]
"""Lowers schedules of a task, and yields what they give in their order."""

Digests: TypeAlias = Callable[[Sequence[str]], Iterable[str]]
"""Lowers schedules of a task to tile level, and yields digests of that in their order, empty for what is refused."""


def lower_schedule(task: Task, schedule: str) -> Lowered:
    """Lower a task by a schedule. Needs no GPU."""
    trunk = Trunk(task)
    tiles = trunk.tiles(schedule)
    return tiles if isinstance(tiles, Lowered) else trunk.kernel(tiles)[0]


@dataclass(frozen=True)
class Tiles:
    """A task at tile level, by a schedule, with a digest of its text: where that is equal, so is the CUDA text."""

    schedule: str
    module: ModuleOp
    digest: str


class Trunk:
    """A task at tile level by the heuristics' schedule, as it was behind each rule, where other schedules part from it.

    A rule reads its own steps of a schedule alone (`passes/tile/rule.py`). So what the rules have made before the first
    step that differs is the same.
    """

    def __init__(self, task: Task) -> None:
        """Raises DiagnosticException where the task has no schedule."""
        self._task = task
        self._loops, self._context = module_of(task)
        (self._function,) = kernels(self._loops)
        self._most_threads = target_of(self._loops).fact("threads_per_block")
        self._chosen: dict[str, Schedule] = {}
        self._base = choose(self._function)
        self._behind: dict[Stage, ModuleOp] = {}
        self._grow()

    def tiles(self, schedule: str) -> Tiles | Lowered:
        """The task at tile level by a schedule; why there is none, if the schedule is refused."""
        try:
            given = read_schedule(schedule)
            counts = format_schedule(counted(given))
            if (chosen := self._chosen.get(counts)) is None:
                chosen = self._chosen[counts] = choose(self._function, given)
            module = self._lowered(filled(given, chosen))
        except (DiagnosticException, Error) as error:
            return self._refused(schedule, error)
        for function in kernels(module):
            del function.attributes[ATTRIBUTE]
        return Tiles(schedule, module, _digest(str(module)))

    def kernel(self, tiles: Tiles) -> tuple[Lowered, PlannedProgram | None]:
        """What the task at tile level, which is changed, gives; and what runs of it, None if that is refused."""
        try:
            lower(tiles.module, self._context, Level.KERNEL, after=_LAST)
            program = planned_program(tiles.module)
        except (DiagnosticException, Error) as error:
            return self._refused(tiles.schedule, error), None
        candidate = Candidate(self._task.key, tiles.schedule, _digest(program.text))
        return Lowered(candidate, program.text, conflicts=conflicts_of(tiles.module)), program

    def _lowered(self, schedule: Schedule, observer: Observer | None = None) -> ModuleOp:
        """The task at tile level by a schedule with all its options. Raises what `driver.lower` raises."""
        last, state = _FIRST, self._loops
        for rule in RULES:
            if rule not in self._behind or _steps(schedule, rule) != _steps(self._base, rule):
                break
            last, state = rule, self._behind[rule]
        module = state.clone()
        for function in kernels(module):
            function.attributes[ATTRIBUTE] = StringAttr(format_schedule(schedule))
        lower(module, self._context, Level.TILE, after=last, observer=observer or self._check)
        return module

    def _grow(self) -> None:
        """Keep the task as it is behind each rule of the base. What fails here fails again for what parts later."""
        state = self._loops

        def keep(run: StageRun, now: ModuleOp) -> None:
            nonlocal state
            self._check(run, now)
            if run.stage not in RULES or _steps(self._base, run.stage):
                state = now.clone()
            self._behind[run.stage] = state

        with suppress(DiagnosticException, Error):
            self._lowered(self._base, keep)

    def _check(self, run: StageRun, now: ModuleOp) -> None:
        """Refuse CTAs of too many threads as soon as they are bound: what follows takes minutes for a million."""
        if run.stage.name == _LAST_BOUND:
            for launch in (launch for function in kernels(now) for launch in launches(function)):
                if (threads := known_points(launch.bound_to(Binding.THREAD))) > (most := self._most_threads):
                    raise ExceedsTarget(f"@{self._task.name} has {threads} threads in a CTA, the target allows {most}")

    def _refused(self, schedule: str, error: Exception) -> Lowered:
        return Lowered(Candidate(self._task.key, schedule, ""), "", " ".join(str(error).split()))


def conflicts_of(module: ModuleOp) -> float:
    """The wavefronts that a module at kernel level needs in shared memory, over the fewest for as many lanes."""
    found = [kernel_wavefronts(op) for op in module.walk() if isinstance(op, kernel.FuncOp)]
    total = sum((each for wavefronts in found for each in wavefronts.values()), Wavefronts())
    return total.needed / total.ideal if total.ideal else 1.0


def _steps(schedule: Schedule, rule: Stage) -> Schedule:
    """The steps of a rule."""
    return tuple(step for step in schedule if step.rule == rule.name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def remembering(lower: Lower) -> Lower:
    """A function that lowers each schedule once."""
    known: dict[str, Lowered] = {}

    def lower_new(schedules: Sequence[str]) -> Iterable[Lowered]:
        new = [schedule for schedule in dict.fromkeys(schedules) if schedule not in known]
        known.update(zip(new, lower(new), strict=True))
        return [known[schedule] for schedule in schedules]

    return lower_new
