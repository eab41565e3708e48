"""The space of a kernel: what the heuristics weigh, and what the rules say that their options may be.

The first decision takes one of the schedules that the heuristics weigh; its first value is the one that they choose.
Each of the others leaves a rule out, adds one, or gives an option another of the values that its rule tries. No kind of
kernel has a table of its own: a value is there if, as the only change of the heuristic's schedule, it gives what no
other value gives at tile level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.shape.nest import kernels
from deplodock.passes.driver import Level, StageRun, lower
from deplodock.passes.options import OptionsPass, Value
from deplodock.passes.remarks import collect
from deplodock.passes.tile.rule import RULES
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.schedule.choose.kernels import alternatives
from deplodock.schedule.steps import ATTRIBUTE, Schedule, format_schedule, parse_schedule
from deplodock.tune.edits import difference, edited
from deplodock.tune.lowering import Digests
from deplodock.tune.model import model_of
from deplodock.tune.runs import Call, direct
from deplodock.tune.space import Decision, Point, Space
from deplodock.tune.task import Task, module_of

MOST_WEIGHED = 32
"""The most schedules of the heuristics, those of the least times of their model."""

WIDELY_CHANGED = 4
"""Of how many of those every two changes are in the space from the start; of all others single changes are."""

VALUE = 1.05
"""What another value of an option is taken to cost: the heuristics' are mostly right. Of 173 single values on an H200,
in 14 kernels, half were slower by more than 5.6 percent, and an eighth faster by more than one."""

RULE = 1.3
"""The same for a rule that is added or left out: of 42 half were slower by 40 percent, and one in fourteen faster."""

NEAR = 4
"""By which factor numbers are changed at most, in one step."""

UNKNOWN = 1.1
"""What a schedule that the heuristics weigh without a model is taken to cost beside the one that they choose."""


@dataclass(frozen=True)
class Choices:
    """What there may be to choose for a task, before it is known what has an effect on its kernel."""

    weighed: dict[str, float]
    """The schedules that the heuristics weigh, with their times, the chosen one first."""
    changes: tuple[Decision, ...]
    """The changes of single rules or options of the chosen one."""

    @property
    def base(self) -> Schedule:
        """The schedule that the heuristics choose."""
        return parse_schedule(next(iter(self.weighed)))


def space_of(task: Task, digests: Digests, run: Call = direct) -> Space:
    """The space of a task. It lowers each single change of the heuristic's schedule to tile level, about 100.

    Args:
        task: the task.
        digests: what schedules of the task give at tile level.
        run: what else takes long runs by this, as in another process.

    Raises DiagnosticException where the task has no schedule.
    """
    choices = run(choices_of, task)
    base, weighed = choices.base, list(choices.weighed)
    first = Decision("heuristics", tuple(difference(base, parse_schedule(text)) for text in weighed))
    others = _that_matter(base, choices.changes, digests)
    decisions = (first, *others)
    points = _points(others, len(weighed))
    times = dict(zip(points, run(estimates, task, choices, decisions), strict=True))
    estimate = cache(lambda: _estimate(task, choices, decisions))

    def time(point: Point) -> float:
        if (known := times.get(point)) is None:
            known = times[point] = estimate()(point)
        return known

    return Space(base, decisions, points, time)


def choices_of(task: Task) -> Choices:
    """What there may be to choose for a task. Raises DiagnosticException where it has no schedule."""
    weighed = _weighed(task)
    base = parse_schedule(next(iter(weighed)))
    return Choices(weighed, tuple(_options(base, _effect(task, base))))


def estimates(task: Task, choices: Choices, decisions: Sequence[Decision]) -> list[float]:
    """The nanoseconds that are estimated for the points to start from, in their order."""
    return [*map(_estimate(task, choices, decisions), _points(decisions[1:], len(choices.weighed)))]


def _weighed(task: Task) -> dict[str, float]:
    """The schedules that the heuristics weigh with their times, the chosen one first, the others by their times."""
    module, _ = module_of(task)
    (function,) = kernels(module)
    chosen, *others = alternatives(function).items()
    own = chosen[1] or 1.0
    times = {text: own * UNKNOWN if time is None else time for text, time in others}
    best = sorted(times, key=lambda text: (times[text], text))[: MOST_WEIGHED - 1]
    return {chosen[0]: own, **{text: times[text] for text in best}}


def _options(base: Schedule, effect: Callable[[str], str | None]) -> Iterator[Decision]:
    """All changes of a single rule or option, in the order of the rules; rules are added where that has an effect."""
    for stage in RULES.values():
        rule = stage.load()
        assert issubclass(rule, OptionsPass)
        if rule is TileifyPass:
            continue
        own = [step for step in base if step.rule == rule.name]
        for step in own:
            yield Decision(step.name, ("", f"-{step.name}"))
            for key, option in rule.options().items():
                values = [
                    value for value in option.domain.tried if _is_near(value, step.options.get(key, option.default))
                ]
                yield Decision(f"{step.name}.{key}", ("", *(f"{step.name}.{key}={value}" for value in values)))
        if not own:
            options = rule.options().items()
            changes = [f"{rule.name}.{key}={value}" for key, option in options for value in option.domain.tried]
            effects: dict[str, str] = {}
            for change in (rule.name, *changes):
                if (result := effect(change)) is not None:
                    effects.setdefault(result, change)
            yield Decision(rule.name, ("", *effects.values()))


def _is_near(value: Value, present: Value | None) -> bool:
    """Whether a value is a word, or a number within a factor of `NEAR` of one that there is."""
    if not (isinstance(value, int) and isinstance(present, int)):
        return True
    return present <= value * NEAR and value <= present * NEAR


def _effect(task: Task, base: Schedule) -> Callable[[str], str | None]:
    """What a rule that a schedule leaves out makes of the kernel, given the change that adds it; None if nothing."""
    module, context = module_of(task)
    before: dict[str, ModuleOp] = {}
    order = iter(RULES)

    def keep(_: StageRun, now: ModuleOp) -> None:
        if (name := next(order, None)) is not None:
            before[name] = now.clone()

    lower(module, context, Level.TILE, schedule=format_schedule(base), observer=keep)

    def effect(change: str) -> str | None:
        name = change.partition(".")[0]
        state = before[name].clone()
        for function in kernels(state):
            function.attributes[ATTRIBUTE] = StringAttr(format_schedule(edited(base, [change])))
        try:
            with collect() as remarks:
                RULES[name].load()().apply(context, state)
        except DiagnosticException:
            return None
        for function in kernels(state):
            del function.attributes[ATTRIBUTE]
        return None if remarks else str(state)

    return effect


def _that_matter(base: Schedule, decisions: Sequence[Decision], digests: Digests) -> list[Decision]:
    """The decisions with the values that, each alone, give something of their own at tile level."""
    changes = ["", *(value for decision in decisions for value in decision.values if value)]
    texts = [format_schedule(edited(base, [change])) for change in changes]
    distinct = list(dict.fromkeys(texts))
    found = dict(zip(distinct, digests(distinct), strict=True))
    seen = {"", found[texts[0]]}
    kept: dict[str, bool] = {}
    for change, text in zip(changes[1:], texts[1:], strict=True):
        kept[change] = found[text] not in seen
        seen.add(found[text])
    narrowed = [
        Decision(decision.name, ("", *(value for value in decision.values if value and kept[value])))
        for decision in decisions
    ]
    return [decision for decision in narrowed if len(decision.values) > 1]


def _points(others: Sequence[Decision], weighed: int) -> tuple[Point, ...]:
    """The points of the space to start from: of every schedule none or one change, of the first few also two."""
    changes = [(at, value) for at, decision in enumerate(others, 1) for value in range(1, len(decision.values))]

    def point(first: int, *changed: tuple[int, int]) -> Point:
        values = [first] + [0] * len(others)
        for at, value in changed:
            values[at] = value
        return tuple(values)

    found = [point(first, *changed) for first in range(weighed) for changed in ((), *((one,) for one in changes))]
    found += [
        point(first, one, two)
        for first in range(min(weighed, WIDELY_CHANGED))
        for one, two in combinations(changes, 2)
        if one[0] != two[0]
    ]
    return tuple(found)


def _estimate(task: Task, choices: Choices, decisions: Sequence[Decision]) -> Callable[[Point], float]:
    """The nanoseconds of points, by the model of any schedule where there is one, longer for each change."""
    base, weighed = choices.base, [*choices.weighed.values()]
    named = {step.name for step in base}
    costs = [[_cost(value, named) for value in decision.values] for decision in decisions[1:]]
    model = model_of(task)
    if model is not None and math.isinf(model(base)):
        model = None
    space = Space(base, tuple(decisions), (), lambda point: 0.0)

    def estimate(point: Point) -> float:
        time = weighed[point[0]] if model is None else model(space.steps(point))
        return time * math.prod(cost[value] for cost, value in zip(costs, point[1:], strict=True))

    return estimate


def _cost(change: str, named: Collection[str]) -> float:
    """By how much a change of a schedule of some rules is taken to make a kernel slower."""
    return 1.0 if not change else VALUE if change.partition(".")[0] in named else RULE
