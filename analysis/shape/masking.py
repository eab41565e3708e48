"""Padding of tensors: masks of coordinates, and what they put around the elements of a reduction."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.shape.fusion import splat_of
from deplodock.dialects import scalar_regions
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, IotaOp, ReduceOp, element_of

_MASK_SIZE = 32
"""The most tensors behind a mask that is computed wherever it is needed: those of the padding of three dimensions."""

_MASKING = (arith.CmpiOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.AddiOp, arith.SubiOp)


def masks(op: Operation | Block) -> bool:
    """Whether an operation gives truth values that a few comparisons of coordinates and constants decide."""
    if not isinstance(op, ElementwiseOp | IndexMapOp) or element_of(op.results[0]) != i1:
        return False
    pending: list[SSAValue] = [op.results[0]]
    seen: set[SSAValue] = set()
    while pending and len(seen) <= _MASK_SIZE:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        match value.owner:
            case IotaOp() | arith.ConstantOp():
                pass
            case IndexMapOp() as map:
                pending.append(map.source)
            case ElementwiseOp() as inner if all(
                isinstance(each, _MASKING) for each in list(inner.body.block.ops)[:-1]
            ):
                pending += inner.inputs
            case _:
                return False
    return not pending


def pads_reductions(op: Operation) -> bool:
    """Whether an operation puts a constant where a mask fails, around what reductions alone read, as their identity.

    skip-padding leaves such points out, so that nothing is left of the choice.
    """
    if not isinstance(op, ElementwiseOp) or not isinstance(scalar_regions.mapped_op(op.body), arith.SelectOp):
        return False
    mask, _, outside = op.inputs
    while isinstance(outside.owner, IndexMapOp):
        outside = outside.owner.source
    if not masks(mask.owner) or not isinstance(outside.owner, arith.ConstantOp):
        return False
    pending: list[SSAValue] = [op.results[0]]
    constant = splat_of(outside.owner)
    while pending:
        for user in [use.operation for use in pending.pop().uses]:
            if isinstance(user, IndexMapOp):
                pending += user.results
            elif not isinstance(user, ReduceOp) or len(user.inputs) > 1 or user.identities.data[0] != constant:
                return False
    return True
