"""What the scheduling rules share: the walk over kernels, options, and the reason of a skip.

A rule is a pass whose fields are its options, all None by default. An option comes from the pass, else from the
kernel's `deplodock.schedule` attribute, else from the heuristics of `schedule/choose/`. A kernel whose attribute
leaves a rule out is skipped. An option given to the pass that no kernel of the module can take is an error. A rule that
no schedule may name, as one of another package, has the options given to the pass alone, and is left out by none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.shape.nest import kernels, launches, nests
from deplodock.analysis.shape.roles import contraction
from deplodock.dialects import tile
from deplodock.dialects.tile import Memory
from deplodock.passes import pipeline, remarks
from deplodock.schedule.choose.kernels import schedule_of
from deplodock.schedule.steps import ATTRIBUTE, LEFT_OUT, Options, Schedule, completed, parse_schedule

RULES = {stage.name: stage for stage in pipeline.RULES}
"""The rules that a schedule may name, in their order."""


@dataclass(frozen=True)
class Rule(ModulePass):
    """A rule that a schedule may name."""

    after: ClassVar[tuple[str, ...]] = ()
    """The rules that refuse a kernel once this one has changed it, so that it comes after them."""


class Skip(Exception):
    """The rule does not apply to a kernel, for the reason in its text."""


class NothingToDo(Skip):
    """The kernel is as the rule would make it, so options given to the rule are no mistake."""


def apply_rule(rule: ModulePass, module: ModuleOp, rewrite: Callable[[func.FuncOp, Options], None]) -> None:
    """Run `rewrite` on every kernel function with its options; it raises Skip, before any change, where it cannot.

    Raises PassFailedException if an option was given and no kernel takes the rule.
    """
    given = {f.name: value for f in fields(rule) if f.name != "name" and (value := getattr(rule, f.name)) is not None}
    refusals: list[tuple[str, Skip]] = []
    found = kernels(module)
    for function in found:
        symbol = function.sym_name.data
        try:
            rewrite(function, _options(rule, function, given))
        except Skip as skip:
            refusals.append((symbol, skip))
    refused = [(symbol, reason) for symbol, reason in refusals if not isinstance(reason, NothingToDo)]
    if given and len(refused) == len(found):
        options = " ".join(f"{name}={value}" for name, value in given.items())
        reasons = "; ".join(f"@{symbol}: {reason}" for symbol, reason in refusals) or "the module has no kernel"
        raise PassFailedException(f"{rule.name}{{{options}}} applies to no kernel: {reasons}")
    for symbol, reason in refusals:
        remarks.skip(rule.name, symbol, str(reason))


def read_schedule(text: str) -> Schedule:
    """Read a schedule and check its rules and their options.

    Raises:
        VerifyException: it is malformed.
        PassFailedException: it names a rule or an option that there is not.
    """
    schedule = parse_schedule(text)
    try:
        _check_names(schedule)
        for name, options in schedule.items():
            _check_options(RULES[name].load(), options)
    except PassFailedException as error:
        raise PassFailedException(f"the schedule {text!r} {error}") from error
    return schedule


def each_launch(function: func.FuncOp, rewrite: Callable[[tile.LaunchOp], None]) -> None:
    """Run `rewrite` on every launch of a function; if all raise Skip, so does this, first of all for what one lacks."""
    if not (found := launches(function)):
        raise Skip("no launch; run tileify first")
    refusals: list[Skip] = []
    for launch in found:
        try:
            rewrite(launch)
        except Skip as skip:
            refusals.append(skip)
    if len(refusals) == len(found):
        idle = [isinstance(skip, NothingToDo) for skip in refusals]
        reason = refusals[0 if all(idle) else idle.index(False)]
        raise NothingToDo(str(reason)) if any(idle) else reason


def is_mixed(launch: tile.LaunchOp) -> bool:
    """Whether some launches of the function are contractions and some are not, so that its options are for both."""
    function = launch.parent_op()
    assert isinstance(function, func.FuncOp)
    return len({contraction(nest) is None for nest in nests(function)}) > 1


def staged(launch: tile.LaunchOp) -> bool:
    """Whether the launch copies slabs of its inputs on chip."""
    return any(isinstance(op, tile.StageOp | tile.CopyOp) for op in launch.body.walk())


def shared_slabs(launch: tile.LaunchOp) -> list[tile.StageOp]:
    """The slabs that the launch stages in shared memory."""
    stages = [op for op in launch.body.walk() if isinstance(op, tile.StageOp)]
    return [op for op in stages if tile.memory_of(op.slab) is Memory.SHARED]


def folded(launch: tile.LaunchOp) -> list[SSAValue]:
    """The axes that some combine of the launch folds, which no rule may split."""
    return [axis for op in launch.body.walk() if isinstance(op, tile.CombineOp) for axis in op.axes]


def positive(options: Options, name: str, default: int) -> int:
    """An option that must be a positive integer. Raises PassFailedException otherwise."""
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PassFailedException(f"the option {name} must be a positive integer, got {value}")
    return value


def _options(rule: ModulePass, function: func.FuncOp, given: Mapping[str, int | str]) -> Options:
    if rule.name not in RULES:
        return given
    scheduled = schedule_of(function)
    try:
        _check_names(scheduled)
        _check_options(type(rule), scheduled.get(rule.name, {}))
    except PassFailedException as error:
        raise PassFailedException(f"the schedule of @{function.sym_name.data} {error}") from error
    if given:
        return completed(given, scheduled.get(rule.name, {}))
    if rule.name not in scheduled and ATTRIBUTE in function.attributes:
        raise Skip(LEFT_OUT)
    return scheduled.get(rule.name, {})


def _check_names(schedule: Schedule) -> None:
    """Refuse a schedule with a rule that there is none of."""
    for name in schedule:
        if name not in RULES:
            raise PassFailedException(f"names {name}, which is not one of {', '.join(RULES)}")


def _check_options(rule: type[ModulePass], options: Options) -> None:
    """Check the options that a schedule gives a rule as if they were given to the pass."""
    try:
        rule.from_pass_spec(ArgSpec(rule.name, {name: (value,) for name, value in options.items()}))
    except ValueError as error:
        raise PassFailedException(f"gives {rule.name} a bad option: {error}") from error
