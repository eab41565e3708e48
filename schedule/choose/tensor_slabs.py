"""What the slab of a factor holds of a tile's rows or columns, and whether boxes fill it as an engine reads it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import SSAValue

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.dialects import loop


def slab_rows(load: loop.LoadOp, sizes: Mapping[SSAValue, int]) -> int:
    """The rows of a factor's slab, along its axes of the output, of which a tile takes so many coordinates.

    It has those between the coordinates, too, where memory is walked in steps; and one for each coordinate where they
    do not follow each other, as those of a rolled factor.
    """
    forms, places = _at_tile(load, sizes)
    inner = [form.split(lambda root: root not in places)[1] for form in forms]
    if any(isinstance(atom, Division) for form in inner for atom, _ in form.terms):
        return prod(size for axis, size in sizes.items() if any(form.depends_on(axis) for form in subscripts_of(load)))
    ranges = [bounds for form in inner if (bounds := form.range()) is not None]
    return prod(last - first + 1 for first, last in ranges)


def lies_in_boxes(load: loop.LoadOp, sizes: Mapping[SSAValue, int]) -> bool:
    """Whether the coordinates of a tile are neighbours in memory, each along one dimension, as those of a box."""
    forms, places = _at_tile(load, sizes)
    walked = [[form for form in forms if form.depends_on(place)] for place in places]
    return all(
        len(found) <= 1 and all(list(form.roots()).count(place) == form.coefficient(place) == 1 for form in found)
        for found, place in zip(walked, places, strict=True)
    )


def _at_tile(load: loop.LoadOp, sizes: Mapping[SSAValue, int]) -> tuple[list[Linear], list[SSAValue]]:
    """The subscripts of a load over the tiles and the places in one, and these places, for each axis."""
    forms, places = list(subscripts_of(load)), [stand_in(size) for size in sizes.values()]
    for (axis, size), place in zip(sizes.items(), places, strict=True):
        form, tiles = Linear.of(place), -(-extent_or_one(axis) // size)
        if tiles > 1:
            form = Linear.of(stand_in(tiles), size) + form
        forms = [each.substitute(axis, form) for each in forms]
    return forms, places
