"""What part of a buffer the points of a launch read: a slab, its origin, and the readers' subscripts in it.

A load's subscripts are split into a part that is fixed where the slab is filled (the origin) and a part that runs
inside it. A shared slab is the box of the inner part over all threads; a register slab holds one element for each
coordinate that a thread itself runs through. A gathered slab has one element for each point of the inner coordinates,
whatever their elements are: it holds the windows of a convolution as the columns of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, affine_sum, equal, extent_of, subscripts_of
from deplodock.analysis.shape.dependence import is_coordinate
from deplodock.dialects import loop
from deplodock.dialects.buffers import last_dimension


@dataclass(frozen=True)
class Reader:
    """A load and its subscripts inside the slab."""

    load: loop.LoadOp
    subscripts: tuple[Linear, ...]


@dataclass(frozen=True)
class Footprint:
    """A slab of these extents: slab[d] = buffer[origin + sum over d of steps[dim] * d], and its readers."""

    shape: tuple[int, ...]
    origin: tuple[Linear, ...]
    steps: tuple[tuple[int, ...], ...]
    """For each buffer dimension, the step for each slab coordinate."""
    readers: tuple[Reader, ...]
    coordinates: tuple[SSAValue, ...] = ()
    """Of a gathered slab, the roots of the origin that are its coordinates."""

    @property
    def elements(self) -> int:
        """The number of elements of the slab."""
        return math.prod(self.shape)

    def same_slab(self, other: Footprint) -> bool:
        """Whether two footprints are the same elements in the same places."""
        return (self.shape, self.steps) == (other.shape, other.steps) and all(map(equal, self.origin, other.origin))

    def reordered(self, order: Sequence[int]) -> Footprint:
        """The same elements with slab coordinate `order[d]` at place d."""
        readers = tuple(
            replace(reader, subscripts=tuple(reader.subscripts[d] for d in order)) for reader in self.readers
        )
        steps = tuple(tuple(row[d] for d in order) for row in self.steps)
        coordinates = tuple(self.coordinates[d] for d in order) if self.coordinates else ()
        return Footprint(tuple(self.shape[d] for d in order), self.origin, steps, readers, coordinates)

    def walks(self, coordinate: int) -> bool:
        """Whether a coordinate of the slab moves through the last dimension of the buffer that has several elements."""
        dim = last_dimension(loop.memref_of(self.readers[0].load.source))
        is_gathered = bool(self.coordinates) and self.origin[dim].depends_on(self.coordinates[coordinate])
        return is_gathered or bool(self.steps[dim][coordinate])

    def map(self) -> tuple[AffineMap, list[SSAValue]]:
        """The affine map of a `tile.stage` that fills the slab, and its operands."""
        operands: dict[SSAValue, int] = {}

        def symbol(root: SSAValue) -> AffineExpr:
            if root in self.coordinates:
                return AffineExpr.dimension(self.coordinates.index(root))
            return AffineExpr.symbol(operands.setdefault(root, len(operands)))

        results: list[AffineExpr] = []
        for origin, steps in zip(self.origin, self.steps, strict=True):
            fixed = Linear(origin.terms).affine(symbol)
            inner = [(AffineExpr.dimension(d), step) for d, step in enumerate(steps) if step]
            outer = [(fixed, 1)] if origin.terms else []
            results.append(affine_sum([*outer, *inner], origin.constant))
        return AffineMap(len(self.shape), len(operands), tuple(results)), list(operands)


def shared_footprint(load: loop.LoadOp, inside: Sequence[SSAValue]) -> Footprint | None:
    """The box that a load reads over all values of the `inside` coordinates, or None if it is not affine in them."""
    shape: list[int] = []
    origins: list[Linear] = []
    subscripts: list[Linear] = []
    varying: list[bool] = []
    for form in subscripts_of(load):
        origin, inner = _split(form, inside)
        bounds = inner.range()
        if bounds is None or not _is_separable(origin, inner, inside):
            return None
        varying.append(bool(inner.terms))
        origins.append(origin + bounds[0])
        if inner.terms:
            shape.append(bounds[1] - bounds[0] + 1)
            subscripts.append(inner - bounds[0])
    places = [sum(varying[:dim]) for dim in range(len(varying))]
    steps = [
        tuple(int(varies and place == d) for d in range(len(shape)))
        for varies, place in zip(varying, places, strict=True)
    ]
    return Footprint(tuple(shape), tuple(origins), tuple(steps), (Reader(load, tuple(subscripts)),))


def gathered_footprint(load: loop.LoadOp, inside: Sequence[SSAValue]) -> Footprint | None:
    """The elements that a load reads over the `inside` coordinates, one for each point; None if they are no forms.

    The coordinates of the slab are those that the subscripts depend on, the ones that walk the last dimension last.
    """
    forms = subscripts_of(load)
    roots = dict.fromkeys(root for form in forms for root in form.roots())
    last = forms[last_dimension(loop.memref_of(load.source))] if forms else Linear()
    inner = tuple(sorted((root for root in inside if root in roots), key=last.depends_on))
    shape = [extent_of(root) for root in inner]
    if not all(is_coordinate(root) for root in roots) or any(extent is None for extent in shape):
        return None
    reader = Reader(load, tuple(map(Linear.of, inner)))
    steps = ((0,) * len(inner),) * len(forms)
    return Footprint(tuple(extent or 0 for extent in shape), tuple(forms), steps, (reader,), inner)


def register_footprint(load: loop.LoadOp, inside: Sequence[SSAValue]) -> Footprint | None:
    """The elements that a load reads over all `inside` coordinates, one for each, or None if not linear in them."""
    forms = subscripts_of(load)
    roots = [root for root in inside if any(form.depends_on(root) for form in forms)]
    shape = [extent_of(root) for root in roots]
    origins: list[Linear] = []
    steps: list[tuple[int, ...]] = []
    for form in forms:
        origin, inner = _split(form, inside)
        if any(isinstance(atom, Division) for atom, _ in inner.terms) or not _is_separable(origin, inner, inside):
            return None
        origins.append(origin)
        steps.append(tuple(inner.coefficient(root) for root in roots))
    if any(extent is None for extent in shape):
        return None
    subscripts = tuple(Linear.of(root) for root in roots)
    return Footprint(tuple(extent or 0 for extent in shape), tuple(origins), tuple(steps), (Reader(load, subscripts),))


def _split(form: Linear, inside: Sequence[SSAValue]) -> tuple[Linear, Linear]:
    return form.split(lambda root: root not in inside)


def _is_separable(origin: Linear, inner: Linear, inside: Sequence[SSAValue]) -> bool:
    """Whether the inner part runs over inside axes only, and the origin over other axes and loop variables."""
    if not all(is_coordinate(root) for root in (*origin.roots(), *inner.roots())):
        return False
    return all(root in inside for root in inner.roots())
