"""Compares a program on further inputs, and says on which it is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from deplodock.interpreters.simulate import Finding, simulate
from deplodock.runtime.compare import Verdict
from deplodock.runtime.device import Executable
from deplodock.runtime.exact import LARGEST, exact_inputs
from deplodock.runtime.simulated import LANE_STEP_LIMIT, MOST_LANE_STEPS, lane_steps
from deplodock.tools.cli.execute import LoweredProgram
from deplodock.tools.cli.inputs import converts_to_integers, further_inputs, needs_finite
from deplodock.tools.cli.program import Session
from deplodock.tools.cli.task import RunTask


@dataclass(frozen=True)
class Judged:
    """A further set of inputs by its name: why it is not compared, or the verdicts and the findings on it."""

    name: str
    reason: str = ""
    verdicts: Sequence[Verdict] = ()
    findings: Sequence[Finding] = ()

    @property
    def passed(self) -> bool:
        """Whether all outputs are right and nothing is found."""
        return not self.findings and all(verdict.passed for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON types."""
        outcome = "not compared" if self.reason else "right" if self.passed else "wrong"
        return {"inputs": self.name, "outcome": outcome, "reason": self.reason or None}


def judge_on_further_inputs(
    session: Session, lowered: LoweredProgram, task: RunTask, executable: Executable | None, *, is_given: bool
) -> list[Judged]:
    """Compare a program on inputs that show what drawn ones do not: on one set, or on more if text of it is given.

    A program from Python whose results are not exact on that set, or that is too large, is left with the drawn ones.
    """
    if task.module is None or task.source_on is None:
        return []
    is_text = is_given or task.sensitivity is None
    steps = 0 if executable is not None else lane_steps(lowered.module)
    judged: list[Judged] = []
    for number, (name, other_on) in enumerate(_sets(task, session.options.seed, further=is_text), start=2):
        is_large = steps * number > LANE_STEP_LIMIT
        other = "the program is too large to run on further inputs" if is_large else other_on()
        if isinstance(other, str):
            judged += [Judged(name, other)] if is_text else []
            continue
        inputs = other.inputs
        if executable is not None:
            judged.append(Judged(name, "", other.verdicts(executable.run(inputs))))
            continue
        simulation = simulate(lowered.module, inputs, counts=False, most_steps=MOST_LANE_STEPS)
        session.clock.add("simulator", simulation.seconds)
        judged.append(Judged(name, "", other.verdicts(simulation.outputs), simulation.findings))
    return judged


def _sets(task: RunTask, seed: int, *, further: bool) -> Iterator[tuple[str, Callable[[], RunTask | str]]]:
    """The names of sets of inputs, and what makes the task on each, or says why there is none."""
    assert task.module is not None
    name = f"integers from -{LARGEST} to {LARGEST}, on which all is exact"
    yield name, lambda: task.exactly_on(exact_inputs(task.inputs, seed))
    if further:
        finite, large = needs_finite(task.module), not converts_to_integers(task.module)
        for name, inputs in further_inputs(task.inputs, seed, finite=finite or not large, large=large):
            yield name, partial(task.on, inputs)


def print_judged(judged: Sequence[Judged]) -> bool:
    """Print what came out on further inputs; whether all of it is right."""
    right = [each.name for each in judged if not each.reason and each.passed]
    if right:
        print(f"also right on inputs that are {'; '.join(right)}")
    left_out: dict[str, list[str]] = {}
    for each in judged:
        if each.reason:
            left_out.setdefault(each.reason, []).append(each.name)
    for reason, names in left_out.items():
        print(f"not compared on inputs that are {'; '.join(names)}: {reason}")
    wrong = [each for each in judged if not each.reason and not each.passed]
    for each in wrong:
        for number, verdict in enumerate(each.verdicts):
            if not verdict.passed:
                print(f"output {number} on inputs that are {each.name}: WRONG: {verdict}")
        for finding in each.findings:
            print(f"on inputs that are {each.name}: {finding}")
    return not wrong
