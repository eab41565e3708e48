"""The heuristic schedule of a streaming reduction of products, such as attention: its tile, and who shares its rows."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import condition_of, extent_or_one, known_points, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError, streamed_engine
from deplodock.analysis.machine.targets import RESERVED, has_feature
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.nest import Nest
from deplodock.analysis.shape.roles import factors_of, read_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct, streamed_product, weighing
from deplodock.dialects.engines import MMA, WGMMA
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.kernel.tma import MAX_RANK
from deplodock.dialects.kernel.wgmma import ROWS
from deplodock.schedule.choose.long_rows import long_row_options, rows_of, split_options, stream_bytes
from deplodock.schedule.choose.sizes import STREAM_KEYS, STREAM_LANES, STREAM_ROWS, STREAM_WARP
from deplodock.schedule.choose.tiling import boxes_take
from deplodock.schedule.steps import Options

SHARING = 2
"""CTAs of 256 threads that are to share an SM: one computes while the other waits for its slabs."""

WIDE_ROWS = 128
"""Rows of a CTA of warps where there are enough of them: keys and values are read from L2 half as often."""

WIDE_KEYS = ((64, 64), (128, 32))
"""Elements of a step of warps that hold 32 rows, by the most columns: more would spill (nvcc 13.0, sm_90)."""

WARP_KEYS = ((192, 64), (256, 32))
"""The same for warps of 16 rows."""

WARPGROUP_ROWS = 128
"""Rows of a CTA of warpgroups where there are enough of them. On an H200 28 causal heads of 512x128 take 12.5 us with
128 rows and 128 elements a step, 14.1 with 64 elements, and with 64 rows 18.6 and 15.2; of 2048x128 67 us with 128
rows, 100 with 192."""

WARPGROUP_KEYS = ((128, 128), (256, 64))
"""Elements of a step of warpgroups, by the most columns: more would spill (nvcc 13.0, sm_90a)."""

PART_KEYS = ((64, 64), (128, 32), (256, 16))
"""The same for warps of 16 rows that multiply FP32 factors in parts."""

RING_SLOTS = 2
"""Steps of warps on chip: one is read while the next one lands."""

ALONE_SLOTS = RING_SLOTS + 1
"""Steps of warps that multiply parts, where CTAs that take unlike times are one or two for each SM: so many slots keep
a second CTA off an SM, and the SMs that end first take the CTAs that are left. On an H200 28 causal heads of 512x128
take 55.8 us in place of 69.5, 8 of 2048x128 203 in place of 254; without a mask 28 of 512x128 take 130 in place of 109,
of more CTAs 28 heads of 1024x128 187 in place of 177, and 32 heads of 512x64 38.1 in place of 37.1."""

ALONE_COLUMNS = 65
"""The fewest columns where that pays."""


def stream_rules(nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules of a nest that streams products; None for any other, and where no tile fits on chip."""
    found = streamed_product(nest)
    return None if found is None else stream_options(found, nest, target)


def weighed_rules(nest: Nest, target: TargetAttr) -> Iterator[tuple[dict[str, Options], float | None]]:
    """The rules that are weighed for a nest that streams products, if it does; there is no model of their times."""
    if (found := streamed_product(nest)) is not None:
        yield from ((options, None) for options in stream_alternatives(found, nest, target))


def stream_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules for a streaming reduction of products and their options; None where no tile fits on chip.

    The tensor cores of warpgroups multiply where they can, else those of warps. Else the tile has as many rows as there
    are, up to `STREAM_ROWS`, fewer where half of the SMs were idle, and the longest steps that let CTAs share an SM.
    Where tiles leave SMs idle still, several CTAs share a row.
    """
    chosen = next(stream_alternatives(found, nest, target), None)
    return None if chosen is None else split_options(found, nest, target, chosen)


def stream_alternatives(found: StreamedProduct, nest: Nest, target: TargetAttr) -> Iterator[dict[str, Options]]:
    """The rules and options of all ways that suit a streaming reduction of products, the one to take first."""
    for options_of in (long_row_options, _warpgroup_options, _warp_options, _thread_options):
        if (options := options_of(found, nest, target)) is not None:
            yield options


def _thread_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules and options for the products of threads; None where no tile fits on chip."""
    rows = rows_of(found)
    groups = known_points(nest.axes) // extent_or_one(found.columns) // rows
    tiles = [
        (m, n)
        for m in (STREAM_ROWS, STREAM_ROWS // 2, STREAM_LANES)
        for n in (2 * STREAM_KEYS, STREAM_KEYS)
        if m == STREAM_LANES or (m // 2 < rows and 2 * groups * -(-rows // m) > target.fact("sms"))
    ]
    most, share = target.fact("shared_per_block"), target.fact("shared_per_sm") // SHARING - RESERVED
    fitting = [tile for tile in tiles if stream_bytes(found, *tile) <= min(most, share)]
    fitting = fitting or [tile for tile in tiles if stream_bytes(found, *tile) <= most]
    if not fitting:
        return None
    m, n = fitting[0]
    return {
        "tileify": {},
        "stream-tile": {"m": m, "n": n},
        "async-copy": {},
        "pad-smem": {},
        "mark-unroll": {},
    }


def _warpgroup_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules and options for the tensor cores of warpgroups; None where they take no such products.

    Two warpgroups of a CTA have the same keys and values; where CTAs of one leave SMs idle too, a CTA has one.
    """
    rows, outputs = rows_of(found), extent_or_one(found.columns)
    has_engine = has_feature(target, Feature.WARPGROUPS) and has_feature(target, Feature.BOXES)
    if not has_engine or rows < ROWS or not _takes_boxes(found):
        return None
    widest, ctas = max(outputs, found.scores.trips or 0), known_points(nest.axes) // outputs // rows
    m = WARPGROUP_ROWS if ctas * -(-rows // ROWS) > target.fact("sms") else ROWS
    keys = next((keys for most, keys in WARPGROUP_KEYS if widest <= most), 0)
    if not keys or stream_bytes(found, m, keys, WGMMA, RING_SLOTS) > target.fact("shared_per_block"):
        return None
    return {
        "tileify": {},
        "stream-tile": {"m": m, "n": keys, "engine": WGMMA},
        "double-buffer": {"depth": RING_SLOTS},
        "tma-copy": {},
        "split-inner-for-swizzle": {},
        "pipeline-k-outer": {"distance": RING_SLOTS - 1},
        "mark-unroll": {},
    }


def _takes_boxes(found: StreamedProduct) -> bool:
    """Whether tensor cores take the factors of both products, and boxes all that the products read."""
    try:
        row = streamed_engine(found, MMA)
    except NoAtomError:
        return False
    if row.packed == 1:
        return False
    (product,) = summed_products(found.scores)
    values = [value for value, _ in weighing(found.reduction) if found.columns in Dependence().of(value)]
    reads = [*((factor, found.scores.iv) for factor in factors_of(product)[0]), *((v, found.columns) for v in values)]
    return all(boxes_take(value, along) and _steps_through_rows(found, value) for value, along in reads)


def _steps_through_rows(found: StreamedProduct, value: SSAValue) -> bool:
    """Whether rows or elements of the row walk one dimension of what a value is read of, as a box has it."""
    load, axes = read_of(value), (found.rows, found.reduction.iv)
    assert load is not None, "boxes take what is read"
    forms = subscripts_of(load)
    walked = [(form, axis) for form in forms for axis in axes if axis is not None and form.depends_on(axis)]
    if len(walked) != 1 or len(forms) > MAX_RANK:
        return False
    ((form, axis),) = walked
    return form is not forms[-1] and list(form.roots()).count(axis) == form.coefficient(axis) == 1


def _warp_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules and options for the tensor cores of warps; None where they take no such products, or no tile fits.

    A warp has twice the rows of an instruction where its accumulators fit in registers: it then reads half as much
    shared memory for each product. Where such tiles leave SMs idle, they have the fewest rows that fill four warps.
    """
    rows, outputs = rows_of(found), extent_or_one(found.columns)
    if not has_feature(target, Feature.MMA) or found.rows is None:
        return None
    try:
        row = streamed_engine(found, MMA)
    except NoAtomError:
        return None
    if row.packed == 1:
        return _parts_options(found, nest, target)
    ctas = known_points(nest.axes) // outputs // rows * -(-rows // WIDE_ROWS)
    is_large, widest = ctas >= SHARING * target.fact("sms"), max(outputs, found.scores.trips or 0)
    m = WIDE_ROWS if is_large else min(STREAM_ROWS, -(-rows // STREAM_WARP) * STREAM_WARP)
    warp = 2 * STREAM_WARP if is_large and widest <= WIDE_KEYS[-1][0] else STREAM_WARP
    keys = next((keys for most, keys in (WARP_KEYS if warp == STREAM_WARP else WIDE_KEYS) if widest <= most), 0)
    tiles = [(m, keys), (min(m, STREAM_ROWS), keys), (min(m, STREAM_ROWS), keys // 2)] if keys else []
    most = target.fact("shared_per_block")
    fitting = [(m, n) for m, n in tiles if stream_bytes(found, m, n, MMA, RING_SLOTS) <= most]
    if not fitting:
        return None
    m, keys = fitting[0]
    return {
        "tileify": {},
        "stream-tile": {"m": m, "n": keys, "warp": warp, "engine": MMA},
        "double-buffer": {"depth": RING_SLOTS},
        "async-copy": {},
        "pipeline-k-outer": {},
        "mark-unroll": {},
    }


def _parts_options(found: StreamedProduct, nest: Nest, target: TargetAttr) -> dict[str, Options] | None:
    """The rules and options for products of FP32 factors in parts by warps of 16 rows; None where no tile fits."""
    rows, widest = rows_of(found), max(extent_or_one(found.columns), found.scores.trips or 0)
    m = min(STREAM_ROWS, -(-rows // STREAM_WARP) * STREAM_WARP)
    keys, most = next((keys for most, keys in PART_KEYS if widest <= most), 0), target.fact("shared_per_block")
    if not keys or stream_bytes(found, m, keys, MMA, RING_SLOTS) > most:
        return None
    ctas = known_points(nest.axes) // extent_or_one(found.columns) // rows * -(-rows // m)
    two, alone = (2 * (stream_bytes(found, m, keys, MMA, slots) + RESERVED) for slots in (RING_SLOTS, ALONE_SLOTS))
    parts_them = two <= target.fact("shared_per_sm") < alone <= 2 * most and widest >= ALONE_COLUMNS
    is_few = _is_uneven(found) and target.fact("sms") < ctas <= 2 * target.fact("sms")
    return {
        "tileify": {},
        "stream-tile": {"m": m, "n": keys, "warp": STREAM_WARP, "engine": MMA},
        "split-factors": {},
        "double-buffer": {"depth": ALONE_SLOTS if is_few and parts_them else RING_SLOTS},
        "async-copy": {},
        "pipeline-k-outer": {},
        "mark-unroll": {},
    }


def _is_uneven(found: StreamedProduct) -> bool:
    """Whether a mask ends rows at unlike elements, as a causal one does."""
    rows, limits = found.rows, map(condition_of, wheres(found.reduction.body.block))
    return rows is not None and any(limit.depends_on(rows) for limit in limits)
