"""Sums of products as matrix products of numpy, which take no memory for the products themselves."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import arith

from deplodock.dialects import loop
from deplodock.dialects.scalar_regions import combiner_ops
from deplodock.interpreters.evaluate import machine as core
from deplodock.interpreters.evaluate.machine import Machine, Points
from deplodock.interpreters.values import Array, epsilon

_WORTHWHILE = 16
"""How many products there must be for each element of the larger factor."""

_FASTER = 32
"""How much less time a product takes in a matrix product than on its own."""


def contract(machine: Machine, op: loop.ReduceOp, space: Points) -> Array | None:
    """The sum of products that a reduction adds up, without its identity; None where it folds anything else.

    It takes a sum of constant extent over all points, whose factors each lack some of their dimensions.
    """
    product = _product(op)
    if product is None or space.active is not None or not op.trips:
        return None
    one, other = _factors(machine, op, product, space, 0, 1)
    size = max(one.size, other.size)
    if math.prod(np.broadcast_shapes(one.shape, other.shape)) < _WORTHWHILE * size:
        return None
    machine.charge(op, op.trips, math.prod(np.broadcast_shapes(one.shape, other.shape)) // _FASTER)
    total, largest, is_whole = np.zeros((), one.dtype), 0.0, True
    step = max(1, 4 * core.MAX_POINTS // size)
    for start in range(0, op.trips, step):
        factors = _factors(machine, op, product, space, start, min(step, op.trips - start))
        total = total + sum_of_products(*factors)
        is_whole = is_whole and all((np.rint(factor) == factor).all() for factor in factors)
        largest = max(largest, math.prod(float(np.abs(factor).max(initial=0.0)) for factor in factors))
    machine.exact = machine.exact and is_whole and largest * op.trips < 2 / epsilon(one.dtype)
    return total


def _product(op: loop.ReduceOp) -> arith.MulfOp | None:
    """The product that the iterations yield, if it is added up and what it comes from is straight code."""
    ops, product = combiner_ops(op.combiner), op.yielded[0].owner
    is_sum = ops is not None and len(ops) == 1 and isinstance(ops[0], arith.AddfOp)
    block = op.body.block
    if not is_sum or not isinstance(product, arith.MulfOp) or product.parent is not block:
        return None
    is_straight = not any(inner.regions or isinstance(inner, loop.WhereOp) for inner in block.ops)
    return product if is_straight and product.result.has_one_use() else None


def _factors(
    machine: Machine, op: loop.ReduceOp, product: arith.MulfOp, space: Points, start: int, count: int
) -> tuple[Array, Array]:
    """Both factors of `count` iterations, in a leading dimension."""
    inner = Points((*space.extents, count))
    machine.values[op.iv] = inner.coordinate(space.rank, start)
    machine.run(op.body.block, inner, without=product)
    one, other = (
        value.reshape((1,) * (inner.rank - value.ndim) + value.shape)
        for value in machine.arrays((product.lhs, product.rhs))
    )
    leading = [np.broadcast_to(value, (count, *value.shape[1:])) for value in (one, other)]
    return leading[0], leading[1]


def sum_of_products(one: Array, other: Array) -> Array:
    """The products added up along the first dimension; the others broadcast, and stay in their order."""
    dims = range(1, one.ndim)
    both = [d for d in dims if one.shape[d] > 1 and other.shape[d] > 1]
    left = [d for d in dims if one.shape[d] > 1 and d not in both]
    right = [d for d in dims if d not in both and d not in left]
    batch, count = [one.shape[d] for d in both], one.shape[0]
    rows, columns = [one.shape[d] for d in left], [other.shape[d] for d in right]
    lhs = one.transpose(*both, *left, 0, *right).reshape(*batch, math.prod(rows), count)
    rhs = other.transpose(*both, 0, *right, *left).reshape(*batch, count, math.prod(columns))
    result = np.matmul(lhs, rhs).reshape(*batch, *rows, *columns)
    order = [*both, *left, *right]
    return result.transpose([order.index(d) for d in dims])
