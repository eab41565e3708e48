"""Streaming reductions: the maximum m of scores, and sums of values that are weighted by `exp(score - m)`.

Their combiner adds what two stretches of the row have left, each scaled to the larger maximum:

    (m, x, ..) + (m', x', ..) = (M, x * w + x' * w', ..)   M = max(m, m'), w = exp(m - N), w' = exp(m' - N)

N is M within the finite numbers, so that -inf - N is -inf for each M. An element is (score, value, ..), the identity
(-inf, 0, ..). The scaling is that of Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, equal, extent_of, subscripts_of
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import factors_of, summed_products
from deplodock.dialects import loop, scalar_regions, tensor


def folds(op: loop.ReduceOp | tensor.ReduceOp, name: str) -> bool:
    """Whether a reduction is that of one value by `arith.<name>`, from its identity on."""
    return scalar_regions.short_combiner(op.combiner, op.identities) == [f"arith.{name}"]


def reassociates(op: math.ExpOp | arith.DivfOp) -> bool:
    """Whether sums of what an exponential or a quotient gives may be scaled as a whole."""
    return FastMathFlag.REASSOC in op.fastmath.data


def approximates(op: Operation | Block | None) -> bool:
    """Whether an operation is an exponential that may be as inexact as the type of what it weighs."""
    return isinstance(op, math.ExpOp) and FastMathFlag.APPROX_FUNC in op.fastmath.data


def streams(op: Operation) -> bool:
    """Whether an operation is a streaming reduction: its first result is the maximum, the others are weighted sums."""
    if not isinstance(op, loop.ReduceOp) or len(op.results) < 2 or (terminator := op.combiner.block.last_op) is None:
        return False
    maximum, *sums = terminator.operands
    count, arguments = len(op.results), op.combiner.block.args
    if not isinstance(maximum.owner, arith.MaximumfOp) or set(maximum.owner.operands) != {
        arguments[0],
        arguments[count],
    }:
        return False
    return all(
        isinstance(total.owner, arith.AddfOp)
        and _is_scaled(total.owner.lhs, arguments[place], arguments[0], maximum)
        and _is_scaled(total.owner.rhs, arguments[count + place], arguments[count], maximum)
        for place, total in enumerate(sums, start=1)
    )


def weighs_by_largest(op: loop.ReduceOp) -> bool:
    """Whether the iterations of a streaming reduction yield the largest score so far, in place of their own.

    So what they yield is relative to the maximum that they leave, and what came before is scaled alone.
    """
    largest = op.yielded[0].owner
    return (
        isinstance(largest, loop.ScanOp)
        and tuple(largest.axes) == (op.iv,)
        and not largest.exclusive
        and scalar_regions.short_combiner(largest.combiner, largest.identities) == ["arith.maximumf"]
        and streams(op)
    )


def weighing(op: loop.ReduceOp) -> list[tuple[SSAValue, arith.MulfOp]]:
    """The values that a streaming reduction weighs, each with the combiner's product of it and its weight."""
    terminator = op.combiner.block.last_op
    sums = [] if terminator is None else [total.owner for total in terminator.operands[1:]]
    found = [total.rhs.owner for total in sums if isinstance(total, arith.AddfOp)]
    scaled = [product for product in found if isinstance(product, arith.MulfOp)]
    return list(zip(op.yielded[1:], scaled, strict=True))


def weight_of(product: arith.MulfOp) -> math.ExpOp:
    """The weight of a product of the combiner."""
    weight = product.rhs.owner
    assert isinstance(weight, math.ExpOp)
    return weight


def limits(op: loop.ReduceOp) -> tuple[SSAValue, SSAValue]:
    """The constants that a streaming reduction keeps the maximum within: the least and the greatest number."""
    difference = weight_of(weighing(op)[0][1]).operand.owner
    assert isinstance(difference, arith.SubfOp)
    above = difference.rhs.owner
    assert isinstance(above, arith.MinimumfOp)
    below = above.lhs.owner
    assert isinstance(below, arith.MaximumfOp)
    return below.rhs, above.rhs


def _is_scaled(value: SSAValue, taken: SSAValue, score: SSAValue, maximum: SSAValue) -> bool:
    """Whether a value is `taken * exp(score - N)`."""
    product = value.owner
    if not isinstance(product, arith.MulfOp) or product.lhs is not taken:
        return False
    weight = product.rhs.owner
    shifted = weight.operand.owner if isinstance(weight, math.ExpOp) else None
    return isinstance(shifted, arith.SubfOp) and shifted.lhs is score and _is_within(shifted.rhs, maximum)


def _is_within(value: SSAValue, maximum: SSAValue) -> bool:
    """Whether a value is the maximum, within two constants."""
    above = value.owner
    if not isinstance(above, arith.MinimumfOp) or not isinstance(above.rhs.owner, arith.ConstantOp):
        return False
    below = above.lhs.owner
    return (
        isinstance(below, arith.MaximumfOp) and below.lhs is maximum and isinstance(below.rhs.owner, arith.ConstantOp)
    )


@dataclass(frozen=True)
class StreamedProduct:
    """A streaming reduction whose scores are sums of products, and that weighs rows of values: attention.

    The scores vary along `rows`, the values along `columns`, neither along the axes of the other. Where scores and
    values vary along the same axes, as for a single query, `rows` is None, and `shared` may be an axis of which so many
    neighbours, its divisor, have the same keys and values: heads.
    """

    reduction: loop.ReduceOp
    scores: loop.ReduceOp
    rows: SSAValue | None
    columns: SSAValue
    shared: tuple[SSAValue, int] | None = None


def streamed_product(nest: Nest) -> StreamedProduct | None:
    """The streaming reduction of products in a nest, alone there; None where there is none of constant bounds."""
    (reduction, *others) = nest.reductions() or [None]
    if reduction is None or others or not streams(reduction) or not reduction.trips:
        return None
    score, *values = reduction.yielded
    inside = [op for op in reduction.body.walk() if isinstance(op, loop.ReduceOp)]
    if len(inside) != 1 or not inside[0].trips or len(products := summed_products(inside[0])) != 1:
        return None
    dependence = Dependence()
    of_score, of_values = dependence.of(score), dependence.of(*values)
    sides = [dependence.of(factor) for factor in factors_of(products[0])[0]]
    columns = [axis for axis in nest.axes if axis in of_values and axis not in of_score]
    rows = [axis for axis in nest.axes if sum(axis in side for side in sides) == 1 and axis not in of_values]
    if len(columns) != 1:
        return None
    if rows:
        return StreamedProduct(reduction, inside[0], rows[-1], columns[0])
    shared = next(filter(None, (_shared(axis, reduction) for axis in reversed(nest.axes))), None)
    return StreamedProduct(reduction, inside[0], None, columns[0], shared)


def _shared(axis: SSAValue, reduction: loop.ReduceOp) -> tuple[SSAValue, int] | None:
    """An axis of which some reads of a reduction have the same elements at so many neighbours, and others do not."""
    divisors: set[int] = set()
    for load in reduction.body.walk():
        if isinstance(load, loop.LoadOp):
            atoms = [atom for form in subscripts_of(load) for atom, _ in form.terms if Linear.of(atom).depends_on(axis)]
            for atom in atoms:
                is_quotient = isinstance(atom, Division) and not atom.remainder and equal(atom.form, Linear.of(axis))
                if atom is not axis and not is_quotient:
                    return None
                divisors.add(atom.divisor if isinstance(atom, Division) else 1)
    extent = extent_of(axis)
    if len(divisors) != 2 or 1 not in divisors or extent is None or extent % max(divisors):
        return None
    return axis, max(divisors)
