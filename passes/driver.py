"""Runs the stages of the pipeline on a module, from the level it has to the one that is asked for."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
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
from deplodock.passes.changes import Changes
from deplodock.passes.check import CheckPass
from deplodock.passes.clean_up import clean_up
from deplodock.passes.locations import locate
from deplodock.passes.packages import packages, with_added
from deplodock.passes.pipeline import RULES, STAGES, VERIFIERS, Stage
from deplodock.passes.remarks import Remark, collect
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
    """One stage that has run: its time with canonicalization and verification, and why it left kernels as they were."""

    stage: Stage
    seconds: float
    remarks: tuple[Remark, ...]

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
    observer: Observer | None = None,
    verify: bool = True,
    verifiers: bool = False,
) -> None:
    """Run the stages between the level of `module` and `to_level`; canonicalize and cse follow each that is no check.

    Meanwhile no garbage is collected: IR is full of circles, nearly all of which live on.

    Args:
        module: the program at any level; it is changed. Its attribute `kernel.target` is set.
        ctx: a context with the dialects that the module may come to use.
        to_level: where to stop; `cuda` runs the same stages as `kernel`.
        target: the target to compile for, by name or in full; by default the one that the module states, else sm_90.
        schedule: the schedule of every kernel, as a pass pipeline; by default its own, else the heuristics' choice.
        stream: the option of form-kernels of this name; by default the pass's own.
        observer: called after each stage.
        verify: whether the op verifiers run after each stage that is no check.
        verifiers: whether the passes that check facts across ops run after each stage.

    Raises:
        InvalidInputError: the module is already below `to_level`, or the target is unknown.
        DiagnosticException: a stage fails, or what it leaves does not verify; a note names it.
    """
    set_target(module, target)
    # The first rule makes launches: why it skipped a kernel is why the kernel level finds none.
    skipped: dict[str, Remark] = {}
    changes = Changes(module)
    given = {name: value for name, value in (("schedule", schedule), ("stream", stream)) if value is not None}
    for stage in stages(level_of(module), to_level):
        try:
            with _without_collection():
                run = _run(stage, given, changes, ctx, verify, verifiers)
        except DiagnosticException as error:
            error.add_note(f"note: in pass {stage.name}")
            if _LEVEL_AFTER[stage.letter] is Level.KERNEL:
                unlaunched = [function.sym_name.data for function in kernels(module) if not launches(function)]
                error.__notes__ += [f"note: {skipped[symbol]}" for symbol in unlaunched if symbol in skipped]
            raise
        if stage in RULES:
            skipped = {remark.symbol: remark for remark in run.remarks} | skipped
        if observer is not None:
            observer(run, module)


@contextmanager
def _without_collection() -> Generator[None]:
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
        case tensor.KernelOp():
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


def _run(
    stage: Stage, given: Mapping[str, str], changes: Changes, ctx: Context, verify: bool, verifiers: bool
) -> StageRun:
    start, module = time.perf_counter(), changes.module
    if (left_out := _left_out(stage, module)) is not None:
        return StageRun(stage, time.perf_counter() - start, tuple(left_out))
    with collect() as remarks:
        (run := _pass(stage, given)).apply(ctx, module)
    if not isinstance(run, CheckPass):
        _follow_up(changes, ctx, verify)
    for verifier in VERIFIERS if verifiers else ():
        verifier.load()().apply(ctx, module)
    return StageRun(stage, time.perf_counter() - start, tuple(remarks))


def _follow_up(changes: Changes, ctx: Context, verify: bool) -> None:
    """Clean up, locate and verify what a pass has changed."""
    changed = changes.take()
    cleaned = [function for function in changed if clean_up(ctx, function)]
    if cleaned:
        changes.take()
    if changed:
        locate(changes.module)
    if verify:
        for function in changed:
            function.verify()
        changes.module.verify(verify_nested_ops=False)


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
