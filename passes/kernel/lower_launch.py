"""Lowers the body of a launch: loops, reductions, accesses and scalars.

See `emit.py` for the state and `expand_launch.py` for the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import ConstantLike, is_side_effect_free

from deplodock.analysis.affine.linear import (
    Linear,
    bounds_of,
    condition_forms,
    condition_of,
    implied_condition,
    never_fails,
    subscripts_of,
)
from deplodock.analysis.operations import is_arithmetic, label
from deplodock.analysis.shape.dependence import is_coordinate, wheres
from deplodock.analysis.shape.masking import adds_zero
from deplodock.analysis.shape.nest import scans_along
from deplodock.analysis.shape.roles import adds_in_place, shares_accumulator, summed_products, yields_inner_reduction
from deplodock.analysis.shape.streaming import weighs_by_largest
from deplodock.dialects import loop, tile
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.tile import Binding, Memory
from deplodock.loading import loaded
from deplodock.passes.copying import erase_dead
from deplodock.passes.kernel.builder import Condition
from deplodock.passes.kernel.emit import Array, Emitter
from deplodock.passes.kernel.lower_access import is_branched, lower_keep, lower_load, lower_store, read_vectors
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class Fold:
    """The accumulators that a reduction's iterations fold into, and the conditions that each contribution must meet."""

    reduction: loop.ReduceOp
    accumulators: Sequence[Array]
    conditions: tuple[Condition, ...]
    scaled_at: Operation | Block | None = None
    """The scan of the largest score so far, at which the accumulators of a streaming reduction are scaled."""


def lower_ops(emitter: Emitter, ops: Iterable[Operation], fold: Fold | None = None) -> None:
    """Emit operations of a launch or loop body; where `fold` is given, its yield folds into the accumulators."""
    group: list[Operation] = []
    around = emitter.location
    for op in ops:
        if isinstance(op, loop.IndexOp | loop.WhereOp) or op.has_trait(ConstantLike):
            continue
        if isinstance(op, loop.LoadOp) and (op.result in emitter.arrays or _is_unheld(emitter, op)):
            continue
        if isinstance(op, loop.LoadOp) and (axes := _fragment_axes(emitter, op)):
            emitter.bind(op.result, Array(emitter.value(op.source), axes))
            continue
        if isinstance(op, loop.LoadOp) and not _is_scalar(op) and not _reads_at(op, group):
            emitter.location = op.location
            lower_load(emitter, op)
            continue
        if isinstance(op, loop.InsideOp) and all(_masks(emitter, use.operation) for use in op.result.uses):
            continue
        if isinstance(op, loop.StoreOp) and _is_end_of(emitter, op, group):
            emitter.location, known = op.location, dict(emitter.values)
            lower_store(emitter, op, partial(_compute, emitter, group))
            emitter.values, group = known, []
            continue
        is_scalar = _is_scalar(op) and not _is_apart(op, fold) and not _masks(emitter, op)
        if group and not (is_scalar and _axes(emitter, op, fold) == _axes(emitter, group[0], fold)):
            _lower_scalars(emitter, group, fold)
            group = []
        if is_scalar:
            group.append(op)
        else:
            emitter.location = op.location
            _lower_structured(emitter, op, fold)
    if group:
        _lower_scalars(emitter, group, fold)
    emitter.location = around


def _is_end_of(emitter: Emitter, op: loop.StoreOp, group: Sequence[Operation]) -> bool:
    """Whether a write under conditions is all that needs what some scalars of a register tile compute."""
    users = {use.operation for scalar in group for result in scalar.results for use in result.uses} - {*group}
    is_alone = users == {op} and set(emitter.axes_of(op.indices)) == set(emitter.axes_of(group[-1].results))
    return is_alone and is_branched(emitter, op)


def _compute(emitter: Emitter, group: Sequence[Operation]) -> None:
    """Emit scalars at the current register coordinates."""
    for op in group:
        emitter.location = op.location
        _clone_scalar(emitter, op)


def _is_unheld(emitter: Emitter, op: loop.LoadOp) -> bool:
    """Whether the engine of a contract reads what a load stands for, so that no thread does."""
    found = emitter.dependence.of(op.result)
    return any(axis in found for axis in emitter.launch.bound_to(Binding.ENGINE))


def _fragment_axes(emitter: Emitter, op: loop.LoadOp) -> tuple[SSAValue, ...]:
    """The register axes along which contracts alone read a whole register slab, which is their fragment; else none."""
    if tile.memory_of(op.source) is not Memory.REGISTER:
        return ()
    forms = subscripts_of(op)
    axes = tuple(axis for form in forms for axis in form.roots() if form == Linear.of(axis))
    if not set(axes) <= set(emitter.registers) or len(set(axes)) < len(forms):
        return ()
    is_whole = tuple(map(emitter.launch.extent, axes)) == loop.memref_of(op.source).get_shape()
    return axes if is_whole and all(isinstance(use.operation, tile.ContractOp) for use in op.result.uses) else ()


def _reads_at(op: loop.LoadOp, group: Sequence[Operation]) -> bool:
    """Whether a load's subscripts are computed from results of these operations."""
    return any(root.owner in group for form in subscripts_of(op) for root in form.roots())


def _is_scalar(op: Operation) -> bool:
    """Whether an operation works on scalars and register slabs only, or folds the scalars of one iteration."""
    if isinstance(op, loop.LoadOp):
        return tile.memory_of(op.source) is Memory.REGISTER
    if isinstance(op, loop.YieldOp):
        return not yields_inner_reduction(op)
    is_collective = isinstance(op, AxisFold | tile.ContractOp | tile.KeepOp)
    return is_arithmetic(op) or (is_side_effect_free(op) and not op.regions and not is_collective)


def _axes(emitter: Emitter, op: Operation, fold: Fold | None) -> tuple[SSAValue, ...]:
    if isinstance(op, loop.YieldOp):
        assert fold is not None
        return fold.accumulators[0].axes
    return emitter.axes_of(op.results)


def _masks(emitter: Emitter, op: Operation) -> bool:
    """Whether an operation replaces values of registers by a constant where conditions over coordinates fail."""
    if not isinstance(op, arith.SelectOp) or not isinstance(inside := op.cond.owner, loop.InsideOp):
        return False
    is_constant = isinstance(op.rhs.owner, Operation) and op.rhs.owner.has_trait(ConstantLike)
    forms = condition_forms(inside.conditions.data, inside.indices)
    is_known = all(is_coordinate(root) for form in forms for root in form.roots())
    return is_constant and is_known and bool(emitter.axes_of([op.result]))


def _lower_mask(emitter: Emitter, op: arith.SelectOp, inside: loop.InsideOp) -> None:
    """Emit a mask of registers: where none of a CTA's points can fail a condition, a branch goes around the choices."""
    array = emitter.register(op.result.type, emitter.axes_of([op.result]), op.result.name_hint)
    with emitter.nest(array.axes):
        emitter.store(emitter.value(op.lhs), array)
    for form in condition_forms(inside.conditions.data, inside.indices):
        if never_fails(form):
            continue
        fails = implied_condition(-form - 1, emitter.lanes)
        with emitter.guarded([] if fails is None else [fails]), emitter.nest(array.axes):
            condition = emitter.add(loop.InsideOp(*emitter.condition_map([form])))
            chosen = arith.SelectOp(condition, emitter.load(array), emitter.value(op.rhs))
            emitter.store(emitter.add(chosen), array)
    emitter.bind_array(op.result, array)


def _lower_structured(emitter: Emitter, op: Operation, fold: Fold | None) -> None:
    match op:
        case loop.LoadOp():
            lower_load(emitter, op)
        case loop.StoreOp():
            lower_store(emitter, op)
        case loop.ForOp():
            _lower_for(emitter, op)
        case arith.SelectOp() if isinstance(inside := op.cond.owner, loop.InsideOp):
            _lower_mask(emitter, op, inside)
        case loop.ReduceOp():
            _lower_reduce(emitter, op, fold)
        case tile.CombineOp():
            _lowering("lower_combine")(emitter, op)
        case loop.ScanOp() if fold is not None and op is fold.scaled_at:
            _scale(emitter, op, fold)
        case loop.ScanOp():
            _lowering("lower_scan")(emitter, op)
        case tile.ContractOp():
            _lower_contract(emitter, op, fold)
        case tile.KeepOp():
            lower_keep(emitter, op)
        case tile.StageOp():
            _check_source(emitter, op)
            _check_origin(emitter, op)
            if tile.memory_of(op.slab) is Memory.REGISTER:
                _lowering("lower_stage")(emitter, op)
            else:
                emitter.keep(op)
        case tile.CopyOp():
            _check_source(emitter, op)
            emitter.copies(op)
        case tile.RingOp() | tile.AllocOp() | tile.WaitOp() | tile.ReleaseOp() | tile.StoreOp():
            emitter.keep(op)
        case loop.YieldOp():
            if fold is not None and _is_apart(op, fold):
                _fold_apart(emitter, op, fold)
        case _:
            hint = "; loop.where says which points count" if isinstance(op, loop.GuardOp) else ""
            raise failure(op, f"it cannot stand in a launch{hint}")


def _lowering(name: str) -> Callable[..., Any]:
    """The function that lowers some operations, from the file of its name."""
    return loaded(f"deplodock.passes.kernel.{name}:{name}")


def _start_scans(emitter: Emitter, op: loop.LoopLike) -> None:
    """Allocate what the scans that run along a loop carry through it."""
    if scans_along(op.iv):
        loaded("deplodock.passes.kernel.lower_scan:start_scans")(emitter, op)


def _lower_contract(emitter: Emitter, op: tile.ContractOp, fold: Fold | None) -> None:
    """Emit the products into the accumulators of the sum that yields nothing else, or into sums of their own."""
    lower_contract = _lowering("lower_contract")
    place = _scaled_place(op, fold)
    if fold is not None and place is not None:
        lower_contract(emitter, op, fold.accumulators[place])
        return
    if not adds_in_place(op):
        emitter.bind_array(op.result, lower_contract(emitter, op, None))
        return
    assert fold is not None
    if fold.conditions:
        raise failure(op, "it adds to accumulators at points that a loop.where of its loop leaves out")
    lower_contract(emitter, op, fold.accumulators[summed_products(fold.reduction).index(op)])


def _check_source(emitter: Emitter, op: tile.StageOp | tile.CopyOp) -> None:
    """Raises PassFailedException if the launch writes the buffer that a slab is copied from."""
    if any(
        isinstance(use.operation, loop.StoreOp | tile.StoreOp) and emitter.launch.is_ancestor(use.operation)
        for use in op.source.uses
    ):
        raise failure(op, f"the launch writes {label(op.source)}; slabs are of buffers that it only reads")


def _check_origin(emitter: Emitter, op: tile.StageOp) -> None:
    """Raises PassFailedException if a slab's origin varies inside the part of the CTA that owns the slab."""
    is_shared = tile.memory_of(op.slab) is Memory.SHARED
    inside = (Binding.THREAD, Binding.LANE, Binding.REGISTER) if is_shared else (Binding.REGISTER,)
    depends = emitter.dependence.of(*op.indices)
    for axis in emitter.launch.axes:
        if axis in depends and emitter.launch.binding(axis) in inside:
            owner = "the CTA" if is_shared else "a thread"
            raise failure(
                op,
                f"the origin of the slab {label(op.slab)} varies along {label(axis)}, but all of "
                f"{owner} shares it; make that part a coordinate of the slab",
            )


def _lower_scalars(emitter: Emitter, group: Sequence[Operation], fold: Fold | None) -> None:
    """Emit scalars that vary along the same register axes as one nest; results used elsewhere go to registers."""
    axes = _axes(emitter, group[0], fold)
    emitter.location = group[0].location
    inside = set(group)
    leaving = {
        result: emitter.register(result.type, axes, result.name_hint)
        for op in group
        for result in op.results
        if axes and any(use.operation not in inside for use in result.uses)
    }
    with emitter.nest(axes):
        known = dict(emitter.values)
        for op in group:
            emitter.location = op.location
            if isinstance(op, loop.YieldOp):
                _accumulate(emitter, op, fold)
                continue
            _clone_scalar(emitter, op)
            for result in op.results:
                if result in leaving:
                    emitter.store(emitter.values[result], leaving[result])
        if axes:
            emitter.values = known
    emitter.arrays |= leaving


def _clone_scalar(emitter: Emitter, op: Operation) -> None:
    if isinstance(op, loop.LoadOp):
        map, indices = emitter.map(subscripts_of(op))
        clone: Operation = loop.LoadOp(emitter.value(op.source), map, indices)
    else:
        clone = op.clone({operand: emitter.value(operand) for operand in dict.fromkeys(op.operands)})
    emitter.run(clone)
    for old, new in zip(op.results, clone.results, strict=True):
        new.name_hint = old.name_hint
        emitter.values[old] = new


def _accumulate(emitter: Emitter, op: loop.YieldOp, fold: Fold | None) -> None:
    """Fold the values of one iteration into the accumulators."""
    assert fold is not None
    values = [emitter.value(value) for value in op.operands]
    values = emitter.select_active(fold.conditions, values, fold.reduction.identities)
    emitter.fold_into(fold.accumulators, fold.reduction.combiner, values)


def _is_apart(op: Operation, fold: Fold | None) -> bool:
    """Whether an operation is a yield that no one nest folds: of values along different register axes, or no fold."""
    if not isinstance(op, loop.YieldOp) or yields_inner_reduction(op):
        return False
    return fold is None or fold.scaled_at is not None or len({array.axes for array in fold.accumulators}) > 1


def _fold_apart(emitter: Emitter, op: loop.YieldOp, fold: Fold) -> None:
    """Fold the values of one iteration into accumulators of different axes: each of the combiner's operations in a nest
    of its own axes.
    """
    if fold.scaled_at is not None:
        _add_scaled(emitter, op, fold)
        return
    block = fold.reduction.combiner.block
    arguments = list(block.args)
    for argument, array in zip(arguments, fold.accumulators, strict=False):
        emitter.arrays[argument] = array
    taken = zip(arguments[len(fold.accumulators) :], op.operands, fold.reduction.identities, strict=True)
    for argument, value, identity in taken:
        if fold.conditions:
            array = emitter.register(value.type, emitter.axes_of([argument]), value.name_hint)
            with emitter.nest(array.axes):
                values = emitter.select_active(fold.conditions, [emitter.value(value)], ArrayAttr([identity]))
                emitter.store(values[0], array)
            emitter.arrays[argument] = array
        elif (held := emitter.arrays.get(value)) is not None:
            emitter.arrays[argument] = held
        else:
            emitter.values[argument] = emitter.value(value)
    lower_ops(emitter, block.ops)
    results = [*zip(block.last_op.operands, fold.accumulators, strict=True)] if block.last_op else []
    for axes in dict.fromkeys(array.axes for array in fold.accumulators):
        with emitter.nest(axes):
            for value, array in results:
                if array.axes == axes:
                    emitter.store(emitter.value(value), array)


def _scale(emitter: Emitter, op: loop.ScanOp, fold: Fold) -> None:
    """Take a step's largest score into the maximum, and scale what a streaming reduction has folded to it.

    Of the combiner no more is needed than that.
    """
    block, accumulators = fold.reduction.combiner.block, fold.accumulators
    terminator = block.last_op
    assert terminator is not None
    for argument, array in zip(block.args, accumulators, strict=False):
        emitter.bind_array(argument, array)
    held = emitter.arrays.get(op.inputs[0])
    emitter.bind(block.args[len(accumulators)], held if held is not None else emitter.value(op.inputs[0]))
    maximum, *sums = terminator.operands
    scaled = [maximum, *(total.owner.operands[0] for total in sums if isinstance(total.owner, Operation))]
    Rewriter.replace_op(terminator, loop.YieldOp(*scaled))
    erase_dead(block)
    lower_ops(emitter, block.ops)
    for value, array in zip(scaled, accumulators, strict=True):
        with emitter.nest(array.axes):
            emitter.store(emitter.value(value), array)
    emitter.bind_array(op.results[0], accumulators[0])


def _add_scaled(emitter: Emitter, op: loop.YieldOp, fold: Fold) -> None:
    """Add what a step yields, relative to the maximum, to accumulators that are scaled to it already."""
    for value, array in zip(op.operands[1:], fold.accumulators[1:], strict=True):
        if isinstance(value.owner, tile.ContractOp) and _scaled_place(value.owner, fold) is not None:
            continue
        with emitter.nest(array.axes):
            emitter.store(emitter.add(arith.AddfOp(emitter.load(array), emitter.value(value))), array)


def _scaled_place(op: tile.ContractOp, fold: Fold | None) -> int | None:
    """The accumulator to which a contract in a streaming reduction adds in place; None where it does not."""
    if fold is None or fold.scaled_at is None or fold.reduction.apart or not op.result.has_one_use():
        return None
    (use,) = op.result.uses
    return use.index if use.operation is fold.reduction.body.block.last_op else None


def activity(emitter: Emitter, block: Block) -> tuple[list[Condition], list[Condition]]:
    """The activity conditions of a body that can fail: those that are uniform over a CTA, and the others.

    CTAs that a combine folds all reach it, so what varies along them is no branch either.
    """
    uniform: list[Condition] = []
    varying: list[Condition] = []
    for where in wheres(block):
        form = condition_of(where)
        if never_fails(form):
            continue
        depends = emitter.dependence.of(*where.indices)
        is_uniform = _is_known(form) and not any(axis in depends for axis in emitter.lanes)
        (uniform if is_uniform else varying).append(form)
    return uniform, varying


def _is_known(condition: Condition) -> bool:
    """Whether a condition is one of axes and loop variables alone."""
    return all(is_coordinate(root) for root in condition.roots())


def branches(emitter: Emitter, uniform: Sequence[Condition], varying: Sequence[Condition]) -> list[Condition]:
    """What a branch around a body checks: the uniform conditions, and what must hold where any thread meets the others.

    So a CTA skips the steps of a masked row in which no thread has an active point.
    """
    implied = [implied_condition(condition, emitter.lanes) for condition in varying if _is_known(condition)]
    return [*uniform, *(form for form in implied if form is not None and not never_fails(form))]


def lower_body(emitter: Emitter, block: Block) -> None:
    """Emit a launch or free loop body under its activity conditions."""
    uniform, varying = activity(emitter, block)
    outer = list(emitter.conditions)
    with emitter.guarded(branches(emitter, uniform, varying)):
        emitter.conditions = outer + varying
        lower_ops(emitter, block.ops)
    emitter.conditions = outer


def _enter_loop(emitter: Emitter, op: loop.LoopLike) -> None:
    """Emit into a copy of a loop from now on. Raises PassFailedException if registers of a thread bound it unlike."""
    if axes := emitter.axes_of(op.bound_operands):
        raise failure(
            op,
            f"the bound of the loop over {label(op.iv)} varies along the register axis "
            f"{label(axes[0])}; only loops that the registers of a thread run together are lowered",
        )
    map, operands = emitter.map(bounds_of(op))
    body = Block(arg_types=[op.iv.type])
    body.args[0].name_hint = op.iv.name_hint
    emitter.run(loop.ForOp(map, Region(body), operands, bool(op.unroll)))
    emitter.coordinates[op.iv] = body.args[0]
    emitter.block = body


def _lower_for(emitter: Emitter, op: loop.ForOp) -> None:
    outer = emitter.block
    _start_scans(emitter, op)
    _enter_loop(emitter, op)
    lower_body(emitter, op.body.block)
    emitter.block = outer


def _lower_reduce(emitter: Emitter, op: loop.ReduceOp, outer_fold: Fold | None) -> None:
    """Emit a reduction as a loop over register accumulators; one that the outer reduction yields shares the outer's."""
    parent = op.parent_op()
    shared = outer_fold if isinstance(parent, loop.ReduceOp) and shares_accumulator(op, parent) else None
    accumulators = shared.accumulators if shared is not None else emitter.accumulators(op)
    uniform, varying = (
        [condition for condition in conditions if not adds_zero(op, condition)]
        for conditions in activity(emitter, op.body.block)
    )
    inherited = shared.conditions if shared is not None else ()
    read_vectors(emitter, op)
    conditions = (*inherited, *varying)
    scaled_at = op.yielded[0].owner if not conditions and weighs_by_largest(op) else None
    fold = Fold(op, accumulators, conditions, scaled_at)
    if scaled_at is None:
        _start_scans(emitter, op)
    outer, around = emitter.block, list(emitter.conditions)
    _enter_loop(emitter, op)
    with emitter.guarded(branches(emitter, uniform, varying)):
        emitter.conditions = around + activity(emitter, op.body.block)[1]
        lower_ops(emitter, op.body.block.ops, fold)
    emitter.block, emitter.conditions = outer, around
    if shared is not None:
        return
    for result, array in zip(op.results, accumulators, strict=True):
        emitter.bind_array(result, array)
