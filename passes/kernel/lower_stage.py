"""Lowers `tile.stage` and `tile.copy`: a thread fills its register slab, the threads of a CTA a shared slab together.

Elements of the source outside the buffer become zero. Consecutive elements move together where both sides are
contiguous and aligned. The asynchronous copies of one step of a ring are one group of each thread, which the wait for
that step counts; other asynchronous slabs are waited for at once. Barriers are not placed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.slabs import Slab, slab_of, stand_in
from deplodock.analysis.affine.linear import Linear, coarsened_condition, implied_condition, value_range
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import label
from deplodock.analysis.order.rings import (
    closes_group,
    conditions_of,
    groups_behind,
    phase_of,
    refills,
    step_boxes,
    step_of,
)
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.kernel.move import ASYNC_BYTES
from deplodock.dialects.tile import Memory
from deplodock.passes.failures import failure
from deplodock.passes.kernel.emit import Condition, Emitter, in_shape, never_fails
from deplodock.passes.kernel.lower_boxes import copy_boxes, expected_bytes, first_thread

UNROLLED_COPIES = 8
"""The most copies of a thread that are unrolled, so that their loads are in flight together."""

UNROLLED_ASYNC_COPIES = 32
"""The most asynchronous copies of a thread that are unrolled: they take no registers, only instructions."""


def lower_stage(emitter: Emitter, op: tile.StageOp) -> None:
    """Emit the allocation of a slab and the copies that fill it."""
    buffer = emitter.add(kernel.AllocOp(loop.memref_of(op.slab)), op.slab.name_hint)
    emitter.values[op.slab] = buffer
    slab = replace(slab_of(op), destination=buffer)
    if op.is_tma:
        _fill_at_once(emitter, op, slab)
        return
    _fill(emitter, op, slab)
    if op.is_async and not _continues(op):
        emitter.run(kernel.CommitGroupOp())
        emitter.run(kernel.WaitGroupOp(0))


def _fill_at_once(emitter: Emitter, op: tile.StageOp, slab: Slab) -> None:
    """Copy a slab in boxes and wait for them, at a barrier of their own."""
    full = emitter.add(kernel.MbarrierOp(1, 1), "full")
    with emitter.guarded([first_thread(emitter)]):
        emitter.run(kernel.ArriveOp(full, emitter.map([Linear()]), expect=expected_bytes(op)))
        copy_boxes(emitter, op, slab, (full, Linear()))
    emitter.run(kernel.WaitPhaseOp(full, emitter.map([Linear()]), emitter.map([Linear()])))


def lower_alloc(emitter: Emitter, op: tile.AllocOp) -> None:
    """Emit the allocation of a ring's slabs."""
    emitter.values[op.result] = emitter.add(kernel.AllocOp(loop.memref_of(op.result)), op.result.name_hint)


def lower_ring(emitter: Emitter, op: tile.RingOp) -> None:
    """Emit the barriers of an mbarrier ring: a slot is full once its copies landed, empty once all warps read it."""
    if not op.is_mbarrier:
        return
    depth, warps = op.depth.value.data, -(-emitter.threads // WARP)
    full = emitter.add(kernel.MbarrierOp(depth, _filling_arrivals(emitter, op)), "full")
    emitter.rings[op.ring] = full, emitter.add(kernel.MbarrierOp(depth, warps), "empty")


def _filling_arrivals(emitter: Emitter, op: tile.RingOp) -> int:
    """How often a phase of a full barrier is arrived at: by the copies of every thread, and once for all boxes."""
    copies = [use.operation for use in op.ring.uses if isinstance(use.operation, tile.CopyOp)]
    has_async = any(copy.is_async for copy in copies)
    return has_async * emitter.threads + any(copy.is_tma for copy in copies)


def lower_copy(emitter: Emitter, op: tile.CopyOp) -> None:
    """Emit the copies of one step to its slot; the last of the step closes the group, whether or not it copies.

    On an mbarrier ring the first waits until the slot is empty, and the last arrives at the phase of the full one. The
    first copy in boxes stands for all of the step.
    """
    depth = tile.depth_of(op.ring)
    slot, phase = phase_of(step_of(op), depth)
    conditions = [condition for condition in conditions_of(op) if not never_fails(condition)]
    barriers, boxes = emitter.rings.get(op.ring), step_boxes(op)
    if op.is_tma and op is not boxes[0] and not closes_group(op):
        return
    with emitter.guarded(conditions):
        if barriers is not None and refills(op):
            before = (phase + 1) % 2
            emitter.run(kernel.WaitPhaseOp(barriers[1], emitter.map([slot]), emitter.map([before])))
        if not op.is_tma:
            slab = replace(slab_of(op), destination=emitter.value(op.destination), at=(slot,), facts=tuple(conditions))
            _fill(emitter, op, slab)
        elif op is boxes[0]:
            _fill_slot(emitter, boxes, slot)
        if barriers is not None and closes_group(op):
            emitter.run(kernel.ArriveCopiesOp(barriers[0], emitter.map([slot])))
    if barriers is None and closes_group(op):
        emitter.run(kernel.CommitGroupOp())


def _fill_slot(emitter: Emitter, copies: Sequence[tile.CopyOp], slot: Linear) -> None:
    """Copy slabs in boxes to a slot of an mbarrier ring."""
    if (barriers := emitter.rings.get(copies[0].ring)) is None:
        raise failure(copies[0], "tma copies arrive at phases; the ring must be an mbarrier ring")
    with emitter.guarded([first_thread(emitter)]):
        bytes = sum(expected_bytes(op) for op in copies)
        emitter.run(kernel.ArriveOp(barriers[0], emitter.map([slot]), expect=bytes))
        for op in copies:
            slab = replace(slab_of(op), destination=emitter.value(op.destination), at=(slot,))
            copy_boxes(emitter, op, slab, (barriers[0], slot))


def lower_wait(emitter: Emitter, op: tile.WaitOp) -> None:
    """Emit the wait for the groups up to the step's, or for its phase."""
    if (barriers := emitter.rings.get(op.ring)) is not None:
        slot, phase = phase_of(step_of(op), tile.depth_of(op.ring))
        emitter.run(kernel.WaitPhaseOp(barriers[0], emitter.map([slot]), emitter.map([phase % 2])))
    elif (groups := groups_behind(op)) is not None:
        emitter.run(kernel.WaitGroupOp(groups))


def lower_release(emitter: Emitter, op: tile.ReleaseOp) -> None:
    """Emit the arrivals of the warps, which have read the step."""
    if (barriers := emitter.rings.get(op.ring)) is not None:
        slot = step_of(op) % tile.depth_of(op.ring)
        emitter.run(kernel.ArriveOp(barriers[1], emitter.map([slot]), is_warp=True))


def _continues(op: tile.StageOp) -> bool:
    """Whether another asynchronous slab is filled right after this one."""
    following: Operation | None = op.next_op
    while isinstance(following, loop.IndexOp):
        following = following.next_op
    return isinstance(following, tile.StageOp) and bool(following.is_async)


def _fill(emitter: Emitter, op: tile.StageOp | tile.CopyOp, slab: Slab) -> None:
    is_async = bool(op.is_async)
    if is_async and (bytes := slab.copy_bytes()) not in ASYNC_BYTES:
        raise failure(
            op,
            f"{label(slab.source)} cannot be copied asynchronously: a thread copies {bytes} bytes at once, "
            "and an asynchronous copy moves 4, 8 or 16",
        )
    outer = emitter.block
    if tile.memory_of(slab.destination) is Memory.REGISTER:
        _fill_registers(emitter, slab)
    else:
        _fill_shared(emitter, slab, is_async)
    emitter.block = outer


def _fill_registers(emitter: Emitter, slab: Slab) -> None:
    """One thread copies its slab in unrolled loops over the slab's coordinates."""
    coordinates: list[Linear] = []
    width = 1
    for dim, extent in enumerate(slab.shape):
        if dim == len(slab.shape) - 1:
            width = slab.width_along(dim)
        trips = extent // width
        name = f"d{dim}"
        coordinates.append(Linear.of(emitter.enter_loop(trips, name), width) if trips > 1 else Linear())
    _move(emitter, slab, coordinates, width)


def _fill_shared(emitter: Emitter, slab: Slab, is_async: bool) -> None:
    """The threads of the CTA take turns over the slab, in the order of `Slab.coordinates`."""
    total, threads = slab.copies(), emitter.threads
    if not total:
        return
    trips = -(-total // threads)
    flat = Linear.of(emitter.thread)
    if trips > 1:
        unroll = trips <= (UNROLLED_ASYNC_COPIES if is_async else UNROLLED_COPIES)
        flat = Linear.of(emitter.enter_loop(trips, "c", unroll=unroll), threads) + flat
    chunk = stand_in(total)
    coordinates = slab.coordinates(Linear.of(chunk), threads)
    beyond: list[Condition] = [flat - total] if total % threads else []
    with emitter.guarded(beyond):
        _move(emitter, slab, coordinates, slab.copy_width(), is_async, lambda form: form.substitute(chunk, flat))


def _move(
    emitter: Emitter,
    slab: Slab,
    coordinates: Sequence[Linear],
    width: int,
    is_async: bool = False,
    place: Callable[[Linear], Linear] = lambda form: form,
) -> None:
    """Copy `width` elements to these slab coordinates, zeros where they lie outside; `place` places the forms."""
    subscripts = slab.subscripts(coordinates)
    outside = [
        place(form) for form in (*_outside(slab, subscripts), *map(coarsened_condition, slab.conditions(coordinates)))
    ]
    guard = emitter.condition_map(outside) if outside else None
    read = (emitter.value(slab.source), *emitter.map([place(form) for form in subscripts]))
    written = (slab.destination, *emitter.map([place(form) for form in (*slab.at, *coordinates)]))
    emitter.run(kernel.MoveOp(width, read, written, guard, is_async))


def _outside(slab: Slab, subscripts: Sequence[Linear]) -> list[Condition]:
    """When subscripts lie inside the source, less what always holds under the slab's facts."""
    narrowed = _narrowed(slab.facts)
    for root, other in narrowed:
        subscripts = [form.substitute(root, Linear.of(other)) for form in subscripts]
    conditions = in_shape(slab.type, subscripts)
    for root, other in narrowed:
        conditions = [form.substitute(other, Linear.of(root)) for form in conditions]
    return conditions


def _narrowed(facts: Sequence[Condition]) -> list[tuple[SSAValue, SSAValue]]:
    """Roots that some condition implies to be below a limit, each with a root of the values that are left."""
    found: list[tuple[SSAValue, SSAValue]] = []
    for fact in facts:
        for root, coefficient in fact.terms:
            if not isinstance(root, SSAValue) or coefficient < 1:
                continue
            alone = implied_condition(fact, set(fact.roots()) - {root})
            if alone is None or len(alone.terms) != 1:
                continue
            bounds, limit = value_range(root), (-alone.constant - 1) // coefficient + 1
            if bounds is not None and bounds[0] == 0 and 0 < limit <= bounds[1]:
                found.append((root, stand_in(limit)))
    return found
