"""The meaning of scans on numpy arrays: prefixes along a dimension of a tensor, or along dimensions of the points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deplodock.dialects import loop, tensor
from deplodock.dialects.tensor import element_of
from deplodock.interpreters.evaluate.machine import Machine, Points
from deplodock.interpreters.values import Array


def tensor_scan(machine: Machine, op: tensor.ScanOp, space: Points) -> None:
    """The prefixes along a dimension of tensors."""
    dim, step = op.dim.value.data, -1 if op.reverse else 1
    identities = machine.identities(op.identities, map(element_of, op.outputs))
    values = [np.moveaxis(value, dim, 0)[::step] for value in machine.arrays(op.inputs)]
    prefixes = machine.prefixes(op.combiner, values)
    if op.exclusive:
        prefixes = _moved_on(prefixes, identities)
    for value, result in zip(op.outputs, prefixes, strict=True):
        machine.values[value] = np.moveaxis(result[::step], 0, dim)


def loop_scan(machine: Machine, op: loop.ScanOp, space: Points) -> None:
    """The prefixes along loops and launch axes; those of earlier iterations are in the machine's `carries`."""
    places = [space.rank - machine.array(axis).ndim for axis in op.axes]
    identities = machine.identities(op.identities, [value.type for value in op.outputs])
    values = [
        leading(machine.array(value), identity, places, space)
        for value, identity in zip(op.inputs, identities, strict=True)
    ]
    carries = machine.carries.get(op, identities)
    prefixes = machine.region(op.combiner, [*carries, *machine.prefixes(op.combiner, values)])
    machine.carries[op] = [prefix[-1] for prefix in prefixes]
    if op.exclusive:
        prefixes = _moved_on(prefixes, carries)
    extents = [space.extents[space.rank - 1 - place] for place in places]
    for value, result in zip(op.outputs, prefixes, strict=True):
        split = result.reshape(*extents, *result.shape[1:])
        machine.values[value] = np.moveaxis(split, range(len(places)), places)


def leading(value: Array, identity: Array, places: Sequence[int], space: Points) -> Array:
    """The value with the identity at inactive points, and all points along `places`, in their order, in front."""
    if space.active is not None:
        value = np.where(space.active, value, identity)
    shape = [1] * (space.rank - value.ndim) + list(value.shape)
    value = value.reshape(shape)
    full = [space.extents[space.rank - 1 - axis] if axis in places else n for axis, n in enumerate(shape)]
    moved = np.moveaxis(np.broadcast_to(value, full), places, range(len(places)))
    return moved.reshape(-1, *moved.shape[len(places) :])


def _moved_on(prefixes: Sequence[Array], first: Sequence[Array]) -> list[Array]:
    """Prefixes moved on by one place, behind a first one."""
    return [
        np.concatenate([np.broadcast_to(start, prefix[:1].shape), prefix[:-1]])
        for start, prefix in zip(first, prefixes, strict=True)
    ]
