"""Which iterations of a sum add zero anyway, because what they read lies outside its buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, form_of, forms_of, subscripts_of
from deplodock.analysis.shape.roles import factors_of, read_of, summed_products
from deplodock.dialects import loop, tile
from deplodock.dialects.tile.ring import AllocOp, CopyOp, depth_of


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
