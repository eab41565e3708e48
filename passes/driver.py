"""Runs the stages of the pipeline on a module, from the level it has to the one that is asked for."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import groupby
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.machine.targets import ATTRIBUTE, DEFAULT, target
from deplodock.analysis.operations import ancestors
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects import kernel, loop, tensor, tile
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.torch import AtenOp
from deplodock.errors import InvalidInputError
from deplodock.passes.clean_up import Changes, clean_up, locate
from deplodock.passes.options import CheckPass
from deplodock.passes.packages import packages, with_added
from deplodock.passes.pipeline import ORDER, RULES, STAGES, VERIFIERS, Stage
from deplodock.passes.remarks import Remark, collect
from deplodock.passes.tile.rule import Rule
from deplodock.schedule.choose.kernels import schedule_of
from deplodock.schedule.steps import ATTRIBUTE as SCHEDULE
from deplodock.schedule.steps import LEFT_OUT


class Level(StrEnum):
    """The levels of a program, in the order of lowering; `cuda` is the text of the kernel level."""

    TORCH = "torch"
    TENSOR = "tensor"
    LOOP = "loop"
    TILE = "tile"
    KERNEL = "kernel"
    CUDA = "cuda"


LEVELS = tuple(Level)
"""All levels in order."""

_LEVEL_AFTER = {"d": Level.TENSOR, "o": Level.TENSOR, "l": Level.LOOP, "t": Level.TILE, "k": Level.KERNEL}
"""The level that a module has after the stages of a letter."""


@dataclass(frozen=True)
class StageRun:
    """One stage that has run: its time with canonicalization and verification, and why it left kernels as they were.

    `changed` are the functions that are not as they were.
    """

    stage: Stage
    seconds: float
    remarks: tuple[Remark, ...]
    changed: tuple[Operation, ...]

    @property
    def level(self) -> Level:
        """The level that the stage works towards."""
        return _LEVEL_AFTER[self.stage.letter]


Observer: TypeAlias = Callable[[StageRun, ModuleOp], None]
"""Called after each stage with the module as it is then; must not change it."""


def new_context() -> Context:
    """A context with the dialects of every installed package: ours, xDSL's, and others'."""
    context = Context()
    for name, dialect in packages().universe.all_dialects.items():
        context.register_dialect(name, dialect)
    return context


def lower(
    module: ModuleOp,
    ctx: Context,
    to_level: Level,
    *,
    target: str | TargetAttr | None = None,
    schedule: str | None = None,
    stream: str | None = None,
    after: Stage | None = None,
    observer: Observer | None = None,
    verify: bool = True,
    verifiers: bool = False,
) -> None:
    """Run the stages between the level of `module` and `to_level`; canonicalize and cse follow each that is no check.

    No garbage is collected but between levels.

    Args:
        module: the program at any level; it is changed. Its attribute `kernel.target` is set.
        ctx: a context with the dialects that the module may come to use.
        to_level: where to stop; `cuda` runs the same stages as `kernel`.
        target: the target to compile for, by name or in full; by default the one that the module states, else sm_90.
        schedule: the schedule of every kernel, as a pass pipeline; by default its own, else the heuristics' choice.
        stream: the option of form-kernels of this name; by default the pass's own.
        after: the stage that ran last on the module; by default the last one of its level.
        observer: called after each stage.
        verify: whether the op verifiers run, on what has changed, where a level ends.
        verifiers: whether they and the passes that check facts across ops run after each stage.

    Raises:
        InvalidInputError: the module is already below `to_level`, or the target is unknown.
        DiagnosticException: a stage fails, or what it leaves does not verify; a note names it.
    """
    set_target(module, target)
    # The first rule makes launches: why it skipped a kernel is why the kernel level finds none.
    skipped: dict[str, Remark] = {}
    given = {name: value for name, value in (("schedule", schedule), ("stream", stream)) if value is not None}
    runner = _Runner(module, ctx, given, verify, verifiers)
    todo = stages(level_of(module), to_level) if after is None else stages_behind(after, to_level)
    for level, group in groupby(todo, lambda stage: _LEVEL_AFTER[stage.letter]):
        *own, last = group
        with without_collection():
            for stage in (*own, last):
                try:
                    run = runner.run(stage, stage is last)
                except DiagnosticException as error:
                    if level is Level.KERNEL:
                        unlaunched = [function.sym_name.data for function in kernels(module) if not launches(function)]
                        for remark in (skipped[symbol] for symbol in unlaunched if symbol in skipped):
                            error.add_note(f"note: {remark}")
                    raise
                if stage in RULES:
                    skipped = {remark.symbol: remark for remark in run.remarks} | skipped
                if observer is not None:
                    observer(run, module)


@contextmanager
def without_collection() -> Generator[None]:
    """While it lasts, no garbage is collected: IR is full of circles, nearly all of which live on."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def set_target(module: ModuleOp, wanted: str | TargetAttr | None) -> None:
    """State the target in the module; without a wanted one, keep what it states or take the default.

    Raises InvalidInputError if there is no target of that name.
    """
    if wanted is None and ATTRIBUTE in module.attributes:
        return
    module.attributes[ATTRIBUTE] = (
        wanted if isinstance(wanted, TargetAttr) else target(DEFAULT if wanted is None else wanted)
    )


def stages(level: Level, to_level: Level) -> list[Stage]:
    """The stages that lead from one level to another. Raises InvalidInputError if that is upwards.

    Those that other packages add are among them. Kernels that are given are held to the limits of the target, as those
    that are made.
    """
    first, last = LEVELS.index(level), LEVELS.index(to_level)
    if first > last:
        raise InvalidInputError(f"the program is at {level} level; it cannot be raised to {to_level} level")
    if level is Level.KERNEL:
        checks = [stage for stage in STAGES if _LEVEL_AFTER[stage.letter] is level]
        return [stage for stage in checks if issubclass(cls := stage.load(), CheckPass) and cls.holds_given]
    return [stage for stage in with_added(STAGES) if first < LEVELS.index(_LEVEL_AFTER[stage.letter]) <= last]


def stages_behind(stage: Stage, to_level: Level) -> list[Stage]:
    """The stages behind one of the pipeline, to a level. Those that other packages add are among them."""
    all_of_them = with_added(STAGES)
    last = LEVELS.index(to_level)
    behind = all_of_them[all_of_them.index(stage) + 1 :]
    return [other for other in behind if LEVELS.index(_LEVEL_AFTER[other.letter]) <= last]


def level_of(module: ModuleOp) -> Level:
    """The level of a module: the highest of what is in it, as that is what remains to be lowered.

    Tensor operations outside kernels have yet to be fused, so they count as `torch`, as do functions of tensors
    without any operation.
    """
    found = {level for op in module.walk() if (level := _level_of_op(op)) is not None}
    return next((level for level in LEVELS if level in found), Level.LOOP)


def _level_of_op(op: Operation) -> Level | None:
    match op:
        case AtenOp():
            return Level.TORCH
        case tensor.KernelOp() | tensor.RecurrenceOp():
            return Level.TENSOR
        case _ if op.dialect_name() == tensor.TensorExt.name:
            inside = any(isinstance(parent, tensor.KernelOp) for parent in ancestors(op))
            return Level.TENSOR if inside else Level.TORCH
        case FuncOp() if any(isinstance(type, TensorType) for type in op.function_type.inputs):
            fused = any(isinstance(inner, tensor.KernelOp) for inner in op.walk())
            return Level.TENSOR if fused else Level.TORCH
        case kernel.FuncOp() | kernel.LaunchOp():
            return Level.KERNEL
        case tile.LaunchOp():
            return Level.TILE
        case loop.LoopLike() | loop.StoreOp():
            below = any(isinstance(parent, tile.LaunchOp | kernel.FuncOp) for parent in ancestors(op))
            return None if below else Level.LOOP
        case _:
            return None


def _pass(stage: Stage, given: Mapping[str, str]) -> ModulePass:
    """The pass of a stage, with those of the given options that it has."""
    cls = stage.load()
    own: dict[str, ParameterListType] = {
        option.name: (given[option.name],) for option in fields(cls) if option.name in given
    }
    return cls.from_pass_spec(ArgSpec(stage.name, own)) if own else cls()


class _Runner:
    """Runs stages on a module, and knows which functions have changed since they were verified, by which of them."""

    def __init__(self, module: ModuleOp, ctx: Context, given: Mapping[str, str], verify: bool, verifiers: bool) -> None:
        self._module, self._ctx, self._given = module, ctx, given
        self._verify, self._verifiers = verify, verifiers
        self._changes = Changes(module)
        self._names: set[str] | None = None
        self._unverified: dict[Operation, list[Stage]] = {}

    def run(self, stage: Stage, ends: bool) -> StageRun:
        """Run a stage and what follows it; `ends` is whether it is the last one of a level."""
        start, remarks = time.perf_counter(), _left_out(stage, self._module)
        changed: Sequence[Operation] = ()
        if remarks is None:
            remarks, changed = self._apply(stage) if self._may_act(stage) else ([], ())
        if self._verify and (ends or self._verifiers):
            self._verify_changed()
        return StageRun(stage, time.perf_counter() - start, tuple(remarks), tuple(changed))

    def _may_act(self, stage: Stage) -> bool:
        """Whether the module has operations that the pass of a stage acts on; if not, the pass is not imported."""
        if not stage.acts_on:
            return True
        if self._names is None:
            self._names = words(self._module)
        return not self._names.isdisjoint(stage.acts_on)

    def _apply(self, stage: Stage) -> tuple[list[Remark], Sequence[Operation]]:
        """Apply the pass of a stage; clean up and locate what it has changed. Returns its remarks and those functions.

        The rewriter of a rule tells what it has changed; what another pass has changed is found.
        """
        run, changed = _pass(stage, self._given), list[Operation]()
        try:
            with collect() as remarks:
                if isinstance(run, Rule):
                    changed = run.rewritten(self._module)
                else:
                    run.apply(self._ctx, self._module)
            if isinstance(run, Rule):
                self._follow_up(stage, changed)
            elif not isinstance(run, CheckPass):
                changed = self._changes.take()
                self._changes.pass_over(self._follow_up(stage, changed))
            for verifier in VERIFIERS if self._verifiers else ():
                verifier.load()().apply(self._ctx, self._module)
        except DiagnosticException as error:
            error.add_note(f"note: in pass {stage.name}")
            raise
        return remarks, changed

    def _follow_up(self, stage: Stage, changed: Sequence[Operation]) -> list[Operation]:
        """Clean up and locate functions that a stage has changed. Returns those in which something was cleaned up."""
        cleaned = [function for function in changed if clean_up(self._ctx, function)]
        if changed:
            self._names = None
            locate(self._module, changed)
        for function in changed:
            self._unverified.setdefault(function, []).append(stage)
        return cleaned

    def _verify_changed(self) -> None:
        """Run the op verifiers on the functions that have changed. A VerifyException names the passes that did."""
        changed = {op: self._unverified[op] for op in self._module.ops if op in self._unverified}
        changed[self._module] = list(dict.fromkeys(stage for stages in changed.values() for stage in stages))
        for op, stages in changed.items():
            try:
                op.verify(verify_nested_ops=op is not self._module)
            except DiagnosticException as error:
                names = ", ".join(stage.name for stage in stages)
                error.add_note(f"note: in {'pass' if len(stages) == 1 else 'one of the passes'} {names}")
                raise
        self._unverified.clear()


def words(module: ModuleOp) -> set[str]:
    """The words by which passes say what they act on, those of the operations of a module."""
    return {op.name for op in module.walk()} | ({ORDER} if any(map(kernel.orders, module.walk())) else set())


def _left_out(stage: Stage, module: ModuleOp) -> list[Remark] | None:
    """The remarks of a scheduling rule that no kernel's schedule names: such a rule is not even imported; else None."""
    if stage not in RULES:
        return None
    found = kernels(module)
    if any(
        SCHEDULE not in function.attributes or any(step.rule == stage.name for step in schedule_of(function))
        for function in found
    ):
        return None
    return [Remark(stage.name, function.sym_name.data, LEFT_OUT) for function in found]
