"""The axes and the body of a contraction that tensor cores compute: `tensor-tile{engine=mma}` or `wgmma`.

`tensor_tile.py` has what warps compute. Of warpgroups it is

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

from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, UnitAttr, f32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.linear import Linear, extent_or_one, subscripts_of, to_map
from deplodock.analysis.machine.atoms import walks_neighbours
from deplodock.analysis.shape.footprint import gathered_footprint, register_footprint
from deplodock.analysis.shape.roles import is_part_of
from deplodock.dialects import loop, math_ext, tile
from deplodock.dialects.engines import Engine
from deplodock.dialects.precision import HIGH, precision_of, set_precision_of
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.clean_up import location_of
from deplodock.passes.tile.edits import (
    Axis,
    Part,
    append_axis,
    append_digit,
    append_lane,
    computed_of,
    drop_axis,
    moved_read,
    places_at,
    recompute,
    reorder,
    stage_read,
    total_of,
)


@dataclass(frozen=True)
class Match:
    """A contraction that an engine can compute, and its tile; m is the side of the instruction's rows."""

    engine: Engine
    m: BlockArgument
    n: BlockArgument
    inner: loop.ReduceOp
    """The loop whose iterations yield the products."""
    pairs: Sequence[tuple[loop.LoadOp, loop.LoadOp]]
    """The factors of each product, the left one first."""
    masks: Sequence[loop.WhereOp]
    """The conditions on k, beyond which both factors are zero."""
    low: Mapping[loop.LoadOp, loop.LoadOp]
    """The reads of low parts, by those of the factors whose low parts are stored."""
    team_m: int = 1
    """The rows that a warp, or a warpgroup, computes."""
    team_n: int = 1
    columns: int = 1
    """The extent of n, in whole instructions."""
    depth: int = 1
    """The neighbours along k that a lane takes at once."""
    parts: int = 1
    """How many of those a lane takes before the products."""
    slices: int = 1
    """The warps that share a chunk."""
    is_direct: bool = False
    """Whether a factor is read from global memory."""

    @property
    def trips(self) -> int:
        """The elements of k in a chunk."""
        assert self.inner.trips is not None, "loops of other bounds are refused"
        return self.inner.trips

    @property
    def lefts(self) -> Sequence[loop.LoadOp]:
        """The reads of left factors."""
        return list(dict.fromkeys(left for left, _ in self.pairs))

    @property
    def holds_left(self) -> bool:
        """Whether threads hold the left factors: they compute their parts, or the engine cannot read them along k."""
        return self.is_split or self.lies_across

    @property
    def lies_across(self) -> bool:
        """Whether the rows of left factors of FP32 lie side by side in their slabs, where k walks along columns."""
        return any(left.result.type == f32 and not walks_neighbours(left, self.inner.iv) for left in self.lefts)

    @property
    def is_split(self) -> bool:
        """Whether factors are to be split into parts."""
        owners = (value.owner for value in self.inner.yielded)
        return any(precision_of(product) == HIGH for product in owners if isinstance(product, Operation))


class _Axes:
    """The axes of a launch that stand for those of a contraction, and the coordinates that they make."""

    def __init__(self, rewriter: PatternRewriter, launch: tile.LaunchOp, match: Match) -> None:
        self.rewriter = rewriter
        self.launch = launch
        row = match.engine
        self.m_hint, self.n_hint = (_hint(axis, "_t") for axis in (match.m, match.n))
        self.k_hint = _hint(match.inner.iv, "i")
        m_teams = self._some(extent_or_one(match.m) // match.team_m, Binding.THREAD, f"{self.m_hint}_w")
        n_teams = self._some(match.columns // match.team_n, Binding.THREAD, f"{self.n_hint}_w")
        self.lines = {digit.letter: append_digit(rewriter, launch, digit, self.m_hint) for digit in row.rows}
        thread, pair = (append_digit(rewriter, launch, digit, self.n_hint) for digit in row.columns)
        tiles = self._some(match.team_m // row.m, Binding.REGISTER, f"{self.m_hint}_i")
        blocks = self._some(match.team_n // row.n, Binding.REGISTER, f"{self.n_hint}_j")
        self.slices: list[SSAValue] = []
        self.shared: dict[SSAValue, SSAValue] = {}
        """The lane axes, carried by slices, that stand for register axes once the sums of slices are added."""
        half = self.lines["h"]
        self._slice(match.slices, [pair, *blocks, *tiles, half])
        self.outer: list[Part] = [*((axis, match.team_m) for axis in m_teams), *((axis, row.m) for axis in tiles)]
        n_outer = [*((axis, match.team_n) for axis in n_teams), *((axis, row.n) for axis in blocks)]
        steps = {"h": 1, "g": row.held[0]} if match.is_direct else {digit.letter: digit.step for digit in row.rows}
        self.rows: list[Part] = [*self.outer, *((axis, steps[letter]) for letter, axis in self.lines.items())]
        self.columns: list[Part] = [*n_outer, (thread, row.column.step), (pair, 1)]
        threads = [*m_teams, *n_teams, *self.slices, *(self.lines[d.letter] for d in row.rows if d.weight), thread]
        if row.reads_slabs:
            words, lanes = self._walk(match, thread)
            self.registers = [*tiles, *words, *blocks, half, pair]
        else:
            near, lanes = self._hold(match, thread, n_outer)
            self.registers = [*tiles, *blocks, half, pair, *near]
        self.order = [*threads, *self.registers, *lanes, *self.shared.values()]

    def _walk(self, match: Match, thread: SSAValue) -> tuple[list[SSAValue], list[SSAValue]]:
        """Add the axes that the engine walks, and those of k where threads hold the left factor.

        Returns the registers and the others.
        """
        lanes = match.engine.column.extent
        words = self._some(match.trips // lanes * match.holds_left, Binding.REGISTER, f"{self.k_hint}_q")
        depth = self._one(match.trips, Binding.ENGINE, f"{self.k_hint}_e")
        column = self._one(match.columns, Binding.ENGINE, f"{self.n_hint}_e")
        word_lanes = [append_lane(self.rewriter, self.launch, thread, f"{self.k_hint}_t") for _ in words]
        along = [*((axis, lanes) for axis in words), *((axis, 1) for axis in word_lanes)] or [(depth, 1)]
        self.left_k, self.right_k, self.right_column = total_of(along), Linear.of(depth), Linear.of(column)
        self.folded = list(self.left_k.roots())
        self.at = places_at({column: self.columns, **({depth: along} if words else {})})
        return words, [*word_lanes, depth, column]

    def _hold(self, match: Match, thread: SSAValue, n_outer: Sequence[Part]) -> tuple[list[SSAValue], list[SSAValue]]:
        """Add the axes along which threads hold both factors. Returns the registers and the lanes.

        Along k the neighbours of a lane lie side by side in a slab, in global memory those of all lanes.
        """
        parts = self._some(match.parts, Binding.REGISTER, f"{self.k_hint}_u")
        vector = self._one(match.depth, Binding.REGISTER, f"{self.k_hint}_v")
        lane = append_lane(self.rewriter, self.launch, thread, f"{self.k_hint}_t")
        group = append_lane(self.rewriter, self.launch, self.lines["g"], f"{self.n_hint}_g")
        self.right_columns: list[Part] = [*n_outer, (group, 1)]
        self.at = places_at({group: self.columns[-2:]})
        self.folded = [lane, *parts, vector]
        lanes = match.engine.column.extent
        share, taken = match.trips // match.slices, lanes * match.depth * match.parts
        self.steps = share // taken
        is_together = bool(parts) or match.is_direct
        self.step = taken if is_together else match.depth
        """What a step along k adds to it."""
        slices, stride = list[Part](), share
        for axis in reversed(self.slices):
            slices.insert(0, (axis, stride))
            stride *= extent_or_one(axis)
        self.k: list[Part] = [*slices, (lane, match.depth if is_together else share // lanes)]
        self.near: list[Part] = [*((axis, lanes * match.depth) for axis in parts), (vector, 1)]
        return [*parts, vector], [lane, group]

    def _slice(self, slices: int, registers: Sequence[SSAValue]) -> None:
        """Add the thread axes of slices: one for each register axis whose sums they can share, and one for the rest."""
        extents = {axis: self.launch.extent(axis) or 1 for axis in registers}
        carriers: dict[SSAValue, SSAValue] = {}
        for axis in registers:
            if slices > 1 and slices % extents[axis] == 0:
                carriers[axis] = self._one(extents[axis], Binding.THREAD, f"{self.k_hint}_w")
                slices //= extents[axis]
        self.slices = [*self._some(slices, Binding.THREAD, f"{self.k_hint}_w"), *carriers.values()]
        for axis, carrier in carriers.items():
            self.shared[axis] = append_lane(self.rewriter, self.launch, carrier, f"{axis.name_hint}l")

    def taken(self, parts: Sequence[Part]) -> list[Part]:
        """A coordinate of the output once the slices are added."""
        return [(self.shared.get(axis, axis), stride) for axis, stride in parts]

    def _one(self, extent: int, binding: Binding, name: str) -> SSAValue:
        return append_axis(self.rewriter, self.launch, Axis(extent, binding, name))

    def _some(self, extent: int, binding: Binding, name: str) -> list[SSAValue]:
        """An axis, none where it has one coordinate."""
        return [self._one(extent, binding, name)] if extent > 1 else []


def _hint(value: SSAValue, suffix: str) -> str:
    return (value.name_hint or "a").removesuffix(suffix)


def apply(rewriter: PatternRewriter, launch: tile.LaunchOp, match: Match) -> None:
    """Replace the axes of a CTA's tile, and the loop along k by one of instructions or by one contract."""
    kept = [axis for axis in launch.axes if axis not in (match.m, match.n)]
    low = match.low.values() if match.engine.reads_slabs else ()
    forms = {load: subscripts_of(load) for load in (*(load for pair in match.pairs for load in pair), *low)}
    axes, extent = _Axes(rewriter, launch, match), extent_or_one(match.n)
    rows = recompute(rewriter, match.m, axes.taken(axes.rows), launch.body.block)
    limit = extent if extent < match.columns else None
    columns = recompute(rewriter, match.n, axes.taken(axes.columns), launch.body.block, limit)
    rows.result.name_hint, columns.result.name_hint = f"{axes.m_hint}_c", f"{axes.n_hint}_c"
    for mask in match.masks:
        rewriter.erase(mask)
    if match.engine.reads_slabs:
        _read_slabs(rewriter, match, axes, forms, rows)
    else:
        _read_lanes(rewriter, match, axes, forms, (rows, columns))
    for axis in (match.m, match.n):
        drop_axis(rewriter, launch, axis)
    reorder(rewriter, launch, [*kept, *axes.order])


def _read_lanes(
    rewriter: PatternRewriter,
    match: Match,
    axes: _Axes,
    forms: Mapping[loop.LoadOp, Sequence[Linear]],
    places: tuple[loop.IndexOp, loop.IndexOp],
) -> None:
    """Let the loop along k yield contracts of what threads read, with rows and columns of the output at places."""
    rows, columns = places
    right_columns = _index(axes.right_columns, f"{axes.n_hint}_o")
    rewriter.insert(right_columns, InsertPoint.after(columns))
    if axes.shared:
        left_rows = _index(axes.rows, f"{axes.m_hint}_o")
        rewriter.insert(left_rows, InsertPoint.after(rows))
        rows = left_rows
    inner = match.inner
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = f"{axes.k_hint}s"
    k = _index([*axes.k, (body.args[0], axes.step), *axes.near], axes.k_hint)
    at: dict[SSAValue, Linear] = {match.m: Linear.of(rows.result), match.n: Linear.of(right_columns.result)}
    at[inner.iv] = Linear.of(k.result)
    moved = {load: moved_read(load, at, form) for load, form in forms.items()}
    contracts = _contracts(match, axes, {load: read.result for load, read in moved.items()})
    body.add_ops([k, *moved.values(), *contracts, loop.YieldOp(*(contract.result for contract in contracts))])
    made = loop.ReduceOp(axes.steps, Region(body), inner.identities, inner.combiner.clone())
    if not match.is_direct or axes.steps == 1:
        made.properties["unroll"] = UnitAttr()
    made.location = inner.location
    rewriter.replace(inner, made)
    for load in moved.values():
        if tile.memory_of(load.source) is None:
            _stage(rewriter, load, axes.registers)
    if axes.slices:
        _add_slices(rewriter, made, axes)


def _read_slabs(
    rewriter: PatternRewriter,
    match: Match,
    axes: _Axes,
    forms: Mapping[loop.LoadOp, Sequence[Linear]],
    rows: loop.IndexOp,
) -> None:
    """Put the contracts of what the engine reads where the loop over the chunk stands."""
    inner, lefts = match.inner, match.lefts
    if match.lies_across:
        across = _row_across(*(Linear.of(axes.lines[letter]) for letter in "qgh"))
        map, rows.operands = to_map([total_of(axes.outer) + across])
        rows.properties["map"] = AffineMapAttr(map)
        rewriter.notify_op_modified(rows)
    left: dict[SSAValue, Linear] = {match.m: Linear.of(rows.result), inner.iv: axes.left_k}
    right: dict[SSAValue, Linear] = {match.n: axes.right_column, inner.iv: axes.right_k}
    moved = {load: moved_read(load, left if load in lefts else right, form) for load, form in forms.items()}
    whole: dict[loop.LoadOp, SSAValue] = {load: read.result for load, read in moved.items()}
    joined = [math_ext.WithLowPartOp(whole[load], whole[low]) for load, low in match.low.items()]
    for load, both in zip(match.low, joined, strict=True):
        both.location, both.result.name_hint = load.location, load.result.name_hint
        whole[load] = both.result
    rewriter.insert([*moved.values(), *joined], InsertPoint.before(inner))
    if match.lies_across and not match.is_split:
        last = inner.prev_op
        for load in reversed(lefts):
            whole[load] = computed_of(rewriter, whole[load], math_ext.HighPartOp, "_high", last)
    contracts = _contracts(match, axes, whole)
    rewriter.replace(inner, contracts, [contract.result for contract in contracts])


def _contracts(match: Match, axes: _Axes, factors: Mapping[loop.LoadOp, SSAValue]) -> list[tile.ContractOp]:
    """The contracts of the factors that take the place of reads, for the products that a loop along k yields."""
    contracts: list[tile.ContractOp] = []
    for (left, right), product, total in zip(match.pairs, match.inner.yielded, match.inner.results, strict=True):
        pair = factors[left], factors[right]
        contract = tile.ContractOp(match.engine.name, [pair], axes.folded, axes.at, total.type)
        contract.location = location_of(product)
        assert isinstance(product.owner, Operation)
        set_precision_of(contract, precision_of(product.owner))
        contracts.append(contract)
    return contracts


def _row_across(warp: Linear, group: Linear, half: Linear) -> Linear:
    """The row of 64 that a thread has of a left factor whose slab has rows side by side, 32 in a line of 128 bytes.

    A thread's two rows are neighbours, 8 bytes, and the 16 threads that a shared memory access of that width takes at
    once, of four k each, read all 32 banks: in a line of the swizzle of 128 bytes k exchanges units of 16 bytes, whose
    numbers differ by less than 4. On an H200 128x3584x3584 of TF32 takes 19.0 us so, and 20.7 in the order of the
    instruction, where two accesses of 4 bytes meet in each bank.
    """
    return warp // 2 * 32 + group // 2 % 2 * 16 + warp % 2 * 8 + group // 4 * 4 + group % 2 * 2 + half


def _stage(rewriter: PatternRewriter, load: loop.LoadOp, registers: Sequence[SSAValue]) -> None:
    """Let a thread read a factor from global memory to registers before its products; elements outside are zero."""
    footprint = register_footprint(load, registers) or gathered_footprint(load, registers)
    assert footprint is not None, "subscripts are forms of coordinates"
    type = MemRefType(load.result.type, footprint.shape, memory_space=tile.MemoryAttr(Memory.REGISTER))
    stage_read(rewriter, load, footprint, type, InsertPoint.before(load))


def _add_slices(rewriter: PatternRewriter, made: loop.ReduceOp, axes: _Axes) -> None:
    """Let a combine add the sums of the warps that share a chunk; each keeps a share of them."""
    total = made
    while isinstance(outer := total.parent_op(), loop.ReduceOp) and is_part_of(total, outer):
        total = outer
    map, lanes = to_map([Linear.of(lane) for lane in axes.shared.values()])
    at = tile.Places(list(axes.shared), map, lanes)
    combined = tile.CombineOp(total.results, axes.slices, total.identities, total.combiner.clone(), at)
    combined.location = total.location
    rewriter.insert(combined, InsertPoint.after(total))
    for result, old in zip(combined.results, total.results, strict=True):
        result.name_hint, old.name_hint = old.name_hint, None
        rewriter.replace_uses_with_if(old, result, lambda use: use.operation is not combined)


def _index(parts: Sequence[Part], name: str) -> loop.IndexOp:
    """A coordinate that is a sum of parts."""
    made = loop.IndexOp(*to_map([total_of(parts)]))
    made.result.name_hint = name
    return made
