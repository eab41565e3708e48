"""Matrices in shared memory: those of 8 x 8 elements that `ldmatrix` reads, and the tiles that `wgmma` reads.

`ldmatrix` leaves pairs in the lanes where engines want them. With lanes numbered 4 * g + t, and a register axis r of a
pair, a load reads neighbours t * 2 + r of row g, or, transposed, neighbours g of rows t * 2 + r; each row of 8 is 16
bytes at an aligned address. So instead of reading its pairs a lane can give the address of a whole row, and the
hardware spreads the rows over the lanes.

A tile is where it starts, and how it walks memory. The tile of a factor is [rows, k], in a buffer of layout
`#tile.swizzle<span>`, whose rows of `span` bytes are the lines here. Either k walks a line and each row of the tile is
a line of its own ("K-major"), or the tile's rows walk lines and each k is one ("MN-major", which the instruction calls
transposed). See the PTX ISA, "Shared Memory Matrix Layout" and "Matrix descriptor" of `wgmma`; lines keep together in
groups of 8, after which the swizzle repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import address, element_bytes
from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear, extent_or_one, form_of, subscripts_of
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import place_among_threads
from deplodock.dialects import loop, tile
from deplodock.dialects.buffers import UNIT_BYTES, SwizzleAttr
from deplodock.dialects.kernel.ldmatrix import PAIR, SIDE
from deplodock.dialects.kernel.wgmma import DEPTH_BYTES, Factor, ReadsTiles
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


GROUP = 8
"""The lines after which the pattern of a swizzle repeats."""


@dataclass(frozen=True)
class MatrixTile:
    """Where the tile of a factor lies."""

    start: Linear
    """The position of its first element in its buffer, in elements, without the swizzle."""
    span: int
    """The bytes of a line, which is the swizzle."""
    is_transposed: bool
    """Whether its rows walk a line."""
    leading: int
    """The bytes between neighbouring lines' worth of rows, where its rows walk lines; else it is not used."""
    stride: int
    """The bytes between groups of 8 lines."""


def tile_of(factor: Factor, rows: int) -> MatrixTile | str:
    """The tile of a factor with as many rows, or the reason why the hardware cannot read it.

    Raises UnsupportedError for a dynamic layout.
    """
    type, name = memref_of(factor.buffer), label(factor.buffer)
    if not isinstance(type.layout, SwizzleAttr):
        return f"{name} must have a layout #tile.swizzle<..>"
    span, size = type.layout.span, element_bytes(type.element_type)
    line = span // size
    row, depth = stand_in(rows), stand_in(factor.depth)
    is_transposed = not _subscripts(factor, Linear.of(row), Linear.of(depth))[-1].depends_on(depth)
    if not is_transposed:
        steps = {depth: 1, row: line}
        start = _Start(factor, _subscripts(factor, Linear.of(row), Linear.of(depth)), steps, DEPTH_BYTES)
        return start.reason() or MatrixTile(start.position, span, False, UNIT_BYTES, GROUP * span)
    if size != 2:
        kind = "bytes" if size == 1 else str(type.element_type)
        return f"rows of {kind} lie along k, not along the lines of {name}"
    if rows > line and rows % line:
        return f"rows that walk the lines of {name} must fill them, {line} elements each; got {rows}"
    inner, outer = stand_in(min(rows, line)), stand_in(max(1, rows // line))
    row = Linear.of(inner) + (Linear.of(outer) * line if rows > line else 0)
    subscripts = _subscripts(factor, row, Linear.of(depth))
    leading = address(type, subscripts).coefficient(outer)
    start = _Start(factor, subscripts, {inner: 1, depth: line, outer: leading}, span)
    return start.reason() or MatrixTile(start.position, span, True, leading * size or UNIT_BYTES, GROUP * span)


def unreadable(op: ReadsTiles) -> str | None:
    """Why the hardware cannot read a tile of a product, or None."""
    found = (tile_of(factor, rows) for factor, rows in op.tiles())
    return next((reason for reason in found if isinstance(reason, str)), None)


def _subscripts(factor: Factor, row: Linear, depth: Linear) -> list[Linear]:
    return [form_of(expr, factor.indices, [row, depth]) for expr in factor.map.results]


@dataclass(frozen=True)
class _Start:
    """Where a tile starts whose coordinates step through its buffer as `steps` say, in elements; the first walks lines.

    `unit` is what its place in a line is a multiple of, in bytes.
    """

    factor: Factor
    subscripts: list[Linear]
    steps: dict[SSAValue, int]
    unit: int

    @property
    def position(self) -> Linear:
        """The position of the first element, in elements."""
        return self._without_steps(address(memref_of(self.factor.buffer), self.subscripts))

    def reason(self) -> str | None:
        """Why the hardware does not take such a tile, or None."""
        type, name = memref_of(self.factor.buffer), label(self.factor.buffer)
        assert isinstance(type.layout, SwizzleAttr)
        size, group = element_bytes(type.element_type), GROUP * type.layout.span
        walking, *others = self.steps
        last = self.subscripts[-1]
        is_walk = last.coefficient(walking) == 1 and not any(last.depends_on(root) for root in others)
        if not is_walk or any(self.position.depends_on(root) for root in self.steps):
            return (
                f"one coordinate of the tile must walk the lines of {name} by one element, and the other step from "
                f"line to line, {type.layout.span} bytes"
            )
        first = last - Linear.of(walking)
        if (first * size).divisor() % self.unit:
            return f"the tile is not known to start at a multiple of {self.unit} bytes in a line of {name}"
        if ((self.position - first) * size).divisor() % group:
            return f"the tile is not known to start at a multiple of {GROUP} lines of {name}, {group} bytes"
        return None

    def _without_steps(self, form: Linear) -> Linear:
        for root, step in self.steps.items():
            form = form - Linear.of(root) * step
        return form
