"""tensor-tile: let the tensor cores of each warp compute a tile of a contraction of 16-bit factors.

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
that its rows lie in other banks. Products of 16-bit factors are exact in FP32, so only the order of
the sums changes. Elements of k beyond the input are zero in the slabs, so conditions that leave them out go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, condition_of, form_of_value, subscripts_of, to_map
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors, walks_neighbours
from deplodock.analysis.machine.targets import ACCESS_BYTES, FIRST_WITH, LAST_WITH, WARP, capability, target_at
from deplodock.analysis.machine.warpgroups import NAME as WGMMA
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.padding import adds_zero
from deplodock.analysis.shape.roles import Contraction, accumulating_loops, contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Engine, engine_names
from deplodock.dialects.interfaces import Feature
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.options import Integers, OneOf, option
from deplodock.passes.tile.edits import Axis, append_axis, append_lane, drop_axis, recompute, reorder
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, folded
from deplodock.passes.tile.warpgroup_tile import WarpgroupMatch, apply_warpgroups, check_warpgroups, contracts_of
from deplodock.schedule.choose.sizes import WARP_TILE, WARPS


@dataclass(frozen=True)
class TensorTilePass(LaunchRule):
    """Let tensor cores compute a contraction of 16-bit factors, a tile of each warp."""

    name = "tensor-tile"
    after = ("cooperative-reduce", "chunk-matmul-k", "split-matmul-k", "blockify-launch", "stage-inputs")
    engine: str = option(WARPS, OneOf((*engine_names(), WGMMA)), "what multiplies")
    m: int = option(
        WARP_TILE,
        Integers((16, 32, 64, 128), step=16),
        "rows of the output that a warp, or a warpgroup, computes, at most",
    )
    n: int = option(
        WARP_TILE, Integers((8, 16, 32, 64, 128, 256), step=8), "columns that it computes, at most; wgmma takes all"
    )

    def rewrite_launch(self, launch: tile.LaunchOp) -> None:
        found, row = _found(launch, self)
        if self.engine == WGMMA:
            check_warpgroups(found, self.m, self.n)
            apply_warpgroups(launch, found, self.m)
        else:
            _apply(launch, _matched(launch, found, row, self))


@dataclass(frozen=True)
class _Match:
    """A contraction that the tensor cores can compute, and its tile."""

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
    depth: int
    """The neighbours along k that a lane takes at once."""


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
    feature = Feature.WARPGROUPS if rule.engine == WGMMA else Feature.MMA
    arch = capability(target_at(launch))
    if not FIRST_WITH[feature] <= arch <= LAST_WITH.get(feature, arch):
        raise Skip(f"sm_{arch} has no {feature}")
    try:
        row, found = narrow_factors(roles, WARPS)
    except NoAtomError as error:
        raise Skip(str(error)) from error
    m, n = _thread_axis(launch, roles.m, "rows"), _thread_axis(launch, roles.n, "columns")
    others = [axis for axis in launch.bound_to(Binding.THREAD) if axis not in (m, n) and launch.extent(axis) != 1]
    if others:
        raise Skip(f"threads share the tile along {label(others[0])} too")
    pairs = [(one, other) if _is_along(one, m) else (other, one) for one, other in found]
    masks = _masks(roles)
    loads = [load for pair in pairs for load in pair]
    _check_body(roles.innermost, loads)
    for load in loads:
        _check_slab(load)
        if rule.engine == WGMMA and not walks_neighbours(load, roles.innermost.iv):
            k = label(roles.innermost.iv)
            raise Skip(f"{k} walks {label(load.source)} with a stride; warpgroups take rows along k")
    return WarpgroupMatch(m, n, roles.innermost, pairs, masks), row


def _is_along(load: loop.LoadOp, axis: SSAValue) -> bool:
    return any(form.depends_on(axis) for form in subscripts_of(load))


def _matched(launch: tile.LaunchOp, found: WarpgroupMatch, row: Engine, rule: TensorTilePass) -> _Match:
    """What the rule rewrites for the tensor cores of warps. Raises Skip where it cannot."""
    is_near = all(walks_neighbours(load, found.inner.iv) for pair in found.pairs for load in pair)
    most = ACCESS_BYTES // element_bytes(found.pairs[0][0].result.type) if is_near else row.packed
    depth = _depth(found.inner, row, most)
    warp_m = _warp_side(launch, found.m, rule.m, row.m)
    warp_n = _warp_side(launch, found.n, rule.n, row.n)
    _check_threads(launch, (found.m, warp_m), (found.n, warp_n))
    return _Match(row, found.inner, found.m, found.n, found.pairs, found.masks, warp_m, warp_n, depth)


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
            op, loop.IndexOp | loop.WhereOp | arith.ExtFOp | arith.MulfOp | loop.YieldOp
        )
        if not is_part:
            raise Skip(f"the loop over {label(inner.iv)} holds {op.name} besides its product")


def _check_slab(load: loop.LoadOp) -> None:
    """Raises Skip for a factor that is not read from a shared slab."""
    if tile.memory_of(load.source) is not Memory.SHARED:
        raise Skip(f"{label(load.source)} is read from global memory; run stage-inputs first")


def _depth(inner: loop.ReduceOp, row: Engine, most: int) -> int:
    """The neighbours along k that a lane takes at once. Raises Skip where a chunk is not made of whole instructions."""
    trips, lanes = inner.trips, row.column.extent
    if trips is None or trips % row.k:
        raise Skip(f"a chunk of {trips} elements of k is no multiple of the {row.k} of an instruction")
    depth = most
    while trips % (lanes * depth):
        depth //= 2
    return depth


def _warp_side(launch: tile.LaunchOp, axis: BlockArgument, wanted: int, atom: int) -> int:
    """The coordinates of an axis that a warp takes: the most whole atoms, up to `wanted`, that divide its extent."""
    extent = launch.extent(axis) or 1
    for side in range(min(wanted, extent) // atom * atom, 0, -atom):
        if extent % side == 0:
            return side
    raise Skip(f"the extent {extent} of {label(axis)} is no multiple of {atom}")


def _check_threads(launch: tile.LaunchOp, *sides: tuple[BlockArgument, int]) -> None:
    """Raises Skip where a CTA would have more threads than the target allows."""
    threads, most = WARP, target_at(launch).fact("threads_per_block")
    for axis, side in sides:
        threads *= (launch.extent(axis) or 1) // side
    if threads > most:
        raise Skip(f"warps of so few outputs make {threads} threads of a CTA, above {most}")


Part = tuple[SSAValue, int]
"""An axis and what a step along it adds to a coordinate."""


class _Axes:
    """The axes of a launch that stand for those of a contraction, and the coordinates that they make."""

    def __init__(self, launch: tile.LaunchOp, match: _Match) -> None:
        self.launch = launch
        row, lanes = match.engine, match.engine.column.extent
        self.m_hint, self.n_hint = (_hint(axis, "_t") for axis in (match.m, match.n))
        self.k_hint = _hint(match.inner.iv, "i")
        m_warps = self._some((launch.extent(match.m) or 1) // match.warp_m, Binding.THREAD, f"{self.m_hint}_w")
        n_warps = self._some((launch.extent(match.n) or 1) // match.warp_n, Binding.THREAD, f"{self.n_hint}_w")
        m_group = self._one(row.row.extent, Binding.THREAD, f"{self.m_hint}_g")
        n_thread = self._one(lanes, Binding.THREAD, f"{self.n_hint}_t")
        m_atoms = self._some(match.warp_m // row.m, Binding.REGISTER, f"{self.m_hint}_i")
        n_atoms = self._some(match.warp_n // row.n, Binding.REGISTER, f"{self.n_hint}_j")
        m_half = self._one(row.rows, Binding.REGISTER, f"{self.m_hint}_h")
        n_pair = self._one(row.pair, Binding.REGISTER, f"{self.n_hint}_r")
        k_parts = self._some(row.depth // match.depth, Binding.REGISTER, f"{self.k_hint}_u")
        vector = self._one(match.depth, Binding.REGISTER, f"{self.k_hint}_v")
        k_lane = append_lane(launch, n_thread, f"{self.k_hint}_t")
        n_group = append_lane(launch, m_group, f"{self.n_hint}_g")
        self.order = [
            *m_warps,
            *n_warps,
            m_group,
            n_thread,
            *m_atoms,
            *n_atoms,
            m_half,
            n_pair,
            *k_parts,
            vector,
            k_lane,
            n_group,
        ]
        self.folded = [k_lane, *k_parts, vector]
        self.moved = n_group
        self.place = AffineMap(2, 0, (AffineExpr.dimension(0) * row.pair + AffineExpr.dimension(1),))
        self.place_axes = [n_thread, n_pair]
        m_outer = [*((axis, match.warp_m) for axis in m_warps), *((axis, row.m) for axis in m_atoms)]
        n_outer = [*((axis, match.warp_n) for axis in n_warps), *((axis, row.n) for axis in n_atoms)]
        self.rows: list[Part] = [*m_outer, (m_half, row.row.extent), (m_group, 1)]
        self.columns: list[Part] = [*n_outer, (n_thread, row.pair), (n_pair, 1)]
        self.right_columns: list[Part] = [*n_outer, (n_group, 1)]
        trips = match.inner.trips
        assert trips is not None
        taken = lanes * max(match.depth, row.depth)
        self.steps = trips // taken
        self.step = taken if k_parts else match.depth
        """What a step along k adds to it."""
        near: list[Part] = [*((axis, lanes * match.depth) for axis in k_parts), (vector, 1)]
        self.k: list[Part] = [(k_lane, match.depth if k_parts else trips // lanes), *near]

    def _one(self, extent: int, binding: Binding, name: str) -> SSAValue:
        return append_axis(self.launch, Axis(extent, binding, name))

    def _some(self, extent: int, binding: Binding, name: str) -> list[SSAValue]:
        """An axis, none where it has one coordinate."""
        return [self._one(extent, binding, name)] if extent > 1 else []


def _hint(value: SSAValue, suffix: str) -> str:
    return (value.name_hint or "a").removesuffix(suffix)


def _apply(launch: tile.LaunchOp, match: _Match) -> None:
    """Replace the axes of the tile and the loop along k."""
    kept = [axis for axis in launch.axes if axis not in (match.m, match.n)]
    forms = {load: subscripts_of(load) for pair in match.pairs for load in pair}
    axes = _Axes(launch, match)
    rows = recompute(match.m, axes.rows, launch.body.block)
    columns = recompute(match.n, axes.columns, launch.body.block)
    right_columns = _index(axes.right_columns, f"{axes.n_hint}_o")
    rows.result.name_hint, columns.result.name_hint = f"{axes.m_hint}_c", f"{axes.n_hint}_c"
    Rewriter.insert_op(right_columns, InsertPoint.after(columns))
    for mask in match.masks:
        Rewriter.erase_op(mask)
    Rewriter.replace_op(match.inner, _steps(match, axes, forms, (rows, right_columns)))
    for axis in (match.m, match.n):
        drop_axis(launch, axis)
    reorder(launch, [*kept, *axes.order])


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
    lane, *near = axes.k
    k = _index([lane, (body.args[0], axes.step), *near], axes.k_hint)
    at: dict[SSAValue, loop.IndexOp] = dict(zip((match.m, match.n, inner.iv), (*places, k), strict=True))
    moved = {load: _moved(load, form, at) for load, form in forms.items()}
    contracts = contracts_of(
        match.engine.name,
        inner,
        [(moved[left], moved[right]) for left, right in match.pairs],
        axes.folded,
        tile.Places([axes.moved], axes.place, axes.place_axes),
    )
    body.add_ops([k, *moved.values(), *contracts, loop.YieldOp(*(contract.result for contract in contracts))])
    made = loop.ReduceOp(axes.steps, Region(body), inner.identities, inner.combiner.clone())
    made.properties["unroll"] = UnitAttr()
    made.location = inner.location
    for result, old in zip(made.results, inner.results, strict=True):
        result.name_hint = old.name_hint
    return made


def _index(parts: Sequence[Part], name: str) -> loop.IndexOp:
    """A coordinate that is a sum of parts."""
    total = Linear()
    for axis, stride in parts:
        total = total + Linear.of(axis, stride)
    made = loop.IndexOp(*to_map([total]))
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
    made = loop.LoadOp(load.source, *to_map(subscripts))
    made.location = load.location
    made.result.name_hint = load.result.name_hint
    return made
