"""The axes and the body of a contraction that warpgroups compute: `tensor-tile{engine=wgmma}`.

    tile.launch (.., %m_t = 128 : thread,          tile.launch (.., %m_w = 2 : thread, %m_q = 4 : thread,
                 %n_t = 128 : thread) {                         %m_g = 8 : thread, %n_t = 4 : thread,
                                                                %n_j = 16 : register, %m_h = 2 : register,
                                                                %n_r = 2 : register, %k_e = 64 : engine,
                                                                %n_e = 128 : engine) {
      %0 = loop.reduce {arith.addf} %ki = 0 to 64       %a = loop.load %xs[%m_c, %k_e] : ..
        : f32 {                               ->        %b = loop.load %ws[%n_e, %k_e] : ..
        ..                                              %c = tile.contract wgmma %a * %b over (%k_e)
        loop.yield %p : f32                               at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32

The engine reads both slabs, so no thread holds a factor. It reads FP32 along k alone: of a left factor that lies along
the output, threads hold what the engine reads, `math_ext.high_part`. Of FP32 factors that split-factors is to split,
threads hold the left one, too, whose parts they compute, and the low part of the right one has a slab of its own:

      %a = loop.load %ws[%n_c, %k] : ..
      %b = loop.load %xs[%m_e, %k_e] : ..
      %b_low = loop.load %xs_low[%m_e, %k_e] : ..
      %c = tile.contract wgmma %a * %b_both over (%k_t, %k_q) at (%m_e = .., %k_e = %k_q * 4 + %k_t) {..}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr, f32
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.access.boxes import boxes_of
from deplodock.analysis.access.slabs import slab_of
from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of, to_map
from deplodock.analysis.machine.atoms import walks_neighbours
from deplodock.analysis.operations import label
from deplodock.dialects import loop, math_ext, tile
from deplodock.dialects.engines import WARPGROUPS, WGMMA
from deplodock.dialects.kernel.roles import WARPGROUP
from deplodock.dialects.kernel.wgmma import ROWS, columns_of, depth_of
from deplodock.dialects.precision import HIGH, precision_of, set_precision_of
from deplodock.dialects.swizzle import SPANS
from deplodock.dialects.tile import Binding
from deplodock.passes.clean_up import location_of
from deplodock.passes.tile.edits import (
    Axis,
    Part,
    append_axis,
    append_digit,
    append_lane,
    computed_of,
    drop_axis,
    places_at,
    read_at,
    recompute,
    reorder,
    total_of,
)
from deplodock.passes.tile.rule import Skip


@dataclass(frozen=True)
class WarpgroupMatch:
    """A contraction that warpgroups can compute: its rows and columns in a CTA, its innermost loop and its loads."""

    m: BlockArgument
    n: BlockArgument
    inner: loop.ReduceOp
    pairs: Sequence[tuple[loop.LoadOp, loop.LoadOp]]
    """The factors of each product, the left one first."""
    masks: Sequence[loop.WhereOp]
    """The conditions on k, beyond which both factors are zero."""
    low: Mapping[loop.LoadOp, loop.LoadOp]
    """The reads of low parts, by those of the factors whose low parts are stored."""

    @property
    def holds_left(self) -> bool:
        """Whether threads hold the left factors: they compute their parts, or the engine cannot read them along k."""
        return self.is_split or self.lies_across

    @property
    def lies_across(self) -> bool:
        """Whether the rows of left factors of FP32 lie side by side in their slabs, where k walks along columns."""
        lefts = [left for left, _ in self.pairs]
        return any(left.result.type == f32 and not walks_neighbours(left, self.inner.iv) for left in lefts)

    @property
    def is_split(self) -> bool:
        """Whether factors are to be split into parts."""
        owners = (value.owner for value in self.inner.yielded)
        return any(precision_of(product) == HIGH for product in owners if isinstance(product, Operation))


def check_warpgroups(match: WarpgroupMatch, rows: int, columns: int) -> None:
    """Raises Skip where the tile of a CTA is none of warpgroups of so many rows, and columns at most."""
    m, n = extent_or_one(match.m), extent_or_one(match.n)
    type = match.pairs[0][0].result.type
    if rows % ROWS:
        raise Skip(f"a warpgroup computes a multiple of {ROWS} rows, not {rows}")
    if m % rows:
        raise Skip(f"the {m} rows of a CTA are no multiple of the {rows} of a warpgroup")
    if n not in columns_of(type):
        raise Skip(f"the {n} columns of a CTA are no multiple of 8 up to 256")
    if n > columns:
        raise Skip(f"the {n} columns of a CTA are more than the {columns} of a warpgroup")
    if match.inner.trips is None or match.inner.trips % depth_of(type):
        raise Skip(f"a chunk of {match.inner.trips} elements of k is no multiple of the {depth_of(type)} of a product")
    outer = match.inner.parent_op()
    if not isinstance(outer, loop.ReduceOp) or not any(isinstance(op, tile.StageOp) for op in outer.body.block.ops):
        raise Skip("its chunk has several loops; run chunk-matmul-k with kv=1")
    sums = match.inner.results
    if tuple(outer.yielded) != tuple(sums) or not all(total.has_one_use() for total in sums):
        raise Skip("the sum of a chunk is used by something else than the sum of all")
    if (threads := m // rows * WARPGROUP) > 1024:
        raise Skip(f"warpgroups of so few rows make {threads} threads of a CTA, above 1024")
    lefts, rights = zip(*match.pairs, strict=True)
    if match.is_split and (lacking := [load for load in rights if load not in match.low]):
        raise Skip(f"{label(lacking[0].source)}: {WGMMA} reads the low parts of its right factor, and none are stored")
    for load in dict.fromkeys((*rights, *match.low.values()) if match.holds_left else (*lefts, *rights)):
        if (reason := _unreadable(load, match.inner.iv)) is not None:
            raise Skip(reason)


def _unreadable(load: loop.LoadOp, depth: SSAValue) -> str | None:
    """Why no swizzled boxes fill the slab of a factor so that the engine reads it along k, `depth`; None if some do."""
    stage, type, name = load.source.owner, loop.memref_of(load.source), label(load.source)
    if not isinstance(stage, tile.StageOp):
        return f"{name} is filled by no tile.stage, and {WGMMA} reads slabs that come in boxes"
    if any(form != Linear.of(root) for form in subscripts_of(load) for root in form.roots()):
        return f"{name}: {WGMMA} reads neighbouring rows of a slab, and its rows are read in steps"
    size = element_bytes(type.element_type)
    if size != 2 and not walks_neighbours(load, depth):
        kind = "bytes" if size == 1 else str(type.element_type)
        return f"{name}: {WGMMA} reads {kind} along k, and the rows of its slab run along another axis"
    if isinstance(boxes := boxes_of(slab_of(stage)), str):
        return f"{name}: {WGMMA} reads slabs that come in boxes: {boxes}"
    if (row := type.get_shape()[-1] * size) % min(SPANS):
        return f"{name}: {WGMMA} reads swizzled slabs: rows of {row} bytes are no multiple of {min(SPANS)}"
    return None


def _row_across(warp: Linear, group: Linear, half: Linear) -> Linear:
    """The row of 64 that a thread has of a left factor whose slab has rows side by side, 32 in a line of 128 bytes.

    A thread's two rows are neighbours, 8 bytes, and the 16 threads that a shared memory access of that width takes at
    once, of four k each, read all 32 banks: in a line of the swizzle of 128 bytes k exchanges units of 16 bytes, whose
    numbers differ by less than 4. On an H200 128x3584x3584 of TF32 takes 19.0 us so, and 20.7 in the order of the
    instruction, where two accesses of 4 bytes meet in each bank.
    """
    return warp // 2 * 32 + group // 2 % 2 * 16 + warp % 2 * 8 + group // 4 * 4 + group % 2 * 2 + half


def apply_warpgroups(rewriter: PatternRewriter, launch: tile.LaunchOp, match: WarpgroupMatch, rows: int) -> None:
    """Replace the axes of a CTA's tile, and the loop over a chunk of k by one contract."""
    m, n, inner = match.m, match.n, match.inner
    kept = [axis for axis in launch.axes if axis not in (m, n)]
    names = [(axis.name_hint or "a").removesuffix("_t") for axis in (m, n)]
    k_name = (inner.iv.name_hint or "k").removesuffix("i")
    assert inner.trips is not None

    def some(extent: int, binding: Binding, name: str) -> list[SSAValue]:
        return [append_axis(rewriter, launch, Axis(extent, binding, name))] if extent > 1 else []

    (m_name, n_name) = names
    groups = some(extent_or_one(m) // rows, Binding.THREAD, f"{m_name}_w")
    engine = WARPGROUPS[0]
    lines = {digit.letter: append_digit(rewriter, launch, digit, m_name) for digit in engine.rows}
    lane, pair = (append_digit(rewriter, launch, digit, n_name) for digit in engine.columns)
    tiles = some(rows // ROWS, Binding.REGISTER, f"{m_name}_i")
    blocks = some(extent_or_one(n) // 8, Binding.REGISTER, f"{n_name}_j")
    words = some(inner.trips // 4 * match.holds_left, Binding.REGISTER, f"{k_name}_q")
    depth = append_axis(rewriter, launch, Axis(inner.trips, Binding.ENGINE, f"{k_name}_e"))
    column = append_axis(rewriter, launch, Axis(extent_or_one(n), Binding.ENGINE, f"{n_name}_e"))
    word_lanes = [append_lane(rewriter, launch, lane, f"{k_name}_t") for _ in words]
    along: list[Part] = [*((axis, 4) for axis in words), *((axis, 1) for axis in word_lanes)]
    outer: list[Part] = [*((axis, rows) for axis in groups), *((axis, ROWS) for axis in tiles)]
    rows_of = [*outer, *((lines[digit.letter], digit.step) for digit in engine.rows)]
    columns_of = [*((axis, engine.n) for axis in blocks), (lane, engine.column.step), (pair, 1)]
    loads = (*(load for pair in match.pairs for load in pair), *match.low.values())
    forms = {load: subscripts_of(load) for load in loads}
    places = recompute(rewriter, m, rows_of, launch.body.block), recompute(rewriter, n, columns_of, launch.body.block)
    if match.lies_across:
        at_rows = to_map([total_of(outer) + _row_across(*(Linear.of(lines[letter]) for letter in "qgh"))])
        places[0].properties["map"], places[0].operands = AffineMapAttr(at_rows[0]), at_rows[1]
        rewriter.notify_op_modified(places[0])
    for place, name in zip(places, names, strict=True):
        place.result.name_hint = f"{name}_c"
    for mask in match.masks:
        rewriter.erase(mask)
    at = {column: columns_of, **({depth: along} if along else {})}
    of_rows: dict[SSAValue, Linear] = {
        m: Linear.of(places[0].result),
        inner.iv: total_of(along) if along else Linear.of(depth),
    }
    of_columns: dict[SSAValue, Linear] = {n: Linear.of(column), inner.iv: Linear.of(depth)}
    _replace(rewriter, match, forms, (of_rows, of_columns), at)
    for axis in (m, n):
        drop_axis(rewriter, launch, axis)
    registers = [*tiles, *words, *blocks, lines["h"], pair]
    threads = [*groups, lines["q"], lines["g"], lane]
    reorder(rewriter, launch, [*kept, *threads, *registers, *word_lanes, depth, column])


def _replace(
    rewriter: PatternRewriter,
    match: WarpgroupMatch,
    forms: Mapping[loop.LoadOp, Sequence[Linear]],
    places: tuple[Mapping[SSAValue, Linear], Mapping[SSAValue, Linear]],
    at: Mapping[SSAValue, Sequence[Part]],
) -> None:
    """Put the loads and the contracts where the loop over the chunk stands, with the places of both factors."""
    inner, lefts = match.inner, dict.fromkeys(left for left, _ in match.pairs)
    moved = {load: _moved(load, form, places[load not in lefts]) for load, form in forms.items()}
    whole: dict[loop.LoadOp, SSAValue] = {load: moved[load].result for load in forms}
    joined = [math_ext.WithLowPartOp(whole[load], whole[low]) for load, low in match.low.items()]
    for load, both in zip(match.low, joined, strict=True):
        both.location, both.result.name_hint = load.location, load.result.name_hint
        whole[load] = both.result
    rewriter.insert([*moved.values(), *joined], InsertPoint.before(inner))
    if match.lies_across and not match.is_split:
        last = inner.prev_op
        whole |= {
            left: computed_of(rewriter, whole[left], math_ext.HighPartOp, "_high", last) for left in reversed(lefts)
        }
    pairs = [(whole[left], whole[right]) for left, right in match.pairs]
    folded = list(places[0][inner.iv].roots())
    contracts = contracts_of(WGMMA, inner, pairs, folded, places_at(at))
    for contract, total in zip(contracts, inner.results, strict=True):
        contract.result.name_hint = total.name_hint
    rewriter.replace(inner, contracts, [contract.result for contract in contracts])


def contracts_of(
    engine: str,
    inner: loop.ReduceOp,
    pairs: Sequence[tuple[SSAValue, SSAValue]],
    axes: Sequence[SSAValue],
    at: tile.Places,
) -> list[tile.ContractOp]:
    """The contracts of pairs of factors over some axes, for the products that a loop along k yields."""
    contracts: list[tile.ContractOp] = []
    for (left, right), product, total in zip(pairs, inner.yielded, inner.results, strict=True):
        contract = tile.ContractOp(engine, [(left, right)], axes, at, total.type)
        contract.location = location_of(product)
        assert isinstance(product.owner, Operation)
        set_precision_of(contract, precision_of(product.owner))
        contracts.append(contract)
    return contracts


def _moved(load: loop.LoadOp, forms: Sequence[Linear], places: Mapping[SSAValue, Linear]) -> loop.LoadOp:
    """The same read at other coordinates."""
    subscripts: list[Linear] = []
    for form in forms:
        for root, place in places.items():
            form = form.substitute(root, place)
        subscripts.append(form)
    return read_at(load, subscripts)
