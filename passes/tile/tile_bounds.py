"""What all points of a tile share: bounds of loops, and whether any of them is active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.linear import (
    Division,
    Linear,
    bounds_of,
    condition_of,
    equal,
    implied_condition,
    least,
    to_map,
    to_sides,
)
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.roles import innermost_reduction
from deplodock.dialects import loop, tile
from deplodock.passes.tile.edits import bound_by


def has_inactive_tiles(launch: tile.LaunchOp) -> bool:
    """Whether the conditions of a launch may leave out all points of a tile."""
    inside = [axis for axis in launch.axes if axis not in launch.ctas]
    implied = [implied_condition(condition_of(where), inside) for where in wheres(launch.body.block)]
    ranges = [None if form is None else form.range() for form in implied]
    return any(bounds is None or bounds[1] >= 0 for bounds in ranges)


@dataclass(frozen=True)
class Rounding:
    """A loop over chunks whose bounds differ in a tile, and the bounds of its whole tile."""

    op: loop.ReduceOp
    bounds: Sequence[Linear]
    rounded: Sequence[Linear]

    def apply(self, rewriter: PatternRewriter) -> None:
        """Let the loop run for the whole tile, with what each point counts as conditions of the elements."""
        ranges = [form.range() for form in self.bounds]
        known = [Linear(constant=found[1]) for found in ranges if found is not None]
        bound_by(rewriter, self.op, least([*self.rounded, *known]))
        block = innermost_reduction(self.op).body.block
        for bound, rounded in zip(self.bounds, self.rounded, strict=True):
            if not equal(bound, rounded):
                where = loop.WhereOp(*to_map(to_sides([Linear.of(self.op.iv) - bound])))
                rewriter.insert(where, InsertPoint.at_start(block))


def roundings(launch: tile.LaunchOp, sizes: Mapping[SSAValue, int]) -> list[Rounding]:
    """The loops over chunks whose bounds differ between points of a tile, which takes `sizes` of each axis."""
    found: list[Rounding] = []
    for op in launch.body.walk():
        if isinstance(op, loop.ReduceOp) and innermost_reduction(op) is not op:
            bounds = bounds_of(op)
            rounded = [greatest(form, sizes) for form in bounds]
            if not all(map(equal, bounds, rounded)):
                found.append(Rounding(op, bounds, rounded))
    return found


def greatest(form: Linear, sizes: Mapping[SSAValue, int]) -> Linear:
    """The greatest value of a form in a tile, which takes `sizes` of each axis, along those with which it grows."""
    for axis, size in sizes.items():
        if _grows(form, axis):
            form = form.substitute(axis, Linear.of(axis) // size * size + (size - 1))
    return form


def smallest(form: Linear, sizes: Mapping[SSAValue, int]) -> Linear:
    """The least value of a form in a tile, which takes `sizes` of each axis, along those with which it grows."""
    for axis, size in sizes.items():
        if _grows(form, axis):
            form = form.substitute(axis, Linear.of(axis) // size * size)
    return form


def _grows(form: Linear, axis: SSAValue) -> bool:
    """Whether a form never gets smaller along an axis."""
    return all(
        coefficient > 0
        and (atom is axis or (isinstance(atom, Division) and not atom.remainder and _grows(atom.form, axis)))
        for atom, coefficient in form.terms
        if Linear.of(atom).depends_on(axis)
    )
