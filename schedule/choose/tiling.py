"""The CTA tile of a contraction, and into how many parts its reduction is split: those whose grid finishes first.

The time is that of the grid (`Rates.grid_ns`) and of what the parts cost: their way through memory, and a launch more
(`block`) or the time in which the last CTA of a tile adds them (`ticket`, `stream`). With `stream` the CTAs of one full
wave share the steps of all tiles, as stream-matmul-k has it. Tiles that a mask leaves less work count as the shares of
the longest one that they are; those whose k ends at a mask level out among the SMs, and their k is not split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import mul

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, condition_of, extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.machine.targets import FIRST_BOXES, capability, target_of
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.footprint import shared_footprint
from deplodock.analysis.shape.roles import Contraction, accumulating_loops, read_of, runs_through_windows
from deplodock.analysis.shape.shares import Shares
from deplodock.dialects import loop, tile
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.tma import BOX_UNIT_BYTES
from deplodock.dialects.tile import memory_of

CHUNK = 32
"""Elements of k in a slab: fewer spend more on the ring's steps (16 lost to 32, measured on an H100)."""

MAX_CHUNK = 44
"""The most elements of k in a slab of several windows: two of 64 x 128 outputs leave room for three CTAs on an SM."""

MAX_WINDOW = 49
"""The most elements of k in a slab of one window, which is 7 x 7 then."""

STEP_ELEMENTS = 2
"""What the wait and the first copies of a step take, in elements of k: chunks of 16 are 6 percent slower than of 32."""

FEWEST_ROWS = 32
"""The fewest rows for slabs of windows: to copy an element takes about 6 instructions, to multiply it one for each
row (read off the code for sm_90)."""

READ_ALONG_K = 4
"""Elements along k that a thread reads at once from slabs whose rows walk k: 16 bytes of f32."""

MAX_PARTS = 16
"""The most parts of k."""

MIN_STEPS = 4
"""The fewest slabs of a part: below, the ring of slabs is hardly full before it drains."""

MOST_SHARED_WAVES = 4
"""The most waves of tiles whose steps the CTAs of one wave share."""

TOLERANCE = 1.02
"""Fewer parts are taken if they are slower by no more than this factor."""


@dataclass(frozen=True)
class CtaTile:
    """A CTA tile of m x n outputs, cells_m x cells_n for each thread, meant for `occupancy` CTAs per SM.

    `depth` is how many slabs of k are best in shared memory at once, and `rate` the share of the largest tile's speed
    where the grid fills the GPU; both measured, but for the last tile. `is_boxed` tiles have slabs that come in boxes
    and are read along k: their few threads leave the copies to the tensor memory accelerator.
    """

    m: int
    n: int
    cells_m: int
    cells_n: int
    occupancy: int
    depth: int
    rate: float
    is_boxed: bool = False


ODD_ROWS = 96
"""The rows of a tile for outputs that it divides and the largest one does not: its rate was measured there alone, on 96
rows of 131072 columns and 4096 products (2,053 us on an H200, 2,746 in tiles of 64 rows)."""

TILES = (
    CtaTile(128, 128, 16, 8, 2, 3, 1.0),
    CtaTile(ODD_ROWS, 128, 12, 8, 3, 2, 0.97),
    CtaTile(64, 128, 8, 8, 3, 2, 0.88),
    CtaTile(64, 64, 8, 4, 4, 2, 0.82),
    CtaTile(32, 128, 4, 8, 4, 3, 0.585),
    CtaTile(32, 64, 4, 4, 4, 2, 0.61),
    CtaTile(32, 64, 4, 4, 4, 3, 0.785, is_boxed=True),
    CtaTile(32, 32, 4, 4, 8, 3, 0.55),
    CtaTile(16, 16, 1, 1, 2, 3, 0.165),
)

MASK_STEP = max(extent for tile in TILES for extent in (tile.m, tile.n))
"""The multiples that the conditions of masks are rounded up to: the extent of the largest tile of a contraction whose
outputs they leave out."""


@dataclass(frozen=True)
class Tiling:
    """A tile, the parts of k, and how they are combined: `block` or `ticket`, as split-matmul-k has it, or `stream`.

    With `stream` the parts are the most that a tile may have.
    """

    tile: CtaTile
    parts: int
    over: str


def needs_flattening(found: Contraction) -> bool:
    """Whether k runs in several loops, as through windows, or rows of an image leave a tile of n columns unfilled.

    Slabs of windows hold each element once for each window that it is in, which few rows of the output do not pay.
    """
    if runs_through_windows(found):
        return known_points(found.m) >= FEWEST_ROWS
    return (
        found.innermost is found.reduction
        and len(found.n) > 1
        and extent_or_one(found.n[-1]) % max(tile.n for tile in TILES) != 0
    )


def chunk_of(found: Contraction) -> int:
    """Elements of k in a slab: `CHUNK`, or about as many in whole windows or, where those are larger, in whole rows.

    In whole windows the place of an element is the same in each step: to follow it takes 100 instructions for each row
    of a window (read off the code for sm_90). They take the least time, a step that of `STEP_ELEMENTS` more, and of one
    more each where they are no whole accesses, so that threads share the rows of a slab unevenly, or k is no whole
    number of them, so that each copy looks for its end.
    """
    trips = [op.trips or 0 for op in accumulating_loops(found.reduction)]
    if len(trips) == 1 or 0 in trips or not needs_flattening(found):
        return CHUNK
    windows = [math.prod(trips[place:]) for place in range(len(trips))]
    unit = next((size for size in windows if size <= MAX_WINDOW), CHUNK)
    sizes = [size for size in range(unit, MAX_CHUNK + 1, unit) if size > CHUNK // 2] or [unit]
    return min(sizes, key=lambda size: (_steps_of(windows[0], size), size))


def _steps_of(k: int, size: int) -> int:
    """The time of all steps over chunks of this size, in elements of k."""
    return -(-k // size) * (size + STEP_ELEMENTS + (size % READ_ALONG_K > 0) + (k % size > 0))


def elements_of_k(found: Contraction) -> int | None:
    """The elements of k in the one loop that it has, or is to have; None where the bound of a loop is not constant."""
    trips = [op.trips for op in accumulating_loops(found.reduction)]
    if None in trips or (len(trips) > 1 and not needs_flattening(found)):
        return None
    return math.prod(trip or 1 for trip in trips)


def best_tiling(found: Contraction, size: int, target: TargetAttr, has_registers: bool = True) -> Tiling:
    """The tiling of a contraction whose elements have `size` bytes; of one output a thread without register tiles."""
    times = tilings(found, size, target, has_registers)
    limit = min(times.values()) * TOLERANCE
    good = (option for option in times if times[option] <= limit)
    return min(good, key=lambda option: (option.parts, times[option]))


def tilings(found: Contraction, size: int, target: TargetAttr, has_registers: bool = True) -> dict[Tiling, float]:
    """The tilings that `best_tiling` chooses from, with the nanoseconds that each takes."""
    problem = Problem.of(found, size, target)
    boxed = capability(target) >= FIRST_BOXES and takes_boxes(found)
    cells = 512 // size // len(found.products) if has_registers else 1
    tiles = [tile for tile in TILES if tile.cells_m * tile.cells_n <= cells and (boxed or not tile.is_boxed)]
    tiles = [tile for tile in tiles if tile.m != ODD_ROWS or (problem.m % tile.m == 0 and problem.m % TILES[0].m)]
    options = [Tiling(tile, parts, over) for tile in tiles for parts in problem.parts() for over in ("block", "ticket")]
    options += [Tiling(tile, shares.most_parts, "stream") for tile in tiles if (shares := problem.shares(tile))]
    return {option: problem.time(option) for option in options}


def takes_boxes(found: Contraction) -> bool:
    """Whether both factors are read from memory along k, in rows of whole units of a box."""
    k = found.innermost
    return k is found.reduction and all(boxes_take(factor, k.iv) for factor in found.operands)


def fills_lines(found: Contraction) -> bool:
    """Whether boxes take the factors of each product as they lie in memory, along k or along the output's axes."""
    loads = [read_of(factor) for factor in found.operands]
    return takes_boxes(found) or all(load is not None and _is_plain(load) for load in loads)


def _is_plain(load: loop.LoadOp) -> bool:
    """Whether each subscript of a read is a coordinate, of rows of whole units of a box."""
    is_plain = all(form == Linear.of(root) for form in subscripts_of(load) for root in form.roots())
    return is_plain and memory_of(load.source) is None and _row_bytes(load) % BOX_UNIT_BYTES == 0


def boxes_take(value: SSAValue, k: SSAValue) -> bool:
    """Whether a value is read from memory along a coordinate, in rows of whole units of a box."""
    load = read_of(value)
    if load is None or memory_of(load.source) is not None:
        return False
    *outer, last = subscripts_of(load)
    is_along_k = last.coefficient(k) == 1 and not any(form.depends_on(k) for form in outer)
    return is_along_k and _row_bytes(load) % BOX_UNIT_BYTES == 0


def _row_bytes(load: loop.LoadOp) -> int:
    type = loop.memref_of(load.source)
    return type.get_shape()[-1] * element_bytes(type.element_type)


@dataclass(frozen=True)
class Problem:
    """The extents of a contraction, and the rates of the target.

    `steps` are the chunks of k, None where they are not known. It `is_uneven` where a mask ends k, so that CTAs take
    unlike times. `work` is the work share of the sizes of tiles that have been asked for.
    """

    m: int
    n: int
    batch: int
    steps: int | None
    chunk: int
    size: int
    products: int
    rates: Rates
    found: Contraction
    is_uneven: bool
    work: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])

    @staticmethod
    def of(found: Contraction, size: int, target: TargetAttr) -> Problem:
        m, n, batch = map(known_points, (found.m, found.n, found.batch))
        is_uneven = bool(wheres(found.reduction.body.block))
        k, chunk, products = elements_of_k(found), chunk_of(found), len(found.reduction.results)
        steps = None if k is None else -(-k // chunk)
        return Problem(m, n, batch, steps, chunk, size, products, Rates.of(target), found, is_uneven)

    def parts(self) -> Iterator[int]:
        """The numbers of parts that may be chosen."""
        yield 1
        if self.is_uneven or wheres(self.found.reduction.parent_block() or Block()):
            return
        yield from range(2, 1 + min(MAX_PARTS, (self.steps or 0) // MIN_STEPS))

    def shares(self, tile: CtaTile) -> Shares | None:
        """How the CTAs of a full wave share the steps of all tiles; None where they may not, or have too few.

        Contractions of windows are not shared so, nor those of more than `MOST_SHARED_WAVES`, whose last wave matters
        little: neither is measured.
        """
        if len(list(self.parts())) == 1 or needs_flattening(self.found):
            return None
        tiles = self.batch * -(-self.m // tile.m) * -(-self.n // tile.n)
        shares = Shares(tiles, self.steps or 1, self.rates.sms * tile.occupancy)
        is_long = tiles > MOST_SHARED_WAVES * shares.ctas
        return None if shares.is_whole or is_long or shares.length < max(MIN_STEPS, tile.depth) else shares

    def time(self, tiling: Tiling) -> float:
        """Nanoseconds of the launches."""
        if tiling.over == "stream":
            return self._streaming(tiling.tile)
        grid = self._grid(tiling.tile, tiling.parts)
        return grid + self._sum(tiling) if tiling.parts > 1 else grid

    def _grid(self, tile: CtaTile, parts: int) -> float:
        """Nanoseconds of the contraction."""
        size = tile.m, tile.n
        if size not in self.work:
            self.work[size] = work_share(self.found, *size, self.chunk)
        ctas = parts * self.batch * -(-self.m // tile.m) * -(-self.n // tile.n) * self.work[size]
        operations = 2 * tile.m * tile.n * self.chunk * -(-(self.steps or 1) // parts) * self.products
        return self.rates.grid_ns(ctas, operations, tile.occupancy, tile.rate, is_uneven=self.is_uneven)

    def _streaming(self, tile: CtaTile) -> float:
        """Nanoseconds of a full wave that shares the steps of all tiles: a CTA has the parts of two tiles at most."""
        shares = self.shares(tile)
        assert shares is not None
        size, operations = tile.m * tile.n * self.size * self.products, 2 * tile.m * tile.n * self.chunk * self.products
        grid = self.rates.grid_ns(shares.ctas, operations * shares.length, tile.occupancy, tile.rate, is_uneven=False)
        parts = min(2 * shares.ctas, shares.ctas + shares.tiles)
        return grid + self.rates.moving_ns(2 * parts * size) + shares.most_parts * size / self.rates.grid.last_cta_rate

    def _sum(self, tiling: Tiling) -> float:
        """Nanoseconds to store the parts, to read them and to add them."""
        parts = tiling.parts
        size = self.size * self.products
        moved = self.rates.moving_ns(2 * parts * self.batch * self.m * self.n * size)
        if tiling.over == "block":
            return moved + self.rates.grid.second_launch_ns
        return moved + parts * tiling.tile.m * tiling.tile.n * size / self.rates.grid.last_cta_rate


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


def reduce_chunk(launch: tile.LaunchOp, reduction: loop.ReduceOp) -> int | None:
    """The most iterations of a reduction, a power of two, whose slabs fit in the shared memory of a CTA.

    All iterations where they fit together, or where nothing is known to be read; None where its bound is not constant.
    """
    module = launch.get_toplevel_object()
    if reduction.trips is None or not isinstance(module, ModuleOp):
        return None
    inside = [axis for axis in launch.axes if axis not in launch.ctas]
    per_iteration = 0
    for load in reduction.body.walk():
        if isinstance(load, loop.LoadOp) and tile.memory_of(load.source) is None:
            slab = shared_footprint(load, [reduction.iv, *inside])
            size = element_bytes(loop.memref_of(load.source).element_type)
            per_iteration += 0 if slab is None else -(-slab.elements * size // max(reduction.trips, 1))
    budget = target_of(module).fact("shared_per_block")
    if per_iteration * reduction.trips <= budget:
        return reduction.trips
    return 1 << max(budget // per_iteration, 1).bit_length() - 1
