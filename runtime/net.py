"""The net under lowering: one kernel that a pass refuses does not take its program along.

A kernel at loop level takes the first schedule of the ladder (`schedule/choose/ladder.py`) that holds to the end; where
none does, its fusion is undone at tensor level: each of its operations becomes a kernel. What is refused even so is
named by its operations, which PyTorch can run. Each step down is a fall (`runtime/falls.py`). Nothing here runs unless
lowering has failed. A schedule of the user's is never replaced; one of a file is, by the heuristics' choice first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.machine.targets import ATTRIBUTE as TARGET
from deplodock.analysis.shape.fusion import TensorOp
from deplodock.analysis.shape.kernel_identity import structure
from deplodock.analysis.shape.nest import kernels, launches
from deplodock.dialects.tensor import KernelOp, YieldOp, shape_of
from deplodock.errors import RefusedError
from deplodock.passes.driver import LEVELS, Level, Observer, level_of, lower, new_context
from deplodock.passes.tensor.decisions import DECISIONS
from deplodock.passes.tensor.group import FUSE
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.runtime.falls import Fall, FallKind, catches, falls_of, note, origins_in, reason_of, report
from deplodock.runtime.tuned import ORIGIN, Tuned, become, lower_fused, origin_of, take_schedules
from deplodock.schedule.choose.ladder import LADDER
from deplodock.schedule.steps import ATTRIBUTE as SCHEDULE
from deplodock.schedule.steps import Schedule, format_schedule

Step: TypeAlias = Callable[..., object]
"""Lowers the module of `lower_in_steps` to a level, with `schedule` where that is given: `lower_held`, or by that."""

_NEVER = StringAttr("never")

_ROUNDS = 8
"""How often fusion is undone: what kernels of one round have apart, those of the next one do."""


def lower_held(
    module: ModuleOp,
    ctx: Context,
    to_level: Level,
    *,
    schedule: str | None = None,
    stream: str | None = None,
    observer: Observer | None = None,
) -> None:
    """`driver.lower` of a module that states its target; kernels at loop level take simpler schedules where they must.

    The falls are written on the module. Raises what `driver.lower` raises where no simpler schedules help, or
    `schedule` is given.
    """
    may_fall = schedule is None and level_of(module) is Level.LOOP and _is_below(to_level, Level.LOOP)
    before = module.clone() if may_fall else None
    try:
        lower(module, ctx, to_level, schedule=schedule, stream=stream, observer=observer)
    except Exception as error:
        if before is None:
            raise
        _take_simpler(before, error)
        become(module, before)
        lower(module, ctx, to_level, observer=observer)


def lower_in_steps(
    module: ModuleOp,
    tuned: Tuned | None,
    step: Step,
    to_level: Level = Level.KERNEL,
    schedule: str | None = None,
) -> ModuleOp:
    """Lower a module that states its target below loop level, with what a file has for it, and with the net.

    Args:
        module: the program, which `step` changes.
        tuned: decisions of fusion, and schedules for kernels that have none.
        step: lowers the module to loop level, then to `to_level`.
        to_level: a level below loop level.
        schedule: the schedule of all kernels, with which there is no net.

    Returns what the module was at loop level; a kernel that fell has its schedule there. Each fall is reported.

    Raises:
        RefusedError: operations are refused that are kernels of their own.
        DiagnosticException: what `step` raises for another reason, or where falls are errors.
    """
    source = module.clone()

    def attempt() -> ModuleOp:
        step(Level.LOOP)
        loops = module.clone()
        if tuned is not None:
            take_schedules(module, tuned)
        step(to_level, schedule=schedule)
        return loops

    try:
        loops = lower_fused(module, tuned, attempt)
    except Exception as error:
        if schedule is not None or not catches() or not _is_below(Level.LOOP, level_of(source)):
            raise
        become(module, source.clone())
        loops = _undone(module, step, attempt, error)
    known = falls_of(source)
    falls = [fall for fall in falls_of(module) if fall not in known]
    functions = {function.sym_name.data: function for function in kernels(loops)}
    for fall in falls:
        if fall.schedule:
            functions[fall.kernel].attributes[SCHEDULE] = StringAttr(fall.schedule)
    report(falls)
    return loops


def _is_below(level: Level, other: Level) -> bool:
    """Whether a level is reached after another one."""
    return LEVELS.index(level) > LEVELS.index(other)


def _take_simpler(loops: ModuleOp, error: Exception) -> None:
    """Write schedules that hold on the kernels of a module at loop level that are refused, and note their falls.

    Raises `error` where no kernel is refused, or one whatever its schedule, or with one of the user's.
    """
    reason_of(error)
    falls = [fall for function in kernels(loops) for fall in _falls_of_kernel(function, loops, error)]
    if not falls:
        raise error
    note(loops, falls)


def _falls_of_kernel(function: func.FuncOp, loops: ModuleOp, error: Exception) -> Iterator[Fall]:
    origin = origin_of(function)
    is_given = SCHEDULE in function.attributes and not origin
    if launches(function) or is_given or not (origin or catches()):
        return
    name, reason = function.sym_name.data, _refusal(function, loops)
    if reason and origin:
        del function.attributes[SCHEDULE], function.attributes[ORIGIN]
        untuned = Fall(FallKind.UNTUNED, name, (origin,), reason)
        if not (reason := _refusal(function, loops)):
            write_schedule(function, None)
            yield replace(untuned, schedule=_written(function))
            return
        yield untuned
    if not reason:
        return
    if not catches() or not any(_holds(function, loops, schedule) for schedule in _rungs(function)):
        raise error
    yield Fall(FallKind.SIMPLER, name, origins_in(function), reason, _written(function))


def _rungs(function: func.FuncOp) -> Iterator[Schedule]:
    """The schedules of the ladder, each once; what of it does not take the kernel has none."""
    known = set[str]()
    for rung in LADDER:
        try:
            found = [*rung(function)]
        except Exception as error:
            reason_of(error)
            continue
        for schedule in found:
            if format_schedule(schedule) not in known:
                known.add(format_schedule(schedule))
                yield schedule


def _holds(function: func.FuncOp, loops: ModuleOp, schedule: Schedule) -> bool:
    """Whether a kernel holds with a schedule, which is written on it then."""
    function.attributes[SCHEDULE] = StringAttr(format_schedule(schedule))
    if not _refusal(function, loops):
        return True
    del function.attributes[SCHEDULE]
    return False


def _written(function: func.FuncOp) -> str:
    found = function.attributes[SCHEDULE]
    assert isinstance(found, StringAttr)
    return found.data


def _refusal(function: func.FuncOp, module: ModuleOp) -> str:
    """Why a kernel of a module at loop level is refused as it is; empty if it is not."""
    alone = ModuleOp([function.clone()], {TARGET: module.attributes[TARGET]})
    try:
        lower(alone, new_context(), Level.KERNEL)
    except Exception as error:
        return reason_of(error)
    return ""


def _undone(module: ModuleOp, step: Step, attempt: Callable[[], ModuleOp], error: Exception) -> ModuleOp:
    """Lower a module by `attempt`, with the fusion undone of kernels that are refused, as `error` said.

    Returns and raises as `lower_in_steps`.
    """
    for _ in range(_ROUNDS):
        step(Level.TENSOR)
        _undo(module, error)
        before = module.clone()
        try:
            return attempt()
        except Exception as other:
            error = other
        become(module, before)
    raise error


def _undo(module: ModuleOp, error: Exception) -> None:
    """Undo the fusion of the kernels of a module at tensor level that are refused, and note these falls.

    Raises `error` if there are none, and RefusedError where there is nothing to undo.
    """
    reason_of(error)
    if not (refused := _refused(module)):
        raise error
    falls = [
        Fall(FallKind.UNDONE, kernel.sym_name.data, origins_in(kernel), reason) for kernel, reason in refused.items()
    ]
    if whole := [fall for kernel, fall in zip(refused, falls, strict=True) if not _apart(kernel)]:
        raise RefusedError({", ".join(own.operations) or f"@{own.kernel}": own.reason for own in whole}) from error
    for kernel in refused:
        _inline(kernel)
    note(module, falls)


def _refused(program: ModuleOp) -> Mapping[KernelOp, str]:
    """The kernels of a module at tensor level that are refused whatever their schedule, and why."""
    reasons: dict[Hashable, str] = {}
    found: dict[KernelOp, str] = {}
    for kernel in (op for op in program.walk() if isinstance(op, KernelOp)):
        key = structure(kernel).key
        if key not in reasons:
            reasons[key] = _refusal_at_tensors(kernel, program)
        if reasons[key]:
            found[kernel] = reasons[key]
    return found


def _refusal_at_tensors(kernel: KernelOp, program: ModuleOp) -> str:
    block = Block(arg_types=[value.type for value in kernel.inputs])
    own = kernel.clone(dict(zip(kernel.inputs, block.args, strict=True)))
    block.add_ops([own, func.ReturnOp(*own.results)])
    types = [value.type for value in block.args], [value.type for value in own.results]
    alone = ModuleOp([func.FuncOp("main", types, Region(block))], {TARGET: program.attributes[TARGET]})
    try:
        lower(alone, new_context(), Level.LOOP)
        lower_held(alone, new_context(), Level.KERNEL)
    except Exception as error:
        return reason_of(error)
    return ""


def _apart(kernel: KernelOp) -> list[Operation]:
    """The operations to store that a kernel has computed in passing, none where the user wants it so.

    What is larger than all that the kernel reads and stores stays in passing, as the products of a contraction do.
    """
    (*ops, last) = kernel.body.block.ops
    fused = [op for op in ops if isinstance(op, TensorOp) and not isinstance(op, arith.ConstantOp)]
    if any(op.attributes.get(FUSE) == StringAttr("always") for op in fused):
        return []
    most = max(prod(shape_of(value)) for value in (*kernel.inputs, *kernel.outputs))
    return [
        op
        for op in fused
        if FUSE not in op.attributes
        and not any(result in last.operands for result in op.results)
        and all(prod(shape_of(result)) <= most for result in op.results)
    ]


def _inline(kernel: KernelOp) -> None:
    """Put the operations of a kernel in its place, those to store with a mark."""
    for op in _apart(kernel):
        op.attributes[FUSE] = _NEVER
    function = kernel.parent_op()
    assert function is not None
    function.attributes.pop(DECISIONS, None)
    known: dict[SSAValue, SSAValue] = dict(zip(kernel.body.block.args, kernel.inputs, strict=True))
    for op in kernel.body.block.ops:
        if isinstance(op, YieldOp):
            for result, value in zip(kernel.outputs, op.operands, strict=True):
                result.replace_all_uses_with(known.get(value, value))
        else:
            Rewriter.insert_op(op.clone(known), InsertPoint.before(kernel))
    Rewriter.erase_op(kernel)
