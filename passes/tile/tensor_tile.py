"""tensor-tile: let the tensor cores of each warp compute a tile of a contraction of narrow factors.

    tile.launch (.., %m_t = 128 : thread,          tile.launch (.., %m_w = 2 : thread, %n_w = 4 : thread,
                 %n_t = 128 : thread) {                         %m_g = 8 : thread, %n_t = 4 : thread,
                                                                %m_i = 4 : register, .., %k_t = 4 : lane %n_t,
                                                                %n_g = 8 : lane %m_g) {
      %0 = loop.reduce {arith.addf} %ki = 0 to 64       %0 = loop.reduce {arith.addf} %ks = 0 to 2 unroll : f32 {
        : f32 {                               ->          %n_o = loop.index [%n_w * 32 + %n_j * 8 + %n_g]
        %a = loop.load %xs[%m_t, %ki] : ..                %k = loop.index [%k_t * 16 + %ks * 8 + %k_v]
        %b = loop.load %ws[%n_t, %ki] : ..                %a = loop.load %xs[%m_t, %k] : ..
        %af = arith.extf %a : bf16 to f32                 %b = loop.load %ws[%n_o, %k] : ..
        %bf = arith.extf %b : bf16 to f32                 %c = tile.contract mma %a * %b over (%k_t, %k_v)
        %p = arith.mulf %af, %bf : f32                      at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
        loop.yield %p : f32                               loop.yield %c : f32

The layout of the result's fragments is one line, `%n_t = loop.index [%n_w * 32 + %n_j * 8 + %n_t * 2 + %n_r]`, and that
of its rows another; all that follows the contraction stays as it is. Along k, which is summed, a lane takes elements
that are neighbours in the slab, 16 bytes at once; where k walks a slab with a stride, lanes take neighbouring pairs, so
that its rows lie in other banks. Products of 16-bit factors are exact in FP32, so only the order of the sums changes;
those of bytes are added as integers, exactly. Elements of k beyond the input are zero in the slabs, so conditions that
leave them out go.

With `rows=n` the roles of the factors are swapped: the columns of the output are the rows of the instruction, and its
few rows the columns. A factor that is in no slab is read from global memory straight into the fragments, few rows
padded to 8: then all of a lane's reads of a chunk come before its products, and two neighbours of the output are one
lane's. With `slices` several warps share a chunk of k, and a combine adds their sums, of which each keeps a share:

    %0 = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k = loop.index [%k_w * 128 + %k_w_1 * 64 + %k_u * 32 + %k_t * 8 + %k_v] ..
      %c = tile.contract mma %w * %x over (%k_t, %k_u, %k_v) at (%m_g = %m_t * 2 + %m_r) : bf16, bf16 -> f32 ..
    }
    %acc = tile.combine {arith.addf} %0 over (%k_w, %k_w_1) at (%m_r = %m_l, %m_j = %m_l_1) : f32
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, UnitAttr
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, condition_of, form_of_value, subscripts_of, to_map
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors, walks_neighbours, warp_share
from deplodock.analysis.machine.targets import ACCESS_BYTES, WARP, capability, has_feature, target_at
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.footprint import gathered_footprint, register_footprint
from deplodock.analysis.shape.masking import adds_zero
from deplodock.analysis.shape.roles import (
    Contraction,
    accumulating_loops,
    contraction_of,
    is_part_of,
    low_read_of,
    read_of,
)
from deplodock.dialects import loop, math_ext, tile
from deplodock.dialects.engines import MMA, Engine, engine_names, reads_slabs
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.options import Integers, OneOf, option
from deplodock.passes.tile.edits import (
    Axis,
    Part,
    append_axis,
    append_lane,
    drop_axis,
    read_at,
    read_from,
    recompute,
    reorder,
    total_of,
)
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, folded
from deplodock.passes.tile.warpgroup_tile import WarpgroupMatch, apply_warpgroups, check_warpgroups, contracts_of
from deplodock.schedule.choose.sizes import READS, WARP_TILE

Side: TypeAlias = Literal["m", "n"]


@dataclass(frozen=True)
class TensorTilePass(LaunchRule):
    """Let tensor cores compute a contraction of 16-bit factors or bytes, a tile of each warp."""

    name = "tensor-tile"
    after = ("cooperative-reduce", "chunk-matmul-k", "split-matmul-k", "blockify-launch", "stage-inputs")
    engine: str = option(MMA, OneOf(tuple(engine_names())), "what multiplies")
    m: int = option(
        WARP_TILE,
        Integers((8, 16, 32, 64, 128), step=8),
        "rows of the output that a warp, or a warpgroup, computes, at most",
    )
    n: int = option(
        WARP_TILE, Integers((8, 16, 32, 64, 128, 256), step=8), "columns that it computes, at most; wgmma takes all"
    )
    rows: Side = option("m", Side, "which axis of the output, m or n, has the rows of the instruction")
    slices: int = option(1, Integers((1, 2, 4, 8)), "warps that share a chunk of k, of the engine of warps")

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        found, row = _found(launch, self)
        if reads_slabs(self.engine):
            rows, columns = self.sides
            if self.slices > 1:
                raise Skip("the warps of a warpgroup share no chunk of k; slices are of mma")
            check_warpgroups(found, rows, columns)
            apply_warpgroups(rewriter, launch, found, rows)
        else:
            _apply(rewriter, launch, _matched(launch, found, row, self))

    @property
    def sides(self) -> tuple[int, int]:
        """The most rows and columns, as the instruction has them."""
        return (self.m, self.n) if self.rows == "m" else (self.n, self.m)


@dataclass(frozen=True)
class _Match:
    """A contraction that the tensor cores can compute, and its tile; m is the side of the instruction's rows."""

    engine: Engine
    inner: loop.ReduceOp
    """The loop whose iterations yield the products."""
    m: BlockArgument
    n: BlockArgument
    pairs: Sequence[tuple[loop.LoadOp, loop.LoadOp]]
    """The factors of each product, the left one first."""
    masks: Sequence[loop.WhereOp]
    """The conditions on k, beyond which both factors are zero."""
    warp_m: int
    warp_n: int
    columns: int
    """The extent of n, in whole instructions."""
    depth: int
    """The neighbours along k that a lane takes at once."""
    parts: int
    """How many of those a lane takes before the products."""
    slices: int
    """The warps that share a chunk."""
    is_direct: bool
    """Whether a factor is read from global memory."""


def _found(launch: tile.LaunchOp, rule: TensorTilePass) -> tuple[WarpgroupMatch, Engine]:
    """The contraction of a launch that an engine can compute, and the instruction of a warp for it.

    Raises Skip where there is none.
    """
    if launch.carried_axes() or launch.bound_to(Binding.ENGINE):
        raise NothingToDo("the launch has axes of an engine already")
    if (roles := contraction_of(launch)) is None:
        raise Skip("the launch has no contraction")
    if launch.bound_to(Binding.REGISTER):
        raise Skip("the launch has register axes already; tensor-tile stands in place of register-tile")
    feature = Feature.WARPGROUPS if reads_slabs(rule.engine) else Feature.MMA
    if not has_feature(target_at(launch), feature):
        raise Skip(f"sm_{capability(target_at(launch))} has no {feature}")
    try:
        row, found = narrow_factors(roles, MMA)
    except NoAtomError as error:
        raise Skip(str(error)) from error
    m, n = _thread_axis(launch, roles.m, "rows"), _thread_axis(launch, roles.n, "columns")
    if rule.rows == "n":
        m, n = n, m
    others = [axis for axis in launch.bound_to(Binding.THREAD) if axis not in (m, n) and launch.extent(axis) != 1]
    if others:
        raise Skip(f"threads share the tile along {label(others[0])} too")
    pairs = [(one, other) if _is_along(one, m) else (other, one) for one, other in found]
    masks = _masks(roles)
    loads = [load for pair in pairs for load in pair]
    known = ((read_of(factor), low_read_of(factor)) for factor in roles.operands)
    low = {load: part for load, part in known if load is not None and part is not None}
    loads += low.values()
    _check_body(roles.innermost, loads)
    for load in loads:
        if reads_slabs(rule.engine) or not walks_neighbours(load, roles.innermost.iv):
            _check_slab(load)
    return WarpgroupMatch(m, n, roles.innermost, pairs, masks, low), row


def _is_along(load: loop.LoadOp, axis: SSAValue) -> bool:
    return any(form.depends_on(axis) for form in subscripts_of(load))


def _matched(launch: tile.LaunchOp, found: WarpgroupMatch, row: Engine, rule: TensorTilePass) -> _Match:
    """What the rule rewrites for the tensor cores of warps. Raises Skip where it cannot."""
    loads = [load for pair in found.pairs for load in pair]
    is_near = all(walks_neighbours(load, found.inner.iv) for load in loads)
    is_direct = any(tile.memory_of(load.source) is None for load in loads)
    most = ACCESS_BYTES // element_bytes(loads[0].result.type) if is_near else row.packed
    share = _share(found.inner, rule.slices, row)
    depth = _depth(share, row, most)
    rows, columns = rule.sides
    extent = launch.extent(found.n) or 1
    is_padded = rule.rows == "n" and all(tile.memory_of(right.source) is None for _, right in found.pairs)
    whole = -(-extent // row.n) * row.n if is_padded else extent
    warp_m = _warp_side(found.m, launch.extent(found.m) or 1, rows, row.m)
    warp_n = _warp_side(found.n, whole, columns, row.n)
    _check_threads(launch, rule.slices * ((launch.extent(found.m) or 1) // warp_m) * (whole // warp_n))
    parts = max(1, row.depth // depth)
    if is_direct:
        lefts = {left.source for left, _ in found.pairs}
        blocks, at_once = share // (row.column.extent * depth), READS * row.m // (warp_m * row.held[0] * len(lefts))
        parts = next(n for n in range(max(parts, min(blocks, at_once)), 0, -1) if blocks % n == 0)
    return _Match(
        row,
        found.inner,
        found.m,
        found.n,
        found.pairs,
        found.masks,
        warp_m,
        warp_n,
        whole,
        depth,
        parts,
        rule.slices,
        is_direct,
    )


def _thread_axis(launch: tile.LaunchOp, axes: Sequence[SSAValue], what: str) -> BlockArgument:
    """The one axis of a role that the threads run. Raises Skip where there is none or several."""
    found = [axis for axis in axes if launch.binding(axis) is Binding.THREAD and launch.extent(axis) != 1]
    if len(found) != 1 or launch.extent(found[0]) is None:
        raise Skip(f"the {what} of a CTA run along {len(found)} axes of constant extent, not along one")
    if found[0] in folded(launch):
        raise Skip(f"a combine folds {label(found[0])}")
    (axis,) = found
    assert isinstance(axis, BlockArgument)
    return axis


def _masks(roles: Contraction) -> list[loop.WhereOp]:
    """The conditions in the loops of a contraction. Raises Skip for one where a factor may be other than zero."""
    found = [where for op in accumulating_loops(roles.reduction) for where in wheres(op.body.block)]
    for where in found:
        if not adds_zero(roles.reduction, condition_of(where)):
            names = ", ".join(dict.fromkeys(label(root) for root in condition_of(where).roots()))
            raise Skip(f"a condition over {names} leaves out elements that are not zero in the slabs")
    return found


def _check_body(inner: loop.ReduceOp, loads: Sequence[loop.LoadOp]) -> None:
    """Raises Skip where a loop along k does more than multiply what it loads."""
    for op in inner.body.block.ops:
        is_part = op in loads or isinstance(
            op,
            loop.IndexOp
            | loop.WhereOp
            | loop.YieldOp
            | arith.ExtFOp
            | arith.MulfOp
            | arith.ExtSIOp
            | arith.MuliOp
            | math_ext.WithLowPartOp,
        )
        if not is_part:
            raise Skip(f"the loop over {label(inner.iv)} holds {op.name} besides its product")


def _check_slab(load: loop.LoadOp) -> None:
    """Raises Skip for a factor that is read from global memory, though its engine, or lanes of a stride, read slabs."""
    if tile.memory_of(load.source) is not Memory.SHARED:
        raise Skip(f"{label(load.source)} is read from global memory; run stage-inputs first")


def _share(inner: loop.ReduceOp, slices: int, row: Engine) -> int:
    """The elements of a chunk that a warp multiplies. Raises Skip where they are not those of whole instructions."""
    trips = inner.trips
    if trips is None or trips % row.k:
        raise Skip(f"a chunk of {trips} elements of k is no multiple of the {row.k} of an instruction")
    if trips % (slices * row.k):
        raise Skip(f"a chunk of {trips} elements of k is no {slices} slices of whole instructions")
    return trips // slices


def _depth(share: int, row: Engine, most: int) -> int:
    """The neighbours along k that a lane takes at once."""
    depth = most
    while share % (row.column.extent * depth):
        depth //= 2
    return depth


def _warp_side(axis: BlockArgument, extent: int, wanted: int, atom: int) -> int:
    """The coordinates of an axis that a warp takes, as `warp_share` has them. Raises Skip where there are none."""
    if (side := warp_share(extent, wanted, atom)) is None:
        raise Skip(f"the extent {extent} of {label(axis)} is no multiple of {atom}")
    return side


def _check_threads(launch: tile.LaunchOp, warps: int) -> None:
    """Raises Skip where a CTA would have more threads than the target allows."""
    threads, most = WARP * warps, target_at(launch).fact("threads_per_block")
    if threads > most:
        raise Skip(f"warps of so few outputs make {threads} threads of a CTA, above {most}")


class _Axes:
    """The axes of a launch that stand for those of a contraction, and the coordinates that they make."""

    def __init__(self, rewriter: PatternRewriter, launch: tile.LaunchOp, match: _Match) -> None:
        self.rewriter = rewriter
        self.launch = launch
        row, lanes = match.engine, match.engine.column.extent
        self.m_hint, self.n_hint = (_hint(axis, "_t") for axis in (match.m, match.n))
        self.k_hint = _hint(match.inner.iv, "i")
        m_warps = self._some((launch.extent(match.m) or 1) // match.warp_m, Binding.THREAD, f"{self.m_hint}_w")
        n_warps = self._some(match.columns // match.warp_n, Binding.THREAD, f"{self.n_hint}_w")
        m_group = self._one(row.row.extent, Binding.THREAD, f"{self.m_hint}_g")
        n_thread = self._one(lanes, Binding.THREAD, f"{self.n_hint}_t")
        m_atoms = self._some(match.warp_m // row.m, Binding.REGISTER, f"{self.m_hint}_i")
        n_atoms = self._some(match.warp_n // row.n, Binding.REGISTER, f"{self.n_hint}_j")
        m_half = self._one(row.held[0], Binding.REGISTER, f"{self.m_hint}_h")
        n_pair = self._one(row.held[1], Binding.REGISTER, f"{self.n_hint}_r")
        k_parts = self._some(match.parts, Binding.REGISTER, f"{self.k_hint}_u")
        vector = self._one(match.depth, Binding.REGISTER, f"{self.k_hint}_v")
        k_lane = append_lane(self.rewriter, launch, n_thread, f"{self.k_hint}_t")
        n_group = append_lane(self.rewriter, launch, m_group, f"{self.n_hint}_g")
        self.slices: list[SSAValue] = []
        self.shared: dict[SSAValue, SSAValue] = {}
        """The lane axes, carried by slices, that stand for register axes once the sums of slices are added."""
        self._slice(match.slices, [n_pair, *n_atoms, *m_atoms, m_half])
        threads = [*m_warps, *n_warps, *self.slices, m_group, n_thread]
        self.registers = [*m_atoms, *n_atoms, m_half, n_pair, *k_parts, vector]
        self.order = [*threads, *self.registers, k_lane, n_group, *self.shared.values()]
        self.folded = [k_lane, *k_parts, vector]
        self.moved = n_group
        self.place = AffineMap(2, 0, (AffineExpr.dimension(0) * row.column.step + AffineExpr.dimension(1),))
        self.place_axes = [n_thread, n_pair]
        m_outer = [*((axis, match.warp_m) for axis in m_warps), *((axis, row.m) for axis in m_atoms)]
        n_outer = [*((axis, match.warp_n) for axis in n_warps), *((axis, row.n) for axis in n_atoms)]
        group, half = (row.held[0], 1) if match.is_direct else (1, row.row.extent)
        self.rows: list[Part] = [*m_outer, (m_half, half), (m_group, group)]
        self.columns: list[Part] = [*n_outer, (n_thread, row.column.step), (n_pair, 1)]
        self.right_columns: list[Part] = [*n_outer, (n_group, 1)]
        self._along_k(match, k_lane, k_parts, vector)

    def _along_k(self, match: _Match, lane: SSAValue, parts: Sequence[SSAValue], vector: SSAValue) -> None:
        """The coordinate along k: neighbours of a lane side by side in a slab, of all lanes in global memory."""
        trips, lanes = match.inner.trips, match.engine.column.extent
        assert trips is not None
        share, taken = trips // match.slices, lanes * match.depth * match.parts
        self.steps = share // taken
        is_together = bool(parts) or match.is_direct
        self.step = taken if is_together else match.depth
        """What a step along k adds to it."""
        slices, stride = list[Part](), share
        for axis in reversed(self.slices):
            slices.insert(0, (axis, stride))
            stride *= self.launch.extent(axis) or 1
        self.k: list[Part] = [*slices, (lane, match.depth if is_together else share // lanes)]
        self.near: list[Part] = [*((axis, lanes * match.depth) for axis in parts), (vector, 1)]

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


def _apply(rewriter: PatternRewriter, launch: tile.LaunchOp, match: _Match) -> None:
    """Replace the axes of the tile and the loop along k."""
    kept = [axis for axis in launch.axes if axis not in (match.m, match.n)]
    forms = {load: subscripts_of(load) for pair in match.pairs for load in pair}
    axes, columns_of = _Axes(rewriter, launch, match), launch.extent(match.n) or 1
    rows = recompute(rewriter, match.m, axes.taken(axes.rows), launch.body.block)
    limit = columns_of if columns_of < match.columns else None
    columns = recompute(rewriter, match.n, axes.taken(axes.columns), launch.body.block, limit)
    right_columns = _index(axes.right_columns, f"{axes.n_hint}_o")
    rows.result.name_hint, columns.result.name_hint = f"{axes.m_hint}_c", f"{axes.n_hint}_c"
    rewriter.insert(right_columns, InsertPoint.after(columns))
    left_rows = rows
    if axes.shared:
        left_rows = _index(axes.rows, f"{axes.m_hint}_o")
        rewriter.insert(left_rows, InsertPoint.after(rows))
    for mask in match.masks:
        rewriter.erase(mask)
    made = _steps(match, axes, forms, (left_rows, right_columns))
    rewriter.replace(match.inner, made)
    for load in [op for op in made.body.block.ops if isinstance(op, loop.LoadOp)]:
        if tile.memory_of(load.source) is None:
            _hold(rewriter, load, axes.registers)
    if axes.slices:
        _add_slices(rewriter, made, axes)
    for axis in (match.m, match.n):
        drop_axis(rewriter, launch, axis)
    reorder(rewriter, launch, [*kept, *axes.order])


def _steps(
    match: _Match,
    axes: _Axes,
    forms: Mapping[loop.LoadOp, Sequence[Linear]],
    places: tuple[loop.IndexOp, loop.IndexOp],
) -> loop.ReduceOp:
    """The loop along k that yields a contract for each product, with rows and the right factors' columns at places."""
    inner = match.inner
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = f"{axes.k_hint}s"
    k = _index([*axes.k, (body.args[0], axes.step), *axes.near], axes.k_hint)
    at: dict[SSAValue, loop.IndexOp] = dict(zip((match.m, match.n, inner.iv), (*places, k), strict=True))
    moved = {load: _moved(load, form, at) for load, form in forms.items()}
    contracts = contracts_of(
        match.engine.name,
        inner,
        [(moved[left].result, moved[right].result) for left, right in match.pairs],
        axes.folded,
        tile.Places([axes.moved], axes.place, axes.place_axes),
    )
    body.add_ops([k, *moved.values(), *contracts, loop.YieldOp(*(contract.result for contract in contracts))])
    made = loop.ReduceOp(axes.steps, Region(body), inner.identities, inner.combiner.clone())
    if not match.is_direct or axes.steps == 1:
        made.properties["unroll"] = UnitAttr()
    made.location = inner.location
    for result, old in zip(made.results, inner.results, strict=True):
        result.name_hint = old.name_hint
    return made


def _hold(rewriter: PatternRewriter, load: loop.LoadOp, registers: Sequence[SSAValue]) -> None:
    """Let a thread read a factor from global memory to registers before its products; elements outside are zero."""
    footprint = register_footprint(load, registers) or gathered_footprint(load, registers)
    assert footprint is not None, "subscripts are forms of coordinates"
    type = MemRefType(load.result.type, footprint.shape, memory_space=tile.MemoryAttr(Memory.REGISTER))
    stage = tile.StageOp(load.source, *footprint.map(), type)
    stage.slab.name_hint = f"{load.source.name_hint}_reg" if load.source.name_hint else None
    rewriter.insert(stage, InsertPoint.before(load))
    read_from(rewriter, load, stage.slab, footprint.readers[0].subscripts)


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


def _moved(load: loop.LoadOp, forms: Sequence[Linear], places: Mapping[SSAValue, loop.IndexOp]) -> loop.LoadOp:
    """The same read at other coordinates."""
    subscripts: list[Linear] = []
    for form in forms:
        for root, index in places.items():
            is_plain = form.coefficient(root) and not (form - Linear.of(root, form.coefficient(root))).depends_on(root)
            form = form.substitute(root, Linear.of(index.result) if is_plain else form_of_value(index.result))
        subscripts.append(form)
    return read_at(load, subscripts)
