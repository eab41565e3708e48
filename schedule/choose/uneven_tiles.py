"""How much work conditions leave to the CTA tiles of a contraction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul

from xdsl.ir import Block, SSAValue

from deplodock.analysis.affine.linear import Linear, condition_of, extent_or_one
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.roles import Contraction


@dataclass(frozen=True)
class _End:
    """Coordinates of an axis of some extent count below a bound that varies along a row axis alone."""

    extent: int
    bound: Linear
    row: SSAValue

    def at(self, row: int) -> int:
        """The bound of a row."""
        return self.bound.substitute(self.row, Linear(constant=row)).constant

    def counted(self, row: int, size: int) -> int:
        """How many groups of `size` coordinates hold one that counts in a row."""
        return -(-max(0, min(self.at(row), self.extent)) // size)


def work_share(found: Contraction, m: int, n: int, chunk: int) -> float:
    """The work of all tiles of m x n outputs, where each did as many chunks of k as the longest does: 1 without masks.

    A tile does the chunks of its last row, and none if that row has no column of the tile.
    """
    reduction = found.reduction
    steps = list(_ends(reduction.body.block, [reduction.iv], found.m))
    around = reduction.parent_block()
    columns = list(_ends(around, found.n, found.m)) if around is not None else []
    if not steps and not columns:
        return 1.0
    row = (steps or columns)[0].row
    extent = extent_or_one(row)
    lasts = [min(first + m, extent) - 1 for first in range(0, extent, m)]
    lengths = [min((end.counted(last, chunk) for end in steps if end.row is row), default=1) for last in lasts]
    widths = [min((end.counted(last, n) for end in columns if end.row is row), default=1) for last in lasts]
    whole = max(lengths) * len(lasts) * max((-(-end.extent // n) for end in columns), default=1)
    return sum(map(mul, lengths, widths)) / max(whole, 1)


def ends_together(found: Contraction, m: int) -> bool:
    """Whether all rows of each tile of m have the same k, and masks alone end it, if there are any."""
    reduction = found.reduction
    ends = list(_ends(reduction.body.block, [reduction.iv], found.m))
    if len(ends) < len(wheres(reduction.body.block)) or len(ends) > 1:
        return False
    for end in ends:
        bounds = [end.at(row) for row in range(extent_or_one(end.row))]
        tiles = [bounds[first : first + m] for first in range(0, len(bounds), m)]
        if max(bounds) > end.extent or any(min(tile) < max(tile) for tile in tiles):
            return False
    return True


def _ends(block: Block, along: Sequence[SSAValue], rows: Sequence[SSAValue]) -> Iterator[_End]:
    """The conditions of a block that bound one of some axes along one of the rows."""
    for where in wheres(block):
        form = condition_of(where)
        for axis in along:
            bound = Linear.of(axis) - form
            roots = set(bound.roots())
            if form.coefficient(axis) == 1 and len(roots) == 1 and (row := roots.pop()) in rows:
                yield _End(extent_or_one(axis), bound, row)
