"""The elements that `tile.stage` and `tile.copy` bring on chip, those that nobody wrote among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from deplodock.dialects import tile
from deplodock.dialects.tile import Memory, memory_of
from deplodock.errors import Error
from deplodock.interpreters.affine import holds, outside_as_false
from deplodock.interpreters.evaluate.machine import Machine, PointBuffer, Points
from deplodock.interpreters.scalars import describe, round_tf32
from deplodock.interpreters.values import Array


def slab_of(
    machine: Machine,
    op: tile.StageOp | tile.CopyOp,
    buffer: SSAValue,
    slab: Sequence[int],
    space: Points,
    copied: Array | None = None,
) -> PointBuffer:
    """The elements of a slab, preceded by the dimensions of the points that own one; zeros where nothing is read.

    `copied` says which points copy theirs. What nobody wrote is copied, and remains what nobody wrote.

    Raises Error if `buffer`, which the slab goes to, is shared and the slab's origin varies within a CTA.
    """
    source = machine.buffer(op.source)
    owners = [owned(value, space) for value in machine.arrays(op.indices)]
    symbols = [value.reshape(*value.shape, *(1,) * len(slab)) for value in owners]
    dims = [np.arange(n).reshape(-1, *(1,) * (len(slab) - 1 - axis)) for axis, n in enumerate(slab)]
    subscripts = machine.affine(op.map.data, dims, symbols)
    shape = np.broadcast_shapes(*(s.shape for s in subscripts), (1,) * space.rank + tuple(slab))
    inside = outside_as_false(subscripts, source.shape) if all(shape) else None
    if inside is not None:
        subscripts = [np.clip(s, 0, max(n - 1, 0)) for s, n in zip(subscripts, source.shape, strict=True)]
    if isinstance(op, tile.StageOp) and op.where is not None:
        read = holds(op.where.data, dims, symbols)
        inside = read if inside is None else inside & read
    if copied is not None:
        owners = [*owners, copied := owned(copied, space)]
        copied = copied.reshape(*copied.shape, *(1,) * len(slab))
        inside = copied if inside is None else inside & copied
    if memory_of(buffer) is Memory.SHARED:
        check_owner(machine, op, owners)
    data, missing = machine.copy(op, source, subscripts, Points(active=inside))
    if inside is not None:
        data = np.where(inside, data, np.zeros((), data.dtype))
    data = round_tf32(data) if op.is_tf32 else data
    data = np.ascontiguousarray(np.broadcast_to(data, np.broadcast_shapes(shape, data.shape)))
    written = None if missing is None else np.ascontiguousarray(~np.broadcast_to(missing, data.shape))
    return PointBuffer(data, len(slab), written)


def owned(value: Array, space: Points) -> Array:
    """The value with all dimensions of the points."""
    return value.reshape((1,) * (space.rank - value.ndim) + value.shape)


def check_owner(machine: Machine, op: tile.StageOp | tile.CopyOp | tile.StoreOp, owners: Sequence[Array]) -> None:
    """A shared slab is one for the CTA: its origin and conditions must not vary along thread or register axes."""
    launch = op.parent_op()
    while launch is not None and not isinstance(launch, tile.LaunchOp):
        launch = launch.parent_op()
    if launch is None:
        return
    for axis in launch.axes:
        binding = launch.binding(axis)
        if axis in launch.ctas:
            continue
        if any(owner.shape[owner.ndim - 1 - machine.dims[axis]] > 1 for owner in owners):
            raise Error(
                f"{describe(op)}: a shared slab is one for the CTA, but its origin varies along a {binding} axis"
            )
