"""The conditions under which the elements of a register slab are read at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.affine.linear import Linear, condition_of, equal, subscripts_of, to_sides
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.footprint import Reader
from deplodock.dialects import loop

Loops = Mapping[loop.LoadOp, Sequence[loop.LoopLike]]
"""For each reader of a slab, the loops around it that the slab spans."""


def with_conditions(
    map: AffineMap, operands: Sequence[SSAValue], readers: Sequence[Reader], loops: Loops
) -> tuple[AffineMap, list[SSAValue], AffineMap | None]:
    """The map of a register slab and its operands, with the conditions of its elements; None if there are none."""
    operands = list(operands)
    coordinates = [form.terms[0][0] for form in readers[0].subscripts]

    def position(root: SSAValue) -> AffineExpr:
        if root in coordinates:
            return AffineExpr.dimension(coordinates.index(root))
        if root not in operands:
            operands.append(root)
        return AffineExpr.symbol(operands.index(root))

    sides = [side.affine(position) for side in to_sides(_common(readers, loops))]
    where = AffineMap(map.num_dims, len(operands), tuple(sides)) if sides else None
    return AffineMap(map.num_dims, len(operands), map.results), operands, where


def _common(readers: Sequence[Reader], loops: Loops) -> list[Linear]:
    """The conditions of all readers, below 0 where they hold, over the coordinates that the first one has in the slab.

    What says no more than that the source has such an element is left out.
    """
    first, *others = readers
    coordinates = [form.terms[0][0] for form in first.subscripts]
    inside = [around.iv for around in loops[first.load]]
    found = [form for form in _conditions(loops[first.load]) if not _is_in_shape(form, first.load)]
    found = [form for form in found if not any(root in inside and root not in coordinates for root in form.roots())]
    for reader in others:
        renamed = _conditions(loops[reader.load])
        for old, new in zip(reader.subscripts, first.subscripts, strict=True):
            if isinstance(root := old.terms[0][0], SSAValue):
                renamed = [form.substitute(root, new) for form in renamed]
        found = [form for form in found if any(equal(form, other) for other in renamed)]
    return found


def _conditions(loops: Sequence[loop.LoopLike]) -> list[Linear]:
    return [condition_of(where) for op in loops for where in wheres(op.body.block)]


def _is_in_shape(form: Linear, load: loop.LoadOp) -> bool:
    """Whether a condition only says that a subscript of a load is below the extent of its dimension."""
    extents = loop.memref_of(load.source).get_shape()
    subscripts = subscripts_of(load)
    return any(equal(form, s - n) for s, n in zip(subscripts, extents, strict=True))
