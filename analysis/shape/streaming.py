"""Streaming reductions: the maximum m of scores, and sums of values that are weighted by `exp(score - m)`.

Their combiner adds what two stretches of the row have left, each scaled to the larger maximum:

    (m, x, ..) + (m', x', ..) = (M, x * w + x' * w', ..)   M = max(m, m'), w = exp(m - N), w' = exp(m' - N)

N is M within the finite numbers, so that -inf - N is -inf for each M. An element is (score, value, ..), the identity
(-inf, 0, ..). The scaling is that of Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from deplodock.dialects import loop


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


def weighing(op: loop.ReduceOp) -> list[tuple[SSAValue, arith.MulfOp]]:
    """The values that a streaming reduction weighs, each with the combiner's product of it and its weight."""
    terminator = op.combiner.block.last_op
    sums = [] if terminator is None else [total.owner for total in terminator.operands[1:]]
    found = [total.rhs.owner for total in sums if isinstance(total, arith.AddfOp)]
    scaled = [product for product in found if isinstance(product, arith.MulfOp)]
    return list(zip(op.yielded[1:], scaled, strict=True))


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
