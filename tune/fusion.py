"""Tunes which tensor operations share a kernel: above the schedules of kernels, since their borders decide more.

A point is a set of decisions that differ from those of the cost model, as text (`passes/tensor/decisions.py`); the
first one is empty. Its time is the sum over its launches of the times of its kernels by the heuristics' schedules, each
kernel measured once, whatever points have it. So what most points cost is the two or three kernels that they alone
have. Points of the same kernels are one. The cost model's kernels are left only for what takes less than `WORTH` of
their time.

The outcome depends on the measurements alone, and on what the budget allows of them: points are asked for and told in a
fixed order, and kernels are measured in the order in which they come up.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp, StringAttr

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level, StageRun, lower, new_context
from deplodock.passes.pipeline import STAGES
from deplodock.passes.tensor.decisions import DECISIONS
from deplodock.passes.tensor.form_kernels import alternatives, functions_on_tensors
from deplodock.runtime.tuned import FusionEntry
from deplodock.tune.parts import TunedPart, parts_of
from deplodock.tune.search.moves import GreedyStrategy
from deplodock.tune.space import Decision, Point, Space
from deplodock.tune.tuning import WORTH, Budget

MOST_DECISIONS = 64
"""The most decisions that are tried alone, those that the cost model minds least."""

BATCH = 8
"""Points that are lowered together."""

_LAST = STAGES[next(place for place, stage in enumerate(STAGES) if stage.name == "form-kernels") - 1]
"""The stage before kernels are formed."""

Group: TypeAlias = Callable[[Sequence[str]], Iterable[Sequence[TunedPart] | str]]
"""The kernels that decisions give, or why there are none, in the order of the texts."""

MeasureParts: TypeAlias = Callable[[Sequence[TunedPart]], Mapping[str, float | str]]
"""Measures kernels by the heuristics' schedules: microseconds by their keys, or why there is no time."""


@dataclass(frozen=True)
class Fusions:
    """A program on tensors, and what there is to decide."""

    text: str
    """The module before kernels are formed."""
    name: str
    """That of its function."""
    key: str
    """The key of its function (`passes/tensor/decisions.py`)."""
    added: Mapping[str, float]
    """Decisions, each with the nanoseconds that the cost model expects it to add."""

    @property
    def space(self) -> Space:
        """The decisions, those first that the cost model minds least."""
        ordered = sorted(self.added, key=lambda text: (self.added[text], text))[:MOST_DECISIONS]
        values: dict[str, list[str]] = {}
        for text in ordered:
            values.setdefault(text.partition("=")[0], []).append(text)
        decisions = tuple(Decision(label, ("", *texts)) for label, texts in values.items())

        def estimate(point: Point) -> float:
            taken = [decision.values[place] for decision, place in zip(decisions, point, strict=True)]
            return sum(self.added[text] for text in taken if text)

        return Space((), decisions, ((0,) * len(decisions),), estimate)


@dataclass(frozen=True)
class FusionOutcome:
    """What tuning fusion found: the decisions to take, empty where the cost model's are not clearly beaten."""

    fusions: Fusions
    decisions: str
    parts: Sequence[TunedPart]
    """The kernels that these decisions give."""
    us: float
    """Microseconds of all their launches."""
    heuristic_us: float
    """The same of the cost model's kernels."""
    measured: int
    """Sets of kernels whose time is known, the cost model's among them."""
    spent: int
    """Kernels that were measured beside those of the cost model."""
    remarks: tuple[str, ...] = ()
    """Decisions that give no program, or one without a time, and why."""

    @property
    def gain(self) -> float:
        """The time of the cost model's kernels over that of those to take."""
        return self.heuristic_us / self.us

    def entry(self, card: str, what: str) -> FusionEntry:
        """The line of a file; `what` names the program for readers."""
        kernels = digest(self.parts)
        return FusionEntry(
            self.fusions.key, what, card, self.decisions, kernels, self.us, self.heuristic_us, self.measured
        )


def fusions_of(text: str) -> Fusions:
    """What there is to decide of a program, whose text states its target and has no kernels yet.

    Raises InvalidInputError unless it has one function on tensors, and what lowering raises.
    """
    context = new_context()
    module = FloatLiteralsParser(context, text).parse_module()
    states: list[ModuleOp] = []

    def keep(run: StageRun, now: ModuleOp) -> None:
        if run.stage == _LAST:
            states.append(now.clone())

    lower(module, context, Level.TENSOR, observer=keep)
    functions = functions_on_tensors(states[0]) if states else []
    if len(functions) != 1:
        raise InvalidInputError(f"it has {len(functions)} functions on tensors without kernels, and one is tuned")
    text, (function,) = str(states[0]), functions
    return Fusions(text, function.sym_name.data, *alternatives(function))


def grouped(fusions: Fusions, decisions: str, known: Mapping[str, str]) -> list[TunedPart]:
    """The kernels that decisions give; `known` are heuristics' schedules by keys. Raises what lowering raises."""
    context = new_context()
    module = FloatLiteralsParser(context, fusions.text).parse_module()
    for function in functions_on_tensors(module):
        function.attributes[DECISIONS] = StringAttr(decisions)
    lower(module, context, Level.LOOP, after=_LAST)
    return parts_of(module, known)


def digest(parts: Iterable[TunedPart]) -> str:
    """A digest of the keys of kernels, each with its launches."""
    text = " ".join(sorted(f"{part.task.key}x{part.count}" for part in parts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tune_fusion(
    fusions: Fusions, base: Sequence[TunedPart], group: Group, measure: MeasureParts, budget: Budget, seed: int = 0
) -> FusionOutcome:
    """Search decisions of fusion for the kernels that take the least time together.

    Args:
        fusions: the program.
        base: the cost model's kernels.
        group: lowers decisions to kernels.
        measure: measures kernels.
        budget: the measurements, or the seconds, of kernels beside those of `base`.
        seed: that of the strategy.

    Raises InvalidInputError if a kernel of the cost model has no time.
    """
    run = _FusionSearch(fusions.space, group, measure, budget.measurements or math.inf)
    strategy = GreedyStrategy(run.space, seed, budget.measurements or 0)
    (start,) = strategy.ask(1)
    run.parts[start] = base
    run.time(base, math.inf)
    strategy.tell(start, run.add(start))
    if start not in run.sums:
        raise InvalidInputError(f"the cost model's kernels have no time: {'; '.join(run.remarks)}")
    run.spent = 0
    end = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
    while points := strategy.ask(BATCH):
        left = run.most - run.spent if time.monotonic() < end else 0
        found = run.measured(points, left)
        for point, us in found:
            strategy.tell(point, us)
        if left <= 0 and all(us is None for _, us in found):
            break  # What is of known kernels costs nothing, as decisions that pay alone taken together.
    best = min(run.sums, key=run.sums.__getitem__)
    chosen = best if run.sums[best] < WORTH * run.sums[start] else start
    count = len({digest(run.parts[point]) for point in run.sums})
    us, usual = run.sums[chosen], run.sums[start]
    return FusionOutcome(fusions, run.text(chosen), run.parts[chosen], us, usual, count, run.spent, tuple(run.remarks))


@dataclass
class _FusionSearch:
    """The state of a search."""

    space: Space
    group: Group
    measure: MeasureParts
    most: float
    spent: int = 0
    """Kernels that were measured, those without a time aside."""
    times: dict[str, float | str] = field(default_factory=dict[str, "float | str"])
    parts: dict[Point, Sequence[TunedPart]] = field(default_factory=dict[Point, Sequence[TunedPart]])
    sums: dict[Point, float] = field(default_factory=dict[Point, float])
    """Microseconds, in the order in which points were asked for."""
    remarks: list[str] = field(default_factory=list[str])

    def text(self, point: Point) -> str:
        """The decisions of a point."""
        return " ".join(self.space.changes(point))

    def measured(self, points: Sequence[Point], most: float) -> list[tuple[Point, float | None]]:
        """Points with their times, where those are known when at most so many kernels more are measured."""
        texts = [self.text(point) for point in points]
        for point, text, found in zip(points, texts, self.group(texts), strict=True):
            if isinstance(found, str):
                self.remarks.append(f"refused: {text}: {found}")
            else:
                self.parts[point] = found
        self.time([part for point in points for part in self.parts.get(point, ())], most)
        return [(point, self.add(point)) for point in points]

    def time(self, parts: Iterable[TunedPart], most: float) -> None:
        """Measure at most so many of some kernels, those whose time is not known."""
        new = {part.task.key: part for part in parts if part.task.key not in self.times}
        found = self.measure([*new.values()][: len(new) if most == math.inf else int(most)])
        self.times |= found
        self.spent += sum(not isinstance(us, str) for us in found.values())

    def add(self, point: Point) -> float | None:
        """The time of a point, if those of all its kernels are known."""
        parts = self.parts.get(point, ())
        found = [(part, self.times[part.task.key]) for part in parts if part.task.key in self.times]
        failed = [f"@{part.task.name}: {us}" for part, us in found if isinstance(us, str)]
        if failed:
            self.remarks.append(f"no time: {self.text(point)}: {', '.join(failed)}")
        if failed or not parts or len(found) < len(parts):
            return None
        self.sums[point] = sum(part.count * us for part, us in found if not isinstance(us, str))
        return self.sums[point]
