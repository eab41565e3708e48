"""blockify-launch: choose what of the free axes of a launch runs in one CTA, and make the rest blocks.

    tile.launch (%m = 500 : thread,  ->  tile.launch (%m_b = 32 : block, %n_b = 4 : block,
                 %n = 64 : thread) {                  %m_t = 16 : thread, %n_t = 16 : thread) {
      ..                                   %m = loop.index [%m_b * 16 + %m_t]
                                           loop.where %m < 500
                                           %n = loop.index [%n_b * 16 + %n_t] ..

Axes that a combine folds belong to one CTA and stay. A contraction gets a CTA tile of m x n by the roles of its axes,
its batch axes become blocks; every other kernel fills a CTA with `threads`, the innermost axes first, so that
neighbouring threads walk contiguous memory. A function of both kinds of launches takes the options of both.

CTAs start in the order of the block axes, the last one fastest. With `raster` the row tiles of a contraction go last,
in groups: CTAs that run at the same time share a strip of rows and one of columns, and read less from memory.

    (%m_b = 32 : block,      ->  (%m_g = 2 : block, %n_b = 148 : block,
     %n_b = 148 : block, ..)      %m_b = 16 : block, ..)

Bounds and conditions that are the same for all threads of a CTA are written over blocks: `%m floordiv 128 * 4 + 4` is
`%m_b * 4 + 4` in a tile of 128 rows. Where a bound of a contraction's loop over chunks differs in a tile, as in one of
96 rows, the loop runs for the whole tile, and what each row counts is a `loop.where` of the elements. Where the loops
of later row tiles run longer, the row tiles go first instead, the last one first: what is left when most CTAs are done
is short.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, i64
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.linear import (
    Linear,
    bounds_of,
    coarsened_condition,
    condition_of,
    known_points,
    to_map,
    to_sides,
)
from deplodock.analysis.shape.roles import Contraction, contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, Kind, option
from deplodock.passes.tile.edits import bound_by, rebind, reorder, roundings, split_axis
from deplodock.passes.tile.rule import LaunchRule, NothingToDo, Skip, folded, require_constant, staged
from deplodock.schedule.choose.sizes import CONTRACTION_TILE, CTA_THREADS

_SIDES = Integers((1, 2, 4, 8, 16, 32, 64, 96, 128, 256))


@dataclass(frozen=True)
class BlockifyLaunchPass(LaunchRule):
    """Split the free axes of a launch into blocks and the threads of a CTA."""

    name = "blockify-launch"
    after = ("flatten-contraction", "cooperative-reduce", "split-matmul-k")
    m: int = option(CONTRACTION_TILE, _SIDES, "rows of a contraction's CTA tile", kind=Kind.CONTRACTION)
    n: int = option(CONTRACTION_TILE, _SIDES, "columns of a contraction's CTA tile", kind=Kind.CONTRACTION)
    threads: int = option(
        CTA_THREADS,
        Integers((32, 64, 128, 256, 512, 1024, 2048, 4096)),
        "threads of a CTA of any other kernel, before they get several outputs",
        kind=Kind.OTHER,
    )
    occupancy: int | None = option(
        None, Integers((1, 2, 3, 4, 8)), "the wanted CTAs per SM, which bounds the registers of a thread"
    )
    raster: int = option(
        1,
        Integers((1, 2, 4, 8, 16, 32)),
        "the most row tiles of a contraction that follow each other in the order of CTAs, in equal groups",
        kind=Kind.CONTRACTION,
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        parts = launch.ctas
        if any(axis not in folded(launch) for axis in parts):
            raise Skip("the launch has block axes already")
        if not launch.axes:
            raise NothingToDo("the launch has no axes")
        if staged(launch):
            raise Skip("inputs are staged for the whole launch; blockify-launch runs before stage-inputs")
        if any(axis not in folded(launch) for axis in launch.bound_to(Binding.REGISTER)):
            raise Skip("the launch has a register tile; blockify-launch runs before register-tile")
        if launch.carried_axes():
            raise Skip("the launch has lane axes; blockify-launch runs before what adds those")
        require_constant(launch, launch.axes)
        roles = contraction_of(launch)
        sizes = _tile_sizes(launch, self, roles)
        chosen = dict(sizes)
        uneven = roundings(launch, chosen)
        if not uneven and all(size == launch.extent(axis) for axis, size in sizes):
            raise NothingToDo("the launch fits one CTA")
        if self.occupancy is not None:
            launch.properties["occupancy"] = IntegerAttr(self.occupancy, i64)
            rewriter.notify_op_modified(launch)
        for rounding in uneven:
            rounding.apply(rewriter)
        blocks: list[SSAValue] = []
        rows: list[SSAValue] = []
        threads: list[SSAValue] = []
        for axis in launch.bound_to(Binding.THREAD):
            is_row = roles is not None and axis in roles.m
            outer, inner = _bind(rewriter, launch, axis, chosen[axis]) if axis in chosen else ([], [axis])
            blocks += outer
            rows += outer if is_row else []
            threads += inner
        _settle(rewriter, launch)
        if rows and _runs_longer(launch, rows[-1]):
            blocks = [_backwards(rewriter, launch, rows[-1]), *(axis for axis in blocks if axis is not rows[-1])]
        elif rows:
            blocks = _raster(rewriter, launch, blocks, rows[-1], self.raster)
        reorder(rewriter, launch, [*blocks, *parts, *threads, *launch.bound_to(Binding.REGISTER)])


def _tile_sizes(
    launch: tile.LaunchOp, rule: BlockifyLaunchPass, roles: Contraction | None
) -> list[tuple[SSAValue, int]]:
    """The coordinates of each free thread axis that one CTA takes, in the launch's order."""
    shared = folded(launch)
    free = [axis for axis in launch.bound_to(Binding.THREAD) if axis not in shared]
    if roles is None:
        budget = rule.threads
        budget //= known_points(axis for axis in launch.bound_to(Binding.THREAD) if axis in shared)
        return _evened(launch, _fill(launch, free, budget))
    m = _fill(launch, [axis for axis in free if axis in roles.m], rule.m)
    n = _fill(launch, [axis for axis in free if axis in roles.n], rule.n)
    chosen = dict([*m, *n])
    return [(axis, chosen.get(axis, 1)) for axis in free]


def _fill(launch: tile.LaunchOp, axes: list[BlockArgument], budget: int) -> list[tuple[SSAValue, int]]:
    """Give each axis as much of the budget as it can use, the innermost first."""
    sizes: list[tuple[SSAValue, int]] = []
    for axis in reversed(axes):
        size = max(1, min(launch.extent(axis) or 1, budget))
        budget //= size
        sizes.append((axis, size))
    return sizes[::-1]


def _evened(launch: tile.LaunchOp, sizes: list[tuple[SSAValue, int]]) -> list[tuple[SSAValue, int]]:
    """The sizes, with that of the axis that is cut such that its blocks are about as large as each other.

    17 rows of 17 are 9 and 8 then, not 15 and 2. A size stays a multiple of the power of two that it is one of, as
    register tiles divide it, and that of the innermost axis is left, so that warps start where accesses are whole.
    """
    outer = [(axis, _even(max(1, launch.extent(axis) or 1), size)) for axis, size in sizes[:-1]]
    return [*outer, *sizes[-1:]]


def _even(extent: int, size: int) -> int:
    """The least size that makes no more blocks of an extent than a given one, and is a multiple of its power of two."""
    power = size & -size
    least = -(-extent // -(-extent // size))
    return -(-least // power) * power


def _bind(
    rewriter: PatternRewriter, launch: tile.LaunchOp, axis: SSAValue, size: int
) -> tuple[list[SSAValue], list[SSAValue]]:
    """Leave `size` coordinates of a thread axis to the CTA, the rest to blocks. Returns the block and thread axes."""
    extent = launch.extent(axis)
    assert extent is not None
    if size == 1 and extent > 1:
        rebind(rewriter, launch, axis, Binding.BLOCK)
        return [axis], []
    if size >= extent:
        return [], [axis]
    block, thread = split_axis(rewriter, launch, axis, size, Binding.BLOCK, Binding.THREAD)
    return [block], [thread]


def _settle(rewriter: PatternRewriter, launch: tile.LaunchOp) -> None:
    """Rewrite bounds and conditions that are the same for all threads of a CTA, so that they name blocks alone."""
    lanes = {axis for axis in launch.axes if axis not in launch.ctas}
    for op in list(launch.body.walk()):
        if isinstance(op, loop.LoopLike) and op.bound_operands:
            bound_by(rewriter, op, bounds_of(op))
        elif isinstance(op, loop.WhereOp):
            given = condition_of(op)
            condition = coarsened_condition(given)
            if condition != given and lanes.isdisjoint(condition.roots()):
                map, op.operands = to_map(to_sides([condition]))
                op.properties["condition"] = AffineMapAttr(map)
                rewriter.notify_op_modified(op)


def _runs_longer(launch: tile.LaunchOp, rows: SSAValue) -> bool:
    """Whether the bound of a loop grows along an axis."""
    extent = launch.extent(rows) or 1
    loops = [op for op in launch.body.walk() if isinstance(op, loop.LoopLike)]
    forms = [form for op in loops for form in bounds_of(op) if form.depends_on(rows)]
    ends = [[form.substitute(rows, Linear(constant=at)) for at in (0, extent - 1)] for form in forms]
    ranges = [(last - first).range() for first, last in ends]
    return any(bounds is not None and bounds[0] > 0 for bounds in ranges)


def _backwards(rewriter: PatternRewriter, launch: tile.LaunchOp, axis: SSAValue) -> SSAValue:
    """Let the last coordinate of an axis be the first. Returns the axis."""
    index = loop.IndexOp(AffineMap(1, 0, (AffineExpr.dimension(0) * -1 + (launch.extent(axis) or 1) - 1,)), [axis])
    index.result.name_hint = axis.name_hint
    rewriter.replace_all_uses_with(axis, index.result)
    index.operands = [axis]
    rewriter.insert(index, InsertPoint.at_start(launch.body.block))
    return axis


def _raster(
    rewriter: PatternRewriter, launch: tile.LaunchOp, blocks: list[SSAValue], rows: SSAValue, most: int
) -> list[SSAValue]:
    """The blocks with the row tiles last, in equal groups of at most `most`; the groups take the place of the rows."""
    extent = launch.extent(rows)
    assert extent is not None
    group = next(size for size in range(min(most, extent), 0, -1) if extent % size == 0)
    others = [axis for axis in blocks if axis is not rows]
    if group in (1, extent):
        return blocks if group == 1 else [*others, rows]
    hint = rows.name_hint or "m_b"
    groups, inner = split_axis(rewriter, launch, rows, group, Binding.BLOCK, Binding.BLOCK)
    groups.name_hint, inner.name_hint = f"{hint.removesuffix('_b')}_g", hint
    return [groups if axis is rows else axis for axis in blocks] + [inner]
