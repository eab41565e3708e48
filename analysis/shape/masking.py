"""Padding of tensors: masks of coordinates, and what they put around the elements of a reduction.

An iteration of a sum that reads outside of its buffers may add zero anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, form_of, forms_of, subscripts_of
from deplodock.analysis.shape.fusion import splat_of
from deplodock.analysis.shape.roles import factors_of, read_of, summed_products
from deplodock.dialects import loop, scalar_regions, tile
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, IotaOp, ReduceOp, element_of
from deplodock.dialects.tile.ring import AllocOp, CopyOp, depth_of

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


def adds_zero(reduction: loop.ReduceOp, condition: Linear) -> bool:
    """Whether sums of products add 0 * 0 in the iterations where `condition` is not below 0.

    All factors must be reads, widened or not, whose subscripts leave the buffer there; such reads give zero once they
    are lowered, and the identity of the sum is zero. One factor does not suffice: the other may be infinite.
    """
    factors = [factor for product in summed_products(reduction) for pair in factors_of(product) for factor in pair]
    return bool(factors) and all(_is_outside(factor, condition) for factor in factors)


def runs_in_chunks(reduction: loop.ReduceOp, size: int) -> bool:
    """Whether a sum of products may run in whole chunks of so many elements: the last one ends with it, or adds zeros.

    Its bound must be constant.
    """
    assert reduction.trips is not None
    return reduction.trips % size == 0 or adds_zero(reduction, Linear.of(reduction.iv) - reduction.trips)


def _is_outside(value: SSAValue, condition: Linear) -> bool:
    """Whether a value is read from outside a global buffer, directly or through slabs, where a condition fails."""
    if (load := read_of(value)) is None:
        return False
    reads = _reads(load)
    return bool(reads) and all(_leaves(buffer, subscripts, condition) for buffer, subscripts in reads)


def _reads(load: loop.LoadOp) -> list[tuple[SSAValue, list[Linear]]]:
    """The global buffers that the element of a load may come from, with its subscripts there; none if unknown."""
    subscripts = subscripts_of(load)
    match load.source.owner:
        case tile.StageOp() as stage:
            return [(stage.source, [form_of(expr, stage.indices, subscripts) for expr in stage.map.data.results])]
        case AllocOp() as slots:
            copies = [use.operation for use in slots.result.uses if isinstance(use.operation, CopyOp)]
            reads = [_read_of_slot(copy, subscripts) for copy in copies]
            return [read for read in reads if read is not None] if None not in reads else []
        case _:
            return [(load.source, subscripts)] if tile.memory_of(load.source) is None else []


def _read_of_slot(copy: CopyOp, subscripts: Sequence[Linear]) -> tuple[SSAValue, list[Linear]] | None:
    """What a copy puts where a load reads a slot of a ring, for the step that the load reads."""
    (step,) = forms_of(copy.step.data, copy.step_indices)
    if len(step.terms) != 1:
        return None
    ((root, coefficient),) = step.terms
    if isinstance(root, Division) or coefficient != 1:
        return None
    slot, *inside = subscripts
    match slot.terms:
        case ((Division(form, divisor, True), 1),) if divisor == depth_of(copy.ring) and not slot.constant:
            read = form
        case _:
            read = slot
    forms = [form_of(expr, copy.indices, inside) for expr in copy.map.data.results]
    return copy.source, [form.substitute(root, read - step.constant) for form in forms]


def _leaves(buffer: SSAValue, subscripts: Sequence[Linear], condition: Linear) -> bool:
    """Whether a subscript is past the end of its dimension wherever a condition is not below 0.

    It is if it exceeds the extent by a positive multiple of the condition at least, such as the chunk's length times a
    condition on chunks.
    """
    for form, extent in zip(subscripts, loop.memref_of(buffer).get_shape(), strict=True):
        multiples = [form.coefficient(atom) // step for atom, step in condition.terms[:1]]
        beyond = (form - extent - condition * max([1, *multiples])).range()
        if beyond is not None and beyond[0] >= 0:
            return True
    return False
