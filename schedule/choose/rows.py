"""The heuristic schedules of kernels that reduce rows along contiguous memory, or columns along strided memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from deplodock.analysis.access.alignment import address, element_bytes, lanes_along
from deplodock.analysis.affine.linear import Linear, extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.targets import ACCESS_BYTES, REGISTER_BYTES, WARP
from deplodock.analysis.shape.dependence import is_coordinate, varying_bound, wheres
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import row_chain
from deplodock.dialects import loop
from deplodock.dialects.kernel import TargetAttr
from deplodock.schedule.choose.sizes import (
    CTA_THREADS,
    ROW_VALUES,
    THREAD_VALUES,
    VECTOR,
    cta_rules,
    holds_row,
    is_read_again,
    steps_in_flight,
)
from deplodock.schedule.steps import Options

TEAM = 8
"""The fewest threads that share a row. Measured on an H200 on a softmax of 70,000 rows of 50: 13.4 us with 32 threads
for each, 9.7 with 16 and 9.1 with 8 that hold its exponentials, 10.4 with 8 that compute these again."""

SCANNED = 2
"""The least neighbours of a thread in rows that are scanned, also where no access takes as many: each step waits for
the one before. Measured on an H200 on prefix sums of 2,000 rows of 3,001: 25.8 us with 1, 18.6 with 2, 19.4 with 4."""


def row_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options] | None:
    """A CTA for a row or a few short ones, or for neighbouring rows that share elements; None for other nests."""
    if (rows := row_options(nest, target)) is None:
        return None
    together, width = rows_together(nest, target), int(rows["vector"])
    if together > 1:
        rows["threads"] = min(CTA_THREADS, int(rows["threads"]))
    threads = int(rows["threads"]) * int(rows.get("outer", 1))
    steps = steps_in_flight(nest, int(rows["threads"]) * width, width * together)
    schedule = {
        "tileify": {},
        "cooperative-reduce": rows,
        **cta_rules(max(CTA_THREADS, threads * together), steps, together),
    }
    return schedule | ({"stage-inputs": {"memory": "register"}} if together > 1 else {})


def row_options(nest: Nest, target: TargetAttr) -> dict[str, int | str] | None:
    """Threads and vector for a kernel that reduces or scans rows along contiguous memory, or None if it does not.

    A kernel of one row shares it among threads wherever its elements lie. The threads are a power of two from one warp,
    which reduces without shared memory, to `CTA_THREADS`, so that each has about `THREAD_VALUES` values; more only
    where each would hold over `ROW_VALUES`. Short rows have down to `TEAM` where they are so many that these fill the
    SMs; their loops become axes, so that what they compute of an element is computed once. Masked rows get the fewest
    threads that can hold one, so that they skip more steps of which the mask leaves nothing. Rows that are scanned get
    at most `CTA_THREADS` where they fill the SMs, as each thread folds the totals of all warps. Where a row has several
    loops, the innermost walks memory, and the threads that it leaves of a CTA share the outermost.
    """
    chains = [row_chain(op) for op in nest.folds()]
    if not chains or any(op.trips is None for chain in chains for op in chain):
        return None
    extent = max(chain[-1].trips or 0 for chain in chains)
    outer = max(chain[0].trips or 0 if len(chain) > 1 else 1 for chain in chains)
    if extent * outer < WARP or (nest.axes and not all(_walks_memory(chain[-1]) for chain in chains)):
        return None
    rows = [row_chain(op)[-1] for op in nest.row_loops() if op.trips is not None]
    size = max((element_bytes(type.element_type) for op in rows for type, _ in _accesses(op)), default=REGISTER_BYTES)
    row = -(-extent * size // REGISTER_BYTES)
    is_scanned = any(isinstance(op, loop.ScanOp) for each in nest.folds() for op in each.body.walk())
    outputs = prod(extent_or_one(axis) for axis in nest.axes)
    most = CTA_THREADS if is_scanned and outputs >= target.fact("sms") else target.fact("threads_per_block")
    is_masked = any(wheres(op.body.block) for chain in chains for op in chain)
    values = ROW_VALUES if is_masked else THREAD_VALUES
    has_teams = outer == 1 and not is_scanned and not is_masked and _can_be_axes(nest)
    threads = WARP
    while has_teams and threads > TEAM and outputs * threads >= 2 * target.fact("sms") * target.fact("threads_per_sm"):
        threads //= 2
    while threads < most and row > threads * (values if threads < CTA_THREADS else ROW_VALUES):
        threads *= 2
    vector = min(map(row_width, rows))
    while vector > VECTOR and vector * threads > extent:
        vector //= 2
    if is_scanned and vector < SCANNED <= -(-extent // threads) and not any(map(varying_bound, rows)):
        vector = SCANNED
    options: dict[str, int | str] = {"threads": threads, "vector": vector}
    if outer == 1:
        return options | ({"keep": "axes"} if threads < WARP else {})
    threads = min(threads, _power_above(-(-extent // vector)))
    limit = CTA_THREADS if nest.axes else most
    shared = max(1, min(limit // threads, _power_above(outer)))
    return options | {"threads": threads} | ({"outer": shared} if shared > 1 else {})


def _can_be_axes(nest: Nest) -> bool:
    """Whether the loops over a row may become an axis of registers: they are alike, and none has a bound of its own."""
    loops = nest.row_loops()
    return len({op.trips for op in loops}) == 1 and not any(map(varying_bound, loops))


def rows_together(nest: Nest, target: TargetAttr) -> int:
    """The neighbouring rows that each thread of a kernel reduces together, a power of two up to `VECTOR`.

    They are several where the rows share elements, as those of a matrix share the vector that it multiplies, which are
    too many to stay in the L1 cache: a CTA then reads these once for all of its rows. Each SM keeps two CTAs.
    """
    if not nest.axes or any(isinstance(op, loop.ScanOp) for op in nest.body.walk()):
        return 1
    axis, outputs = nest.axes[-1], prod(map(extent_or_one, nest.axes))
    stores = [op for op in nest.body.walk() if isinstance(op, loop.StoreOp)]
    places = [address(loop.memref_of(op.destination), subscripts_of(op)) for op in stores]
    chains = [row_chain(op) for op in nest.row_loops()]
    reads = [(type, forms) for chain in chains for type, forms in _accesses(chain[-1])]
    shared = [type for type, forms in reads if not any(form.depends_on(axis) for form in forms)]
    size = max((element_bytes(type.element_type) * prod(type.get_shape()) for type in shared), default=0)
    if size <= target.fact("shared_per_sm") or any(place.coefficient(axis) != 1 for place in places):
        return 1
    rows = 1
    while rows < VECTOR and extent_or_one(axis) % (2 * rows) == 0 and outputs >= 4 * rows * target.fact("sms"):
        rows *= 2
    return rows


def _power_above(count: int) -> int:
    """The least power of two that is not below a positive count."""
    return 1 << (count - 1).bit_length()


def _accesses(op: loop.LoopLike) -> list[tuple[MemRefType[Attribute], Sequence[Linear]]]:
    """The buffers' types and the subscripts of the accesses in a loop's body that depend on its variable."""
    found: list[tuple[MemRefType[Attribute], Sequence[Linear]]] = []
    for inner in op.body.walk():
        if isinstance(inner, loop.LoadOp | loop.StoreOp):
            buffer = inner.source if isinstance(inner, loop.LoadOp) else inner.destination
            forms = subscripts_of(inner)
            if any(form.depends_on(op.iv) for form in forms):
                found.append((loop.memref_of(buffer), forms))
    return found


def _walks_memory(op: loop.LoopLike) -> bool:
    """Whether a loop's accesses step through contiguous memory, forwards or backwards, or it has none.

    Those that come back to the same elements, as to a table, do not count, nor those at indices that are read.
    """
    places = [address(type, forms) for type, forms in _accesses(op)]
    once = [place for place in places if not _comes_back(place, op) and all(map(is_coordinate, place.roots()))]
    return all(abs(place.coefficient(op.iv)) == 1 for place in once) and (bool(once) or not places)


def _comes_back(place: Linear, op: loop.LoopLike) -> bool:
    """Whether a loop accesses each of the elements at a place at least twice."""
    moving, _ = place.split(lambda root: root is op.iv)
    bounds = moving.range()
    return op.trips is not None and bounds is not None and 2 * (bounds[1] - bounds[0] + 1) <= op.trips


def row_width(op: loop.LoopLike) -> int:
    """The widest access that suits all accesses of a loop along its variable; 1 where an inner bound depends on it."""
    if varying_bound(op) is not None:
        return 1
    widths = [
        len(lanes_along(type, forms, op.iv, gcd(op.trips or 1, ACCESS_BYTES // element_bytes(type.element_type))))
        for type, forms in _accesses(op)
    ]
    return min(widths, default=VECTOR)


LONG = 512
"""The least elements of a column for each of its threads, so that these level out the last wave of CTAs. Measured on an
H200 on 128 x 4096 x 4095 along the middle: 2,361 us with 4 threads for a column, 128 columns of a CTA and 16 loads at
once, 2,534 with a thread for each, in two waves; 2,589 with 8 threads and 32 columns."""

WAVES = 4
"""The least waves of CTAs for long columns."""

SM_THREADS = 2048
"""The threads of a full SM."""

MOST_THREADS = 1024
"""The most threads of a CTA."""

LONG_COLUMNS = 128
"""Neighbouring columns of a CTA where they are long, so that it reads 512 bytes of each row."""

LONG_IN_FLIGHT = 2
"""How many times the loads of others a thread of a long column has in flight."""

HELD_THREADS = 512
"""The most threads of a CTA whose columns are in their registers. Measured on an H200 on a softmax of 64 x 500 x 300
over the 500, with 16 threads for each column: 25.6 us with 512, 28.4 with 256, which read 64 bytes of each row, and
32.6 with 1,024, of which an SM has one CTA at once, so that it does not read while it computes."""


def column_options(nest: Nest, sms: int) -> dict[str, int | str] | None:
    """Threads for each column of a kernel that reduces along strided memory, or None if one will do.

    Neighbouring threads stay on neighbouring columns; each column gets the power of two that gives every SM two CTAs,
    while a thread keeps at least `THREAD_VALUES` elements, or the GPU `WAVES` of them, while it keeps `LONG` ones.
    Columns that are read again fill the SMs, and get at least the threads that hold them in registers, each `VECTOR`
    neighbours, which it folds beside each other. Measured on an H200 on a softmax of 64 x 500 x 300 over the 500: 93.3,
    58.5 and 38.5 us with 4, 8 and 16 threads that read chunks three times, 25.6 with 16 that hold the column.
    """
    extents = [op.trips for op in nest.reductions()]
    if not extents or not nest.axes or any(extent is None for extent in extents):
        return None
    outputs, shortest = known_points(nest.axes), min(extent or 0 for extent in extents)
    is_again, threads = is_read_again(nest), 1
    fill = sms * (SM_THREADS if is_again else 2 * CTA_THREADS)
    while threads < WARP:
        is_filled = outputs * threads >= fill
        if is_filled and outputs * threads >= WAVES * sms * SM_THREADS:
            break
        if shortest < 2 * threads * (LONG if is_filled else THREAD_VALUES):
            break
        threads *= 2
    if is_again:
        threads = max(threads, _holding_threads(nest))
    if threads == 1:
        return None
    is_held = is_again and holds_row(nest, threads) and not any(map(varying_bound, nest.row_loops()))
    return {"threads": threads, "lanes": "free", **({"vector": VECTOR} if is_held else {})}


def column_rules(nest: Nest, target: TargetAttr) -> Mapping[str, Options] | None:
    """A warp or more on neighbouring columns, and the loads of several rows in flight in each thread at once.

    None for a nest that reduces none, or where a thread for each is enough.
    """
    if (columns := column_options(nest, target.fact("sms"))) is None:
        return None
    threads = int(columns["threads"])
    is_long = all((op.trips or 0) >= LONG * threads for op in nest.reductions())
    steps = steps_in_flight(nest, threads)
    most = HELD_THREADS if is_read_again(nest) and holds_row(nest, threads) else MOST_THREADS
    together = min(LONG_COLUMNS if is_long else WARP, most // threads)
    schedule: dict[str, Options] = {
        "tileify": {},
        "cooperative-reduce": columns,
        "blockify-launch": {"threads": max(CTA_THREADS, together * threads)},
    }
    if steps > 1:
        schedule["chunk-reduce"] = {"size": steps * LONG_IN_FLIGHT if is_long else steps}
    schedule["stage-inputs"] = {}
    schedule["mark-unroll"] = {}
    return schedule


def _holding_threads(nest: Nest) -> int:
    """The fewest threads that hold a column in registers, or 1 where more than a warp would have to."""
    counts = (1 << power for power in range(WARP.bit_length()))
    return next((threads for threads in counts if holds_row(nest, threads)), 1)
