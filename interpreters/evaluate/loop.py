"""The meaning of the `loop` dialect on numpy arrays: loops and reductions are dimensions of the points."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from deplodock.analysis.shape.nest import scans_along
from deplodock.dialects import loop
from deplodock.interpreters.evaluate.contraction import contract
from deplodock.interpreters.evaluate.machine import Handler, Machine, Points
from deplodock.interpreters.evaluate.scan import loop_scan
from deplodock.interpreters.scalars import scalar_value
from deplodock.interpreters.values import Array


def _yielded(machine: Machine, op: loop.ReduceOp, space: Points) -> list[Array]:
    """What the iterations yield, with the identity at inactive ones, and a leading dimension of all iterations."""
    result: list[Array] = []
    for value, identity in zip(op.yielded, op.identities, strict=True):
        array = machine.array(value)
        if space.active is not None:
            array = np.where(space.active, array, scalar_value(identity, array.dtype))
        missing = space.rank - array.ndim
        array = array.reshape((1,) * missing + array.shape)
        result.append(np.broadcast_to(array, (space.extents[-1], *array.shape[1:])))
    return result


def _start_scans(machine: Machine, op: loop.LoopLike) -> None:
    """Forget what the scans along a loop have folded when it ran before."""
    for scan in scans_along(op.iv):
        if scan.axes[0] is op.iv:
            machine.carries.pop(scan, None)


def _for(machine: Machine, op: loop.ForOp, space: Points) -> None:
    bounds = machine.affine(op.bound.data, machine.arrays(op.bound_operands))
    _start_scans(machine, op)
    for inner in machine.iterations(space, op.iv, bounds):
        machine.run(op.body.block, inner)


def _reduce(machine: Machine, op: loop.ReduceOp, space: Points) -> None:
    if machine.contracts and (total := contract(machine, op, space)) is not None:
        machine.values[op.outputs[0]] = total + scalar_value(op.identities.data[0], total.dtype)
        return
    bounds = machine.affine(op.bound.data, machine.arrays(op.bound_operands))
    _start_scans(machine, op)
    results = machine.identities(op.identities, [value.type for value in op.outputs])
    for inner in machine.iterations(space, op.iv, bounds):
        inner = machine.run(op.body.block, inner)
        results = machine.fold(op.combiner, results, _yielded(machine, op, inner))
    machine.values.update(zip(op.outputs, results, strict=True))


def _index(machine: Machine, op: loop.IndexOp, space: Points) -> None:
    (machine.values[op.result],) = machine.affine(op.map.data, machine.arrays(op.indices))


def _guard(machine: Machine, op: loop.GuardOp, space: Points) -> None:
    machine.run(op.body.block, space.where(machine.holds(op.conditions.data, op.indices)))


def _inside(machine: Machine, op: loop.InsideOp, space: Points) -> None:
    machine.values[op.result] = machine.holds(op.conditions.data, op.indices)


def _load(machine: Machine, op: loop.LoadOp, space: Points) -> None:
    buffer, subscripts = machine.buffer(op.source), machine.affine(op.map.data, machine.arrays(op.indices))
    machine.values[op.result] = machine.load(op, buffer, subscripts, space, padded=op.padded is not None)


def _store(machine: Machine, op: loop.StoreOp, space: Points) -> None:
    subscripts = machine.affine(op.map.data, machine.arrays(op.indices))
    machine.store(op, machine.array(op.value), machine.buffer(op.destination), subscripts, space)


HANDLERS: dict[type[Operation], Handler] = {
    loop.ForOp: _for,
    loop.ReduceOp: _reduce,
    loop.ScanOp: loop_scan,
    loop.IndexOp: _index,
    loop.GuardOp: _guard,
    loop.InsideOp: _inside,
    loop.LoadOp: _load,
    loop.StoreOp: _store,
}
