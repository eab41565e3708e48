"""The meaning of `tile.contract` on numpy arrays: sums of products over dimensions of the points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32

from deplodock.dialects import tile
from deplodock.dialects.precision import MEDIUM, precision_of
from deplodock.interpreters.evaluate.contraction import sum_of_products
from deplodock.interpreters.evaluate.machine import Machine, Points
from deplodock.interpreters.scalars import high_part
from deplodock.interpreters.values import Array

_EXACT = 1 << 24
"""Up to here f32 holds all integers."""


def contract(machine: Machine, op: tile.ContractOp, space: Points) -> None:
    """Add up the products of each pair, the right factor taken at its places."""
    dtype = machine.dtype(op.result.type)
    axes = [space.rank - 1 - machine.dims[axis] for axis in op.axes]
    total: Array = np.zeros((), dtype)
    for left, right in op.pairs:
        one = _of_rank(_factor(op, machine.array(left).astype(dtype)), space)
        other = _factor(op, taken(machine, op.at, machine.array(right), space).astype(dtype))
        total = total + _sum(one, other, axes, space)
        if dtype.kind == "f":
            machine.exact = machine.exact and _is_exact(one, other, axes, space)
    machine.values[op.result] = total


def _factor(op: tile.ContractOp, value: Array) -> Array:
    """A factor as its engine reads it."""
    is_narrowed = op.lhs[0].type == f32 and precision_of(op) == MEDIUM
    return high_part(value) if is_narrowed else value


def _of_rank(value: Array, space: Points) -> Array:
    """A value with all dimensions of the points."""
    return value.reshape([1] * (space.rank - value.ndim) + list(value.shape))


def taken(machine: Machine, at: tile.Places, value: Array, space: Points) -> Array:
    """A value taken where each moved axis has the value of its place."""
    value = _of_rank(value, space)
    if not at.moved:
        return value
    index: list[Array] = [
        np.arange(extent, dtype=np.int64).reshape(-1, *(1,) * (space.rank - 1 - axis))
        for axis, extent in enumerate(value.shape)
    ]
    places = machine.affine(at.map, machine.arrays(at.axes))
    for axis, place in zip(at.moved, places, strict=True):
        dim = space.rank - 1 - machine.dims[axis]
        if value.shape[dim] > 1:
            index[dim] = _of_rank(place, space)
    return value[tuple(index)]


def _sum(one: Array, other: Array, axes: Sequence[int], space: Points) -> Array:
    """The products added up along axes, which keep extent 1."""
    total = sum_of_products(_first(one, axes, space), _first(other, axes, space))
    return np.expand_dims(total, tuple(axes))


def _first(value: Array, axes: Sequence[int], space: Points) -> Array:
    """A value with all points of `axes` in one leading dimension."""
    full = [space.extents[space.rank - 1 - axis] if axis in axes else n for axis, n in enumerate(value.shape)]
    moved = np.moveaxis(np.broadcast_to(value, full), axes, range(len(axes)))
    return moved.reshape(-1, *moved.shape[len(axes) :])


def _is_exact(one: Array, other: Array, axes: Sequence[int], space: Points) -> bool:
    """Whether f32 gives the same bits in any order: the products are integers whose sums it holds, or NaN."""
    if not all(((np.rint(value) == value) | np.isnan(value)).all() for value in (one, other)):
        return False
    return not (_sum(np.abs(one), np.abs(other), axes, space) >= _EXACT).any()
