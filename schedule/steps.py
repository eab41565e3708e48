"""The schedule of a kernel: a list of steps, each a rule with options, for all launches or for one.

A schedule is kept on the kernel function in `deplodock.schedule`, as text like a pass pipeline:

    tileify,cooperative-reduce{threads=256 vector=4},stage-inputs
    tileify,blockify-launch{threads=256},blockify-launch(scores){m=64 n=64},register-tile(scores){m=4 n=4}

A step with a target, in parentheses, is for the launches of that label (`analysis/shape/nest.py`); a step without one
is for all launches that no other step of its rule is for. Rules run in the order of `passes/pipeline.py`, which is one
that they allow. `schedule/choose/` holds the heuristics that choose a schedule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, VerifyException

ATTRIBUTE = "deplodock.schedule"

LEFT_OUT = "the kernel's schedule leaves it out"
"""Why a rule skips a kernel, or a launch, that no step of its schedule is for."""

Options = Mapping[str, int | str]

_COMMA = re.compile(r",(?![^{]*\})")
"""A comma between steps, not between values."""

_TARGETED = re.compile(r"([\w-]+)\((\w+)\)(.*)")


@dataclass(frozen=True)
class RuleStep:
    """One rule with its options, for the launch that is called `target`, or for all."""

    rule: str
    options: Options
    target: str | None = None

    @property
    def name(self) -> str:
        """The rule with its target, which no other step of a schedule has."""
        return self.rule if self.target is None else f"{self.rule}({self.target})"

    def __str__(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}{{{options}}}" if options else self.name


Schedule = tuple[RuleStep, ...]


def steps(rules: Mapping[str, Options]) -> Schedule:
    """A schedule of rules with their options for all launches."""
    return tuple(RuleStep(rule, options) for rule, options in rules.items())


def options_for_all(schedule: Schedule, rule: str) -> Options:
    """The options of a rule's step without a target; none if it has no such step."""
    none: Options = {}
    return next((step.options for step in schedule if step.rule == rule and step.target is None), none)


@lru_cache(maxsize=64)
def parse_schedule(text: str) -> Schedule:
    """Read a schedule, of rules with scalar options. Raises VerifyException with the text where it is malformed."""
    schedule: list[RuleStep] = []
    for part in _COMMA.split(text.removesuffix(",")) if text else ():
        found = _TARGETED.fullmatch(part)
        step = _step(text, part, None) if found is None else _step(text, found[1] + found[3], found[2])
        if any(step.name == other.name for other in schedule):
            raise VerifyException(f"schedule {text!r} names {step.name} twice")
        schedule.append(step)
    return tuple(schedule)


def _step(text: str, part: str, target: str | None) -> RuleStep:
    """One step of a schedule's text, from what is left of it without its target."""
    try:
        specs = list(parse_pipeline(part)) or [ArgSpec("", {})]
    except (ArgSpecParseError, ValueError) as error:
        # A ValueError is of a number of thousands of digits.
        raise VerifyException(f"malformed schedule {text!r}: {error}") from error
    if len(specs) > 1 or not specs[0].name:
        raise VerifyException(f"malformed schedule {text!r}: {part!r} is no step; a step is rule(target){{options}}")
    options: dict[str, int | str] = {}
    for name, values in specs[0].normalize_parameter_names().parameters.items():
        if len(values) != 1 or not isinstance(values[0], int | str):
            raise VerifyException(f"schedule {text!r}: the option {name} of {specs[0].name} takes one integer or word")
        options[name] = values[0]
    return RuleStep(specs[0].name, options, target)


def format_schedule(schedule: Schedule) -> str:
    """The text of a schedule."""
    return ",".join(map(str, schedule))


def completed(given: Options, chosen: Options) -> Options:
    """The given options of a rule, with those that they leave out as chosen.

    But for the occupancy: how many CTAs fit on an SM depends on all rules together.
    """
    merged = {**chosen, **given}
    return {name: value for name, value in merged.items() if name != "occupancy" or name in given}
