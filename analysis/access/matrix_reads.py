"""Loads that read matrices of 8 x 8 elements, as `ldmatrix` does: pairs lie in the lanes where engines want them.

With lanes numbered 4 * g + t, and a register axis r of a pair, a load reads neighbours t * 2 + r of row g, or,
transposed, neighbours g of rows t * 2 + r; each row of 8 is 16 bytes at an aligned address. So instead of reading its
pairs a lane can give the address of a whole row, and the hardware spreads the rows over the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import address, element_bytes
from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of
from deplodock.analysis.shape.lanes import place_among_threads
from deplodock.dialects import loop, tile
from deplodock.dialects.kernel.ldmatrix import PAIR, SIDE
from deplodock.dialects.loop import memref_of
from deplodock.dialects.tile import Binding, Memory

GROUPS, THREADS = (4, 8), (1, 4)
"""The places of g and t among lanes: how far apart their values are, and how many there are."""


@dataclass(frozen=True)
class MatrixRead:
    """How a load reads matrices: the axes of g, t and r, and whether neighbours in memory are those of g."""

    group: SSAValue
    thread: SSAValue
    pair: SSAValue
    is_transposed: bool

    def row(self, forms: Sequence[Linear], number: Linear) -> list[Linear]:
        """The subscripts of the first element of a row, of which `number` are before it in its matrix."""
        places = {self.group: number, self.thread: Linear(), self.pair: Linear()}
        if self.is_transposed:
            places = {self.group: Linear(), self.thread: Linear(), self.pair: number}
        for root, place in places.items():
            forms = [form.substitute(root, place) for form in forms]
        return list(forms)


def matrix_read(launch: tile.LaunchOp, load: loop.LoadOp) -> MatrixRead | None:
    """How a load of a launch reads matrices of shared memory for contracts; None where it does not."""
    type, forms = memref_of(load.source), subscripts_of(load)
    if tile.memory_of(load.source) is not Memory.SHARED or element_bytes(type.element_type) * SIDE != 16:
        return None
    if not all(isinstance(use.operation, tile.ContractOp) for use in load.result.uses) or not forms:
        return None
    roots = dict.fromkeys(root for form in forms for root in form.roots())
    for pair in roots:
        is_pair = launch.binding(pair) is Binding.REGISTER if pair in launch.axes else False
        if not is_pair or extent_or_one(pair) != PAIR:
            continue
        for thread in (root for root in roots if place_among_threads(launch, root) == THREADS):
            for group in (root for root in roots if place_among_threads(launch, root) == GROUPS):
                for is_transposed in (False, True):
                    found = MatrixRead(group, thread, pair, is_transposed)
                    if _fits(found, forms) and _is_aligned(found, load, forms):
                        return found
    return None


def _fits(read: MatrixRead, forms: Sequence[Linear]) -> bool:
    """Whether neighbours and rows of matrices lie as the read says."""
    *rows, last = forms
    pairs = [form for form in forms if form.depends_on(read.pair) or form.depends_on(read.thread)]
    groups = [form for form in forms if form.depends_on(read.group)]
    neighbours = groups if read.is_transposed else pairs
    others = pairs if read.is_transposed else groups
    if [form is last for form in neighbours] != [True] or any(form is last for form in others):
        return False
    steps = {read.group: 1} if read.is_transposed else {read.thread: PAIR, read.pair: 1}
    if not _is_linear(last, steps) or any(last.coefficient(root) != step for root, step in steps.items()):
        return False
    return not read.is_transposed or all(
        _is_linear(form, {read.thread: 0, read.pair: 0})
        and form.coefficient(read.thread) == PAIR * form.coefficient(read.pair)
        for form in rows
    )


def _is_linear(form: Linear, roots: dict[SSAValue, int]) -> bool:
    rest = form
    for root in roots:
        rest = rest - Linear.of(root, form.coefficient(root))
    return not any(rest.depends_on(root) for root in roots)


def _is_aligned(read: MatrixRead, load: loop.LoadOp, forms: Sequence[Linear]) -> bool:
    """Whether each row starts at a multiple of 16 bytes, of its buffer and of the row of memory that it is in."""
    number = read.group if not read.is_transposed else read.pair
    first = read.row(forms, Linear.of(number))
    type = memref_of(load.source)
    return first[-1].divisor() % SIDE == 0 and address(type, first).divisor() % SIDE == 0
