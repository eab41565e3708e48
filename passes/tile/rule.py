"""What the scheduling rules share: the walk over kernels, options, and the reason of a skip.

A rule is a pass whose fields are its options, all None by default. An option comes from the pass, else from the
kernel's `deplodock.schedule` attribute, else from the heuristic of `analysis/schedule.py`. A kernel whose attribute
leaves a rule out is skipped. An option given to the pass that no kernel of the module can take is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.nest import kernels, launches
from deplodock.analysis.schedule import ATTRIBUTE, Options, Schedule, schedule_of
from deplodock.dialects import tile
from deplodock.passes import remarks
from deplodock.passes.pipeline import STAGES


class Skip(Exception):
    """The rule does not apply to a kernel, for the reason in its text."""


def apply_rule(rule: ModulePass, module: ModuleOp, rewrite: Callable[[func.FuncOp, Options], None]) -> None:
    """Run `rewrite` on every kernel function with its options; it raises Skip, before any change, where it cannot.

    Raises PassFailedException if an option was given and no kernel takes the rule.
    """
    given = {f.name: value for f in fields(rule) if f.name != "name" and (value := getattr(rule, f.name)) is not None}
    refusals: list[tuple[str, str]] = []
    found = kernels(module)
    for function in found:
        symbol = function.sym_name.data
        try:
            rewrite(function, _options(rule, function, given))
        except Skip as skip:
            refusals.append((symbol, str(skip)))
    if given and len(refusals) == len(found):
        options = " ".join(f"{name}={value}" for name, value in given.items())
        reasons = "; ".join(f"@{symbol}: {reason}" for symbol, reason in refusals) or "the module has no kernel"
        raise PassFailedException(f"{rule.name}{{{options}}} applies to no kernel: {reasons}")
    for symbol, reason in refusals:
        remarks.skip(rule.name, symbol, reason)


def each_launch(function: func.FuncOp, rewrite: Callable[[tile.LaunchOp], None]) -> None:
    """Run `rewrite` on every launch of a function; Skip with the first reason if all of them raise Skip."""
    if not (found := launches(function)):
        raise Skip("no launch; run tileify first")
    refusals: list[str] = []
    for launch in found:
        try:
            rewrite(launch)
        except Skip as skip:
            refusals.append(str(skip))
    if len(refusals) == len(found):
        raise Skip(refusals[0])


def staged(launch: tile.LaunchOp) -> bool:
    """Whether the launch copies slabs of its inputs on chip."""
    return any(isinstance(op, tile.StageOp | tile.CopyOp) for op in launch.body.walk())


def positive(options: Options, name: str, default: int) -> int:
    """An option that must be a positive integer. Raises PassFailedException otherwise."""
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PassFailedException(f"the option {name} must be a positive integer, got {value}")
    return value


def _options(rule: ModulePass, function: func.FuncOp, given: Mapping[str, int | str]) -> Options:
    scheduled = schedule_of(function)
    _check_schedule(rule, function.sym_name.data, scheduled)
    if given:
        return {**scheduled.get(rule.name, {}), **given}
    if rule.name not in scheduled and ATTRIBUTE in function.attributes:
        raise Skip("the kernel's schedule leaves it out")
    return scheduled.get(rule.name, {})


def _check_schedule(rule: ModulePass, symbol: str, schedule: Schedule) -> None:
    """Check the names of a schedule's rules, and the options it gives this one as if they were given to the pass."""
    rules = [stage.name for stage in STAGES if stage.letter == "t"]
    if (unknown := next((name for name in schedule if name not in rules), None)) is not None:
        raise PassFailedException(f"the schedule of @{symbol} names {unknown}, which is not one of {', '.join(rules)}")
    options = {name: (value,) for name, value in schedule.get(rule.name, {}).items()}
    try:
        type(rule).from_pass_spec(ArgSpec(rule.name, dict(options)))
    except ValueError as error:
        raise PassFailedException(f"the schedule of @{symbol} gives {rule.name} a bad option: {error}") from error
