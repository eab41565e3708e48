"""The meaning of the `tile` dialect on numpy arrays: launch axes are dimensions of the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from xdsl.ir import Operation

from deplodock.dialects import tile
from deplodock.dialects.tile import Binding, Memory, memory_of
from deplodock.errors import Error
from deplodock.interpreters import machine as core
from deplodock.interpreters.machine import Buffer, Handler, Machine, Space, describe, outside_as_false
from deplodock.interpreters.scalars import scalar_value
from deplodock.interpreters.values import Array


def _launch(machine: Machine, op: tile.LaunchOp, space: Space) -> None:
    operands = machine.arrays(op.extent_operands)
    extents = [max(0, int(machine.affine(extent.data, operands)[0].max(initial=0))) for extent in op.extents]
    combined = {axis for inner in op.body.walk() if isinstance(inner, tile.CombineOp) for axis in inner.axes}
    whole = [axis in combined for axis in op.axes]
    machine.dims.update((axis, space.rank + axis.index) for axis in op.axes)
    with machine.launch():
        for starts, sizes in _chunks(extents, whole, max(1, core.MAX_POINTS // max(1, space.points))):
            inner = Space((*space.extents, *sizes), space.active)
            for axis, start in zip(op.axes, starts, strict=True):
                machine.values[axis] = inner.coordinate(machine.dims[axis], start)
            machine.run(op.body.block, inner)


def _chunks(
    extents: Sequence[int], whole: Sequence[bool], budget: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Starts and sizes of boxes of about `budget` points that cover the extents; the last axes are cut last."""
    for extent, keep in zip(extents, whole, strict=True):
        budget = budget // max(1, extent) if keep else budget
    steps = list(extents)
    for axis in reversed(range(len(extents))):
        if not whole[axis]:
            steps[axis] = max(1, min(extents[axis], budget))
            budget //= steps[axis]
    ranges = [range(0, extent, max(1, step)) for extent, step in zip(extents, steps, strict=True)]
    for starts in product(*ranges):
        yield starts, tuple(min(step, n - start) for start, step, n in zip(starts, steps, extents, strict=True))


def _combine(machine: Machine, op: tile.CombineOp, space: Space) -> None:
    dims = [machine.dims[axis] for axis in op.axes]
    axes = [space.rank - 1 - dim for dim in dims]
    identities = [
        scalar_value(identity, machine.dtype(value.type))
        for identity, value in zip(op.identities, op.outputs, strict=True)
    ]
    values = [
        _leading(machine.array(value), identity, axes, space)
        for value, identity in zip(op.inputs, identities, strict=True)
    ]
    for value, result in zip(op.outputs, machine.fold(op.combiner, identities, values), strict=True):
        machine.values[value] = result.reshape(_uniform(result.shape, axes))


def _leading(value: Array, identity: Array, axes: Sequence[int], space: Space) -> Array:
    """The value with the identity at inactive points and all points of `axes`, in their order, in front."""
    if space.active is not None:
        value = np.where(space.active, value, identity)
    shape = [1] * (space.rank - value.ndim) + list(value.shape)
    value = value.reshape(shape)
    full = [space.extents[space.rank - 1 - axis] if axis in axes else n for axis, n in enumerate(shape)]
    moved = np.moveaxis(np.broadcast_to(value, full), axes, range(len(axes)))
    return moved.reshape(-1, *moved.shape[len(axes) :])


def _uniform(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """The shape of a folded value with extent 1 along `axes` again."""
    rest = iter(shape)
    return [1 if axis in axes else next(rest) for axis in range(len(shape) + len(axes))]


def _stage(machine: Machine, op: tile.StageOp, space: Space) -> None:
    source = machine.buffer(op.source)
    slab = tile.memref_of(op.slab).get_shape()
    owners = [_owned(value, space) for value in machine.arrays(op.indices)]
    symbols = [value.reshape(*value.shape, *(1,) * len(slab)) for value in owners]
    dims = [np.arange(n).reshape(-1, *(1,) * (len(slab) - 1 - axis)) for axis, n in enumerate(slab)]
    subscripts = machine.affine(op.map.data, dims, symbols)
    _check_owner(machine, op, owners)
    shape = np.broadcast_shapes(*(s.shape for s in subscripts), (1,) * space.rank + tuple(slab))
    inside = outside_as_false(subscripts, source.shape) if all(shape) else None
    if inside is not None:
        subscripts = [np.clip(s, 0, max(n - 1, 0)) for s, n in zip(subscripts, source.shape, strict=True)]
    data = machine.load(op, source, subscripts, Space(active=inside))
    if inside is not None:
        data = np.where(inside, data, np.zeros((), data.dtype))
    machine.values[op.slab] = Buffer(np.ascontiguousarray(np.broadcast_to(data, shape)), len(slab))


def _owned(value: Array, space: Space) -> Array:
    """The value with all dimensions of the points."""
    return value.reshape((1,) * (space.rank - value.ndim) + value.shape)


def _check_owner(machine: Machine, op: tile.StageOp, owners: Sequence[Array]) -> None:
    """A shared slab is one for the CTA: its origin must not vary along thread or register axes."""
    launch = op.parent_op()
    while launch is not None and not isinstance(launch, tile.LaunchOp):
        launch = launch.parent_op()
    if launch is None or memory_of(op.slab) is not Memory.SHARED:
        return
    for axis in launch.axes:
        binding = launch.binding(axis)
        if binding is Binding.BLOCK:
            continue
        if any(owner.shape[owner.ndim - 1 - machine.dims[axis]] > 1 for owner in owners):
            raise Error(
                f"{describe(op)}: a shared slab is one for the CTA, but its origin varies along a {binding} axis"
            )


HANDLERS: dict[type[Operation], Handler] = {
    tile.LaunchOp: _launch,
    tile.CombineOp: _combine,
    tile.StageOp: _stage,
}
