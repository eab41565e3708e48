"""What the slab of a factor holds of a tile's rows or columns, and whether boxes fill it as an engine reads it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.dialects import loop


def slab_rows(load: loop.LoadOp, axis: SSAValue, size: int) -> int:
    """The rows of a factor's slab, along the axis of the output of which a tile takes so many coordinates.

    It has those between the coordinates, too, where memory is walked in steps; and one for each coordinate where they
    do not follow each other, as those of a rolled factor.
    """
    if _walks_alone(subscripts_of(load), axis):
        return size
    forms, place = _at_tile(load, axis, size)
    inner = [form.split(lambda root: root is not place)[1] for form in forms]
    if any(isinstance(atom, Division) for form in inner for atom, _ in form.terms):
        return size
    ranges = [bounds for form in inner if (bounds := form.range()) is not None]
    return prod(last - first + 1 for first, last in ranges)


def lies_in_boxes(load: loop.LoadOp, axis: SSAValue, size: int) -> bool:
    """Whether the coordinates of a tile along an axis are neighbours in memory, along one dimension, as in a box."""
    return _walks_alone(subscripts_of(load), axis) or _walks_alone(*_at_tile(load, axis, size))


def _walks_alone(forms: Sequence[Linear], coordinate: SSAValue) -> bool:
    """Whether a coordinate is a step of 1 in one of some subscripts at most."""
    walked = [form for form in forms if form.depends_on(coordinate)]
    return len(walked) <= 1 and all(
        list(form.roots()).count(coordinate) == form.coefficient(coordinate) == 1 for form in walked
    )


class TileSlabs:
    """`slab_rows` and `lies_in_boxes` of the loads of one problem, found once for each size of its tiles."""

    def __init__(self) -> None:
        self._rows: dict[tuple[loop.LoadOp, int], int] = {}
        self._boxes: dict[tuple[loop.LoadOp, int], bool] = {}

    def rows(self, load: loop.LoadOp, axis: SSAValue, size: int) -> int:
        """See `slab_rows`; a load has one axis."""
        if (load, size) not in self._rows:
            self._rows[load, size] = slab_rows(load, axis, size)
        return self._rows[load, size]

    def in_boxes(self, load: loop.LoadOp, axis: SSAValue, size: int) -> bool:
        """See `lies_in_boxes`; a load has one axis."""
        if (load, size) not in self._boxes:
            self._boxes[load, size] = lies_in_boxes(load, axis, size)
        return self._boxes[load, size]


def _at_tile(load: loop.LoadOp, axis: SSAValue, size: int) -> tuple[list[Linear], SSAValue]:
    """The subscripts of a load over the tiles of an axis and the place in one, and that place."""
    place, tiles = stand_in(size), -(-extent_or_one(axis) // size)
    form = Linear.of(place) if tiles == 1 else Linear.of(stand_in(tiles), size) + Linear.of(place)
    return [each.substitute(axis, form) for each in subscripts_of(load)], place
