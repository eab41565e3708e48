"""What the scheduling rules share: the walk over kernels and launches, options, and the reason of a skip.

A rule is a pass whose fields are its options (`passes/options.py`). An option comes from the pass, else from the
kernel's `deplodock.schedule` attribute, else from the heuristics of `schedule/choose/`. A kernel whose attribute
leaves a rule out is skipped, and so is a launch that no step of the rule is for. An option given to the pass that no
kernel of the module can take is an error. A rule that no schedule may name, as one of another package, has the options
given to the pass alone, and is left out by none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.shape.labels import labels
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import tile
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.tile import Memory
from deplodock.passes import pipeline, remarks
from deplodock.passes.options import Kind, OptionsPass
from deplodock.schedule.choose.kernels import schedule_of
from deplodock.schedule.steps import (
    ATTRIBUTE,
    LEFT_OUT,
    Options,
    RuleStep,
    Schedule,
    completed,
    options_for_all,
    parse_schedule,
    steps,
)

RULES = {stage.name: stage for stage in pipeline.RULES}
"""The rules that a schedule may name, in their order."""


Target = TypeVar("Target")
"""What a rule changes in a launch, such as a slab."""


class Skip(Exception):
    """The rule does not apply to a kernel, for the reason in its text."""


class NothingToDo(Skip):
    """The kernel is as the rule would make it, so options given to the rule are no mistake."""


@dataclass(frozen=True)
class Rule(OptionsPass):
    """A pass that rewrites kernel functions, each with options of its own."""

    @abstractmethod
    def rewrite(self, function: func.FuncOp, schedule: Schedule) -> None:
        """Rewrite a kernel function by the steps of this rule; raise Skip, before any change, where it cannot."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of a module.

        Raises PassFailedException if an option was given and no kernel takes the rule, if no kernel has the target of a
        step, or if two steps are for one launch.
        """
        given = self.given()
        scheduled = {function: _steps(self, function, given) for function in kernels(op)}
        _check_targets(scheduled)
        refusals: list[tuple[str, Skip]] = []
        for function, schedule in scheduled.items():
            try:
                if not schedule:
                    raise Skip(LEFT_OUT)
                self.rewrite(function, schedule)
            except Skip as skip:
                refusals.append((function.sym_name.data, skip))
        refused = [(symbol, reason) for symbol, reason in refusals if not isinstance(reason, NothingToDo)]
        if given and len(refused) == len(scheduled):
            options = " ".join(f"{name}={value}" for name, value in given.items())
            reasons = "; ".join(f"@{symbol}: {reason}" for symbol, reason in refusals) or "the module has no kernel"
            raise PassFailedException(f"{self.name}{{{options}}} applies to no kernel: {reasons}")
        for symbol, reason in refusals:
            remarks.skip(self.name, symbol, str(reason))


@dataclass(frozen=True)
class LaunchRule(Rule):
    """A rule that rewrites each launch of a kernel by itself."""

    @abstractmethod
    def rewrite_launch(self, launch: tile.LaunchOp) -> None:
        """Rewrite a launch by the options of this pass, which has them all; raise Skip where the rule cannot."""

    def rewrite(self, function: func.FuncOp, schedule: Schedule) -> None:
        """Rewrite every launch of a function; if all raise Skip, so does this, first of all for what one lacks."""
        if not (found := launches(function)):
            raise Skip("no launch; run tileify first")
        chosen = _step_of_each(function, schedule)
        has_kinds = any(self.options()[name].kind is not None for step in schedule for name in step.options)
        kinds = {launch: kind_of(launch) for launch in found} if has_kinds else {}
        refusals: list[Skip] = []
        for launch in found:
            try:
                if (step := chosen[launch]) is None:
                    raise NothingToDo(LEFT_OUT)
                options = step.options
                if has_kinds:
                    present = {kinds[other] for other in found if chosen[other] is step}
                    options = self._suited(options, kinds[launch], present)
                self.with_defaults(options).rewrite_launch(launch)
            except Skip as skip:
                refusals.append(skip)
        if len(refusals) == len(found):
            idle = [isinstance(skip, NothingToDo) for skip in refusals]
            reason = refusals[0 if all(idle) else idle.index(False)]
            raise NothingToDo(str(reason)) if any(idle) else reason

    def _suited(self, options: Options, kind: Kind, present: Collection[Kind]) -> Options:
        """The options for a kind of launch, in a kernel that has launches of some kinds.

        Where options of both kinds are given, those of no kind are for contractions. Raises Skip if all are for the
        other kind, or if the kernel has no launch of that.
        """
        kinds = {name: option.kind for name, option in self.options().items()}
        own, others = ([name for name in options if kinds[name] is one] for one in (kind, kind.other))
        if not others:
            return options
        if not own or kind.other not in present:
            which, has = ("contractions", "none") if kind is Kind.OTHER else ("launches without a contraction", "one")
            names, fitting = ", ".join(others), ", ".join(name for name in kinds if kinds[name] is kind)
            verb = "is" if len(others) == 1 else "are"
            raise Skip(f"{names} {verb} for {which}, and the launch has {has}; give {fitting}")
        return {name: value for name, value in options.items() if (kinds[name] or Kind.CONTRACTION) is kind}


def read_schedule(text: str) -> Schedule:
    """Read a schedule and check its rules and their options.

    Raises:
        VerifyException: it is malformed.
        PassFailedException: it names a rule or an option that there is not.
    """
    schedule = parse_schedule(text)
    try:
        _check_names(schedule)
        for step in schedule:
            _check_step(_rule(step.rule), step)
    except PassFailedException as error:
        raise PassFailedException(f"the schedule {text!r} {error}") from error
    return schedule


def kind_of(launch: tile.LaunchOp) -> Kind:
    """The kind of a launch."""
    return Kind.OTHER if contraction_of(launch) is None else Kind.CONTRACTION


def staged(launch: tile.LaunchOp) -> bool:
    """Whether the launch copies slabs of its inputs on chip."""
    return any(isinstance(op, tile.StageOp | tile.CopyOp) for op in launch.body.walk())


def shared_slabs(launch: tile.LaunchOp) -> list[tile.StageOp]:
    """The slabs that the launch stages in shared memory."""
    stages = [op for op in launch.body.walk() if isinstance(op, tile.StageOp)]
    return [op for op in stages if tile.memory_of(op.slab) is Memory.SHARED]


def apply_to_any(found: Sequence[Target], apply: Callable[[Target], str | None], none: str = "") -> None:
    """Apply a rule to each of what a launch has, or leave it as it is, for the reason that `apply` gives then.

    Raises Skip with the reasons if all are left so, and with `none` if there are none.
    """
    refusals = [refusal for one in found if (refusal := apply(one)) is not None]
    if len(refusals) == len(found):
        raise Skip("; ".join(dict.fromkeys(refusals)) or none)


def require_constant(launch: tile.LaunchOp, axes: Iterable[SSAValue]) -> None:
    """Raises Skip unless axes of a launch have constant extents."""
    if any(launch.extent(axis) is None for axis in axes):
        raise Skip("an axis has an extent that is not constant")


def folded(launch: tile.LaunchOp) -> list[SSAValue]:
    """The axes that some combine or scan of the launch folds, which no rule may split."""
    return [axis for op in launch.body.walk() if isinstance(op, AxisFold) for axis in op.axes]


def _steps(rule: Rule, function: func.FuncOp, given: Options) -> Schedule:
    """The steps of a rule for a function; none where its schedule leaves the rule out."""
    if rule.name not in RULES:
        return steps({rule.name: given})
    schedule = schedule_of(function)
    own = tuple(step for step in schedule if step.rule == rule.name)
    try:
        _check_names(schedule)
        for step in own:
            _check_step(type(rule), step)
    except PassFailedException as error:
        raise PassFailedException(f"the schedule of @{function.sym_name.data} {error}") from error
    if given or (not own and ATTRIBUTE not in function.attributes):
        return steps({rule.name: completed(given, options_for_all(own, rule.name))})
    return own


def _check_targets(scheduled: Mapping[func.FuncOp, Schedule]) -> None:
    """Refuse a target that no kernel has."""
    targets = {step.target: step for schedule in scheduled.values() for step in schedule if step.target is not None}
    if not targets:
        return
    known = {function: frozenset[str]().union(*labels(function).values()) for function in scheduled}
    for target, step in targets.items():
        if not any(target in names for names in known.values()):
            have = "; ".join(
                f"@{function.sym_name.data} has {', '.join(sorted(names))}" for function, names in known.items()
            )
            raise PassFailedException(f"no launch is called {target}, the target of {step.name}: {have}")


def _step_of_each(function: func.FuncOp, schedule: Schedule) -> dict[tile.LaunchOp, RuleStep | None]:
    """The step for each launch: that of its label, else the one for all, if there is one."""
    for_all = next((step for step in schedule if step.target is None), None)
    if all(step is for_all for step in schedule):
        return dict.fromkeys(launches(function), for_all)
    chosen: dict[tile.LaunchOp, RuleStep | None] = {}
    for launch, names in labels(function).items():
        own = [step for step in schedule if step.target in names]
        if len(own) > 1:
            both = " and ".join(step.name for step in own)
            raise PassFailedException(f"{both} are for one launch of @{function.sym_name.data}; take one of them")
        chosen[launch] = own[0] if own else for_all
    return chosen


def _rule(name: str) -> type[OptionsPass]:
    rule = RULES[name].load()
    assert issubclass(rule, OptionsPass)
    return rule


def _check_names(schedule: Schedule) -> None:
    """Refuse a schedule with a rule that there is none of."""
    for step in schedule:
        if step.rule not in RULES:
            raise PassFailedException(f"names {step.rule}, which is not one of {', '.join(RULES)}")


def _check_step(rule: type[OptionsPass], step: RuleStep) -> None:
    """Check a step of a rule: its options as if they were given to the pass, and whether it may have its target."""
    if step.target is not None and not issubclass(rule, LaunchRule):
        raise PassFailedException(f"gives {rule.name} the target {step.target}; it rewrites kernels as a whole")
    try:
        rule.from_spec(ArgSpec(rule.name, {name: (value,) for name, value in step.options.items()}))
    except ValueError as error:
        raise PassFailedException(f"gives {rule.name} a bad option: {error}") from error
