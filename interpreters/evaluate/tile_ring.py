"""The meaning of rings on numpy arrays: slots, the steps they hold, and what may be read and overwritten when.

Loops with operations on rings run step by step, so a ring always has one history. A copy lands at once here; that it is
only read after a wait for its step is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from deplodock.dialects import tile
from deplodock.errors import Error
from deplodock.interpreters.affine import affine
from deplodock.interpreters.evaluate.machine import Handler, Machine, PointBuffer, Points, uninitialised
from deplodock.interpreters.evaluate.rings import Ring
from deplodock.interpreters.evaluate.tile_slab import slab_of
from deplodock.interpreters.scalars import describe
from deplodock.interpreters.values import Array


def _ring(machine: Machine, op: tile.RingOp, space: Points) -> None:
    machine.rings[op.ring] = Ring(op.depth.value.data)


def _alloc(machine: Machine, op: tile.AllocOp, space: Points) -> None:
    type = tile.memref_of(op.result)
    machine.values[op.result] = uninitialised(type.get_shape(), machine.dtype(type.element_type))


def _step(machine: Machine, op: tile.CopyOp | tile.WaitOp | tile.ReleaseOp) -> int:
    steps = affine(op.step.data.results[0], machine.arrays(op.step_indices))
    if steps.size != 1:
        raise Error(f"{describe(op)}: the step of a ring is one for the CTA and its loops, got {steps.size} of them")
    return int(steps.reshape(-1)[0])


def _copy(machine: Machine, op: tile.CopyOp, space: Points) -> None:
    ring, step = machine.rings[op.ring], _step(machine, op)
    holds = None if op.where is None else machine.holds(op.where.data, op.where_indices)
    if holds is not None and not holds.any():
        return
    _check(op, ring.fill(op.destination, step))
    slab = slab_of(machine, op, op.destination, op.shape, space, None if holds is None or holds.all() else holds)
    buffer = _filled(machine.buffer(op.destination), step % ring.depth, slab)
    buffer.guard = lambda load, subscripts: _check_slots(load, ring, op.destination, subscripts[0])
    machine.values[op.destination] = buffer


def _check_slots(op: Operation, ring: Ring, buffer: SSAValue, slots: Array) -> None:
    for slot in np.unique(slots).tolist():
        _check(op, ring.read(buffer, slot))


def _check(op: Operation, wrong: str | None) -> None:
    if wrong is not None:
        raise Error(f"{describe(op)}: {wrong}")


def _filled(buffer: PointBuffer, slot: int, slab: PointBuffer) -> PointBuffer:
    """The buffer with the elements of a slab, of all points that own one, in a slot."""
    rank, data = slab.rank, slab.data
    owners = np.broadcast_shapes(buffer.data.shape[: buffer.data.ndim - rank - 1], data.shape[: data.ndim - rank])
    shape = (*owners, *buffer.shape)
    initialised = buffer.initialised
    assert initialised is not None
    result = PointBuffer(_grown(buffer.data, shape), rank + 1, _grown(initialised, shape))
    assert result.initialised is not None
    at = (..., slot, *(slice(None),) * rank)
    result.data[at] = data
    result.initialised[at] = True if slab.initialised is None else slab.initialised
    return result


def _grown(array: Array, shape: Sequence[int]) -> Array:
    return array if array.shape == tuple(shape) else np.broadcast_to(array, shape).copy()


def _wait(machine: Machine, op: tile.WaitOp, space: Points) -> None:
    _check(op, machine.rings[op.ring].wait(_step(machine, op)))


def _release(machine: Machine, op: tile.ReleaseOp, space: Points) -> None:
    _check(op, machine.rings[op.ring].release(_step(machine, op)))


HANDLERS: dict[type[Operation], Handler] = {
    tile.RingOp: _ring,
    tile.AllocOp: _alloc,
    tile.CopyOp: _copy,
    tile.WaitOp: _wait,
    tile.ReleaseOp: _release,
}
