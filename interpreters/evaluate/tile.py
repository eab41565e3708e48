"""The meaning of the `tile` dialect on numpy arrays: launch axes are dimensions of the points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.operations import ancestors
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.errors import Error
from deplodock.interpreters.affine import outside_as_false
from deplodock.interpreters.evaluate import machine as core
from deplodock.interpreters.evaluate import tile_contract, tile_ring
from deplodock.interpreters.evaluate.machine import Handler, Machine, PointBuffer, Points, uninitialised
from deplodock.interpreters.evaluate.scan import leading
from deplodock.interpreters.evaluate.tile_contract import taken
from deplodock.interpreters.evaluate.tile_slab import check_owner, owned, slab_of
from deplodock.interpreters.scalars import describe


def _launch(machine: Machine, op: tile.LaunchOp, space: Points) -> None:
    operands = machine.arrays(op.extent_operands)
    extents = [max(0, int(machine.affine(extent.data, operands)[0].max(initial=0))) for extent in op.extents]
    folded = {axis for inner in op.body.walk() for axis in _whole_axes(inner)}
    whole = [axis in folded for axis in op.axes]
    held = [1 if op.binding(axis) is Binding.ENGINE else n for axis, n in zip(op.axes, extents, strict=True)]
    machine.charge(op, math.prod(held), space.points)
    machine.dims.update((axis, space.rank + axis.index) for axis in op.axes)
    with machine.launch():
        budget = max(1, core.MAX_POINTS // max(1, space.points * math.prod(itertools.compress(held, whole))))
        for starts, sizes in _chunks(extents, whole, budget):
            inner = Points((*space.extents, *sizes), space.active)
            for axis, start in zip(op.axes, starts, strict=True):
                machine.values[axis] = inner.coordinate(machine.dims[axis], start)
            machine.run(op.body.block, inner)


def _whole_axes(op: Operation) -> Sequence[SSAValue]:
    """The axes of which an operation needs all points at once."""
    match op:
        case loop.ScanOp():
            return op.axes
        case tile.CombineOp() | tile.ContractOp():
            return [*op.axes, *op.moved]
        case tile.KeepOp():
            return _axes_of_cta(op)
        case _:
            return ()


def _chunks(
    extents: Sequence[int], whole: Sequence[bool], budget: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Starts and sizes of boxes that cover the extents, whole along some axes, the last others cut last.

    They have about `budget` points along those others.
    """
    steps = list(extents)
    for axis in reversed(range(len(extents))):
        if not whole[axis]:
            steps[axis] = max(1, min(extents[axis], budget))
            budget //= steps[axis]
    ranges = [range(0, extent, max(1, step)) for extent, step in zip(extents, steps, strict=True)]
    for starts in product(*ranges):
        yield starts, tuple(min(step, n - start) for start, step, n in zip(starts, steps, extents, strict=True))


def _combine(machine: Machine, op: tile.CombineOp, space: Points) -> None:
    dims = [machine.dims[axis] for axis in op.axes]
    axes = [space.rank - 1 - dim for dim in dims]
    identities = machine.identities(op.identities, [value.type for value in op.outputs])
    values = [
        leading(machine.array(value), identity, axes, space)
        for value, identity in zip(op.inputs, identities, strict=True)
    ]
    for value, result in zip(op.outputs, machine.fold(op.combiner, identities, values), strict=True):
        machine.values[value] = taken(machine, op.at, result.reshape(_uniform(result.shape, axes)), space)


def _uniform(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """The shape of a folded value with extent 1 along `axes` again."""
    rest = iter(shape)
    return [1 if axis in axes else next(rest) for axis in range(len(shape) + len(axes))]


def _stage(machine: Machine, op: tile.StageOp, space: Points) -> None:
    shape = tile.memref_of(op.slab).get_shape()
    machine.values[op.slab] = slab_of(machine, op, op.slab, shape, space)


def _axes_of_cta(op: tile.KeepOp) -> Sequence[SSAValue]:
    """The axes of the launch around an operation whose coordinates belong to one CTA."""
    launch = next((around for around in ancestors(op) if isinstance(around, tile.LaunchOp)), None)
    return () if launch is None else [axis for axis in launch.axes if axis not in launch.ctas]


def _keep(machine: Machine, op: tile.KeepOp, space: Points) -> None:
    slab = tile.memref_of(op.slab)
    value, subscripts = machine.array(op.value), machine.affine(op.map.data, machine.arrays(op.indices))
    shape = [1] * space.rank
    for array in (value, *subscripts):
        shape = [max(pair) for pair in zip(shape, (1,) * (space.rank - array.ndim) + array.shape, strict=True)]
    for axis in _axes_of_cta(op):
        shape[space.rank - 1 - machine.dims[axis]] = 1
    kept = uninitialised((*shape, *slab.get_shape()), machine.dtype(slab.element_type))
    buffer = PointBuffer(kept.data, len(slab.get_shape()), kept.initialised)
    machine.keep(op, value, buffer, subscripts, space)
    machine.values[op.slab] = buffer


def _store(machine: Machine, op: tile.StoreOp, space: Points) -> None:
    slab, destination = machine.buffer(op.slab), machine.buffer(op.destination)
    shape = tile.memref_of(op.slab).get_shape()
    owners = [owned(value, space) for value in machine.arrays(op.indices)]
    check_owner(machine, op, owners)
    symbols = [value.reshape(*value.shape, *(1,) * len(shape)) for value in owners]
    dims = [np.arange(n).reshape(-1, *(1,) * (len(shape) - 1 - dim)) for dim, n in enumerate(shape)]
    subscripts = machine.affine(op.map.data, dims, symbols)
    inside = outside_as_false(subscripts, destination.shape)
    if inside is not None:
        subscripts = [np.clip(s, 0, max(n - 1, 0)) for s, n in zip(subscripts, destination.shape, strict=True)]
    if slab.initialised is not None and not np.all(slab.initialised | (False if inside is None else ~inside)):
        raise Error(f"{describe(op)}: an element of the slab that is stored has no value")
    machine.store(op, slab.data, destination, subscripts, Points(active=inside))


HANDLERS: dict[type[Operation], Handler] = {
    tile.LaunchOp: _launch,
    tile.CombineOp: _combine,
    tile.StageOp: _stage,
    tile.KeepOp: _keep,
    tile.StoreOp: _store,
    tile.ContractOp: tile_contract.contract,
    **tile_ring.HANDLERS,
}
