"""Changes of schedules as text: `tma-copy double-buffer.depth=4 -pad-smem chunk-matmul-k.kv=`.

A word is a rule that is added without options, one that is left out with all its steps, an option with its value, or an
option that is taken away. Rules may have a target, `blockify-launch(scores).m=64`. Steps stay in the order of the
rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from deplodock.passes.tile.rule import RULES
from deplodock.schedule.steps import Options, RuleStep, Schedule

_ORDER = {name: place for place, name in enumerate(RULES)}


def edited(schedule: Schedule, changes: Iterable[str]) -> Schedule:
    """A schedule with some changes, in their order. Raises KeyError for a rule that there is not."""
    steps = {step.name: step for step in schedule}
    for word in " ".join(changes).split():
        name, _, option = word.removeprefix("-").partition(".")
        rule, _, target = name.removesuffix(")").partition("(")
        if word.startswith("-"):
            steps.pop(name, None)
            continue
        step = steps.get(name, RuleStep(rule, {}, target or None))
        if option:
            key, _, value = option.partition("=")
            options = {other: old for other, old in step.options.items() if other != key}
            step = RuleStep(rule, {**options, **_read(key, value)}, target or None)
        steps[name] = step
    return tuple(sorted(steps.values(), key=lambda step: _ORDER[step.rule]))


def difference(before: Schedule, after: Schedule) -> str:
    """The change that makes one schedule of another."""
    old, new = ({step.name: step for step in schedule} for schedule in (before, after))
    words = [f"-{name}" for name in old if name not in new]
    for name, step in new.items():
        known = old[name].options if name in old else {}
        changed = {key: value for key, value in step.options.items() if known.get(key) != value}
        words += [f"{name}.{key}={value}" for key, value in changed.items()]
        words += [f"{name}.{key}=" for key in known if key not in step.options]
        words += [name] if name not in old and not changed else []
    return " ".join(words)


def _read(key: str, value: str) -> Options:
    """An option with its value; none if the value is empty."""
    return {key: int(value) if value.isdigit() else value} if value else {}
