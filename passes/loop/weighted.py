"""Sums of what is weighted by the exponentials of a row's scores, and the combiner that streams them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Region, SSAValue

from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence, alike, wheres
from deplodock.analysis.shape.streaming import approximates, folds, reassociates
from deplodock.dialects import loop
from deplodock.dialects.precision import precision_of, set_precision_of

LARGEST: Mapping[Attribute, float] = {
    f32: float.fromhex("0x1.fffffep127"),
    f64: float.fromhex("0x1.fffffffffffffp1023"),
}
"""The largest finite numbers of the types that streaming reductions fold (IEEE 754, table 3.5)."""


@dataclass(frozen=True)
class Weighted:
    """A sum over a row of `exp(score - g) / divisors * factor`; `factor` is None where that is 1."""

    reduction: loop.ReduceOp
    weight: math.ExpOp
    shift: arith.SubfOp
    score: SSAValue
    divisors: tuple[arith.DivfOp, ...]
    product: arith.MulfOp | None
    factor: SSAValue | None


def weighted_by(op: loop.ReduceOp, maximum: loop.ReduceOp) -> Weighted | str | None:
    """A sum that is weighted by the exponentials of the scores whose maximum is given; else why it is not.

    None where nothing of it is an exponential of these scores.
    """
    if not folds(op, "addf") or (found := _weight(op.yielded[0])) is None:
        return None
    weight, divisors, product, factor = found
    shift = weight.operand.owner
    if not isinstance(shift, arith.SubfOp) or not alike(maximum.yielded[0], shift.lhs, {maximum.iv: op.iv}):
        return None
    if (op.trips, op.bound_operands) != (maximum.trips, maximum.bound_operands) or not op.trips:
        return f"the loops of {label(maximum.results[0])} and {label(op.results[0])} are not of one constant length"
    if wheres(op.body.block) or wheres(maximum.body.block):
        return f"the loop of {label(op.results[0])} leaves out points; stream-reductions runs before skip-masked"
    if not all(reassociates(inner) for inner in (weight, *divisors)):
        return f"an exponential or a quotient in {label(op.results[0])} is not fastmath<reassoc>"
    dependence = Dependence()
    if any(op.iv in dependence.of(value) for value in (shift.rhs, *(quotient.rhs for quotient in divisors))):
        return f"what the scores of {label(op.results[0])} are compared with or divided by varies along the row"
    if maximum.results[0].type != op.results[0].type or op.results[0].type not in LARGEST:
        return f"the scores and {label(op.results[0])} are not both of f32, or of f64"
    return Weighted(op, weight, shift, shift.lhs, tuple(divisors), product, factor)


def _weight(
    value: SSAValue,
) -> tuple[math.ExpOp, list[arith.DivfOp], arith.MulfOp | None, SSAValue | None] | None:
    """The exponential that a value is a multiple of, with the quotients, the product and the factor on the way."""
    match value.owner:
        case math.ExpOp() as op:
            return op, [], None, None
        case arith.DivfOp() as op if (found := _weight(op.lhs)) is not None:
            weight, divisors, product, factor = found
            return weight, [*divisors, op], product, factor
        case arith.MulfOp() as op:
            for side, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                if (found := _weight(side)) is not None and found[2] is None:
                    return found[0], found[1], op, other
        case _:
            pass
    return None


def streaming_combiner(sums: Sequence[Weighted], type: AnyFloat, limits: tuple[SSAValue, SSAValue]) -> Region:
    """The combiner of a maximum and weighted sums; `limits` are the least and the greatest finite number.

    The precision of a sum's products is that of the products of its elements, not of those that scale the sum.
    """
    count = len(sums) + 1
    block = Block(arg_types=[type] * (2 * count))
    scores = block.args[0], block.args[count]
    maximum = arith.MaximumfOp(*scores)
    above = arith.MaximumfOp(maximum, limits[0])
    within = arith.MinimumfOp(above, limits[1])
    block.add_ops([maximum, above, within])
    weights: list[SSAValue] = []
    inexact = [FastMathFlag.APPROX_FUNC] if all(approximates(total.weight) for total in sums) else []
    for score in scores:
        shifted = arith.SubfOp(score, within)
        weight = math.ExpOp(shifted, arith.FastMathFlagsAttr(inexact))
        block.add_ops([shifted, weight])
        weight.result.name_hint = "weight"
        weights.append(weight.result)
    results: list[SSAValue] = [maximum.result]
    for place, total in enumerate(sums, start=1):
        flags = arith.FastMathFlagsAttr("none") if total.product is None else total.product.fastmath
        mine = arith.MulfOp(block.args[place], weights[0], flags)
        other = arith.MulfOp(block.args[count + place], weights[1], flags)
        if total.product is not None:
            set_precision_of(other, precision_of(total.product))
        added = arith.AddfOp(mine, other)
        block.add_ops([mine, other, added])
        results.append(added.result)
    block.add_op(loop.YieldOp(*results))
    return Region(block)
