"""What the scheduling rules share: the walk over kernels and launches, options, and the reason of a skip.

A rule is a rewrite pattern whose fields are its options (`passes/options.py`), and a pass: as such it walks over the
kernels of a module, each with options of its own. One comes from the pass, else from the kernel's
`deplodock.schedule` attribute, else from the heuristics of `schedule/choose/`. A kernel whose attribute
leaves a rule out is skipped, and so is a launch that no step of the rule is for. An option given to the pass that no
kernel of the module can take is an error. A rule that no schedule may name, as one of another package, has the options
given to the pass alone, and is left out by none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeGuard, TypeVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.machine.targets import capability, has_feature, target_at
from deplodock.analysis.shape.nest import kernel_of, kernels, labels, launches
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import tile
from deplodock.dialects.engines import reads_slabs
from deplodock.dialects.interfaces import Feature
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


Root = TypeVar("Root", bound=Operation)
"""What a rule rewrites: a kernel or a launch."""

Target = TypeVar("Target")
"""What a rule changes in a launch, such as a slab."""


class Skip(Exception):
    """The rule does not apply to a kernel, for the reason in its text."""


class NothingToDo(Skip):
    """The kernel is as the rule would make it, so options given to the rule are no mistake."""


@dataclass(frozen=True)
class Rule(OptionsPass, RewritePattern, Generic[Root]):
    """A rewrite pattern whose fields are its options, and the pass that walks over the kernels of a module with it.

    As a pattern it takes the options that it was given, and the defaults of the others. What it refuses stays as it is.
    """

    @abstractmethod
    def rewrite(self, root: Root, rewriter: PatternRewriter, /) -> None:
        """Rewrite an operation by the options of this rule, which has them all.

        Raises Skip, before any change, where it cannot.
        """

    @classmethod
    @abstractmethod
    def matches(cls, op: Operation) -> TypeGuard[Root]:
        """Whether an operation is of the kind that the rule rewrites."""

    @abstractmethod
    def chosen(self, function: func.FuncOp, schedule: Schedule) -> Mapping[Root, Rule[Root] | Skip]:
        """For what the rule may rewrite in a kernel: the rule with its options there, or why it leaves it.

        Raises Skip if there is nothing.
        """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Rewrite an operation, unless it is of another kind or the rule refuses it; `remarks.collect` has why."""
        if self.matches(op):
            try:
                self.with_defaults(self.given()).rewrite(op, rewriter)
            except Skip as skip:
                remarks.refusal(self.name, kernel_of(op), str(skip))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of a module; see `rewritten`."""
        self.rewritten(op)

    def rewritten(self, module: ModuleOp) -> list[Operation]:
        """Rewrite every kernel of a module by the options that it has for this rule. Returns those that have changed.

        Raises PassFailedException if an option was given and no kernel takes the rule, if no kernel has the target of a
        step, or if two steps are for one launch.
        """
        given = self.given()
        scheduled = {function: _steps(self, function, given) for function in kernels(module)}
        _check_targets(scheduled)
        refusals: dict[func.FuncOp, Skip] = {}
        roots: dict[func.FuncOp, list[Operation]] = {}
        walk = _AsChosen()
        for function, schedule in scheduled.items():
            try:
                if not schedule:
                    raise Skip(LEFT_OUT)
                chosen = self.chosen(function, schedule)
            except Skip as skip:
                refusals[function] = skip
                continue
            roots[function] = [*chosen]
            walk.chosen.update({**chosen})
        walk.over_regions()
        refusals |= {function: skip for function, own in roots.items() if (skip := _refused(own, walk.refusals))}
        self._report(scheduled, refusals, given)
        return [function for function, own in roots.items() if not walk.changed.isdisjoint(own)]

    def _report(self, functions: Collection[func.FuncOp], refusals: Mapping[func.FuncOp, Skip], given: Options) -> None:
        """Say why kernels stay as they are; PassFailedException if options were given and no kernel takes them."""
        named = [(function.sym_name.data, refusals[function]) for function in functions if function in refusals]
        refused = [symbol for symbol, reason in named if not isinstance(reason, NothingToDo)]
        if given and len(refused) == len(functions):
            options = " ".join(f"{name}={value}" for name, value in given.items())
            reasons = "; ".join(f"@{symbol}: {reason}" for symbol, reason in named) or "the module has no kernel"
            raise PassFailedException(f"{self.name}{{{options}}} applies to no kernel: {reasons}")
        for symbol, reason in named:
            remarks.skip(self.name, symbol, str(reason))


@dataclass
class _AsChosen(RewritePattern):
    """Applies to each operation the rule that was chosen for it, and keeps what has changed and what was refused."""

    chosen: dict[Operation, Rule[Any] | Skip] = field(default_factory=dict)
    refusals: dict[Operation, Skip] = field(default_factory=dict)
    changed: set[Operation] = field(default_factory=set)
    error: Exception | None = None

    def over_regions(self) -> None:
        """Walk over the regions that hold these operations.

        Raises what a rule raises, which the walker would put into words of its own.
        """
        for region in dict.fromkeys(op.parent_region() for op in self.chosen):
            assert region is not None
            PatternRewriteWalker(self, apply_recursively=False).rewrite_region(region)
            if self.error is not None:
                raise self.error

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Apply the rule of an operation, unless another one has failed."""
        if op not in self.chosen or self.error is not None:
            return
        rule = self.chosen[op]
        try:
            if isinstance(rule, Skip):
                raise rule
            rule.rewrite(op, rewriter)
        except Skip as skip:
            self.refusals[op] = skip
        except Exception as error:
            self.error = error
        if rewriter.has_done_action:
            self.changed.add(op)


@dataclass(frozen=True)
class LaunchRule(Rule[tile.LaunchOp]):
    """A rule that rewrites each launch of a kernel by itself."""

    @classmethod
    def matches(cls, op: Operation) -> TypeGuard[tile.LaunchOp]:
        return isinstance(op, tile.LaunchOp)

    def chosen(self, function: func.FuncOp, schedule: Schedule) -> dict[tile.LaunchOp, Rule[tile.LaunchOp] | Skip]:
        if not (found := launches(function)):
            raise Skip("no launch; run tileify first")
        steps_of = _step_of_each(function, schedule)
        has_kinds = any(self.options()[name].kind is not None for step in schedule for name in step.options)
        kinds = {launch: kind_of(launch) for launch in found} if has_kinds else {}
        chosen: dict[tile.LaunchOp, Rule[tile.LaunchOp] | Skip] = {}
        for launch, step in steps_of.items():
            try:
                if step is None:
                    raise NothingToDo(LEFT_OUT)
                options = step.options
                if has_kinds:
                    present = {kinds[other] for other in found if steps_of[other] is step}
                    options = self._suited(options, kinds[launch], present)
                chosen[launch] = self.with_defaults(options)
            except Skip as skip:
                chosen[launch] = skip
        return chosen

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


def require_feature(launch: tile.LaunchOp, feature: Feature) -> None:
    """Raises Skip unless the target of a launch has a feature."""
    if not has_feature(target := target_at(launch), feature):
        raise Skip(f"sm_{capability(target)} has no {feature}")


def require_engine(launch: tile.LaunchOp, name: str) -> None:
    """Raises Skip unless the target of a launch has an engine of tensor cores."""
    require_feature(launch, Feature.WARPGROUPS if reads_slabs(name) else Feature.MMA)


def folded(launch: tile.LaunchOp) -> list[SSAValue]:
    """The axes that some combine or scan of the launch folds, which no rule may split."""
    return [axis for op in launch.body.walk() if isinstance(op, AxisFold) for axis in op.axes]


def _refused(roots: Collection[Operation], refusals: Mapping[Operation, Skip]) -> Skip | None:
    """Why a rule left a kernel as it is, first of all for what one lacks; None if it took one of these operations."""
    skips = [refusals[root] for root in roots if root in refusals]
    if len(skips) < len(roots):
        return None
    idle = [isinstance(skip, NothingToDo) for skip in skips]
    reason = skips[0 if all(idle) else idle.index(False)]
    return NothingToDo(str(reason)) if any(idle) else reason


def _steps(rule: Rule[Any], function: func.FuncOp, given: Options) -> Schedule:
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
