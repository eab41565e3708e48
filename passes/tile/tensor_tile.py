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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.access.boxes import boxes_of
from deplodock.analysis.access.slabs import slab_of
from deplodock.analysis.affine.linear import Linear, condition_of, extent_or_one, subscripts_of
from deplodock.analysis.machine.atoms import NoAtomError, narrow_factors, walks_neighbours, warp_share
from deplodock.analysis.machine.targets import ACCESS_BYTES, WARP, target_at
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.masking import adds_zero
from deplodock.analysis.shape.roles import Contraction, accumulating_loops, contraction_of, low_read_of, read_of
from deplodock.dialects import loop, math_ext, tile
from deplodock.dialects.buffers import SPANS
from deplodock.dialects.engines import MMA, WGMMA, Engine, engine_names, reads_slabs, row_of
from deplodock.dialects.kernel.wgmma import ROWS, WARPGROUP, columns_of, depth_of
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.options import Integers, OneOf, option
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, folded, require_engine
from deplodock.passes.tile.tensor_engine import Match, apply
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
        found = _found(launch, self)
        apply(rewriter, launch, (_of_warpgroups if found.engine.reads_slabs else _of_warps)(launch, found, self))

    @property
    def sides(self) -> tuple[int, int]:
        """The most rows and columns, as the instruction has them."""
        return (self.m, self.n) if self.rows == "m" else (self.n, self.m)


def _found(launch: tile.LaunchOp, rule: TensorTilePass) -> Match:
    """The contraction of a launch that an engine can compute, without the sizes of its tile.

    Raises Skip where there is none.
    """
    if launch.carried_axes() or launch.bound_to(Binding.ENGINE):
        raise NothingToDo("the launch has axes of an engine already")
    if (roles := contraction_of(launch)) is None:
        raise Skip("the launch has no contraction")
    if launch.bound_to(Binding.REGISTER):
        raise Skip("the launch has register axes already; tensor-tile stands in place of register-tile")
    require_engine(launch, rule.engine)
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
    return Match(row_of(rule.engine, row), m, n, roles.innermost, pairs, masks, low)


def _is_along(load: loop.LoadOp, axis: SSAValue) -> bool:
    return any(form.depends_on(axis) for form in subscripts_of(load))


def _of_warps(launch: tile.LaunchOp, found: Match, rule: TensorTilePass) -> Match:
    """A contraction with the tile of each warp. Raises Skip where it has none."""
    row = found.engine
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
    return replace(
        found,
        team_m=warp_m,
        team_n=warp_n,
        columns=whole,
        depth=depth,
        parts=parts,
        slices=rule.slices,
        is_direct=is_direct,
    )


def _of_warpgroups(launch: tile.LaunchOp, found: Match, rule: TensorTilePass) -> Match:
    """A contraction with the tile of each warpgroup, which has all columns. Raises Skip where it has none."""
    rows, columns = rule.sides
    if rule.slices > 1:
        raise Skip("the warps of a warpgroup share no chunk of k; slices are of mma")
    _check_warpgroups(found, rows, columns)
    whole = extent_or_one(found.n)
    return replace(found, team_m=rows, team_n=whole, columns=whole)


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


def _check_warpgroups(match: Match, rows: int, columns: int) -> None:
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
