"""cooperative-reduce: let the threads of a CTA share the rows of a kernel.

    tile.launch (%row = 32 : thread) {       tile.launch (%row = 32 : thread, %t = 256 : thread, %v = 4 : register) {
      %acc = loop.reduce {arith.addf}          %p = loop.reduce {arith.addf} %i = 0 to 2 : f32 {
        %k = 0 to 2048 : f32 {..}       ->       %k = loop.index [%i * 1024 + %t * 4 + %v] ..
      ..                                       }
                                               %acc = tile.combine {arith.addf} %p over (%t, %v) : f32
      loop.for %j = 0 to 2048 {..}             loop.for %i = 0 to 2 {
                                                 %j = loop.index [%i * 1024 + %t * 4 + %v] ..
    }                                        }

Every loop that stands directly in the launch is distributed over the same threads, reductions and loops that write
alike, so that rows that are read several times are read by the same thread. `vector` consecutive elements belong to one
thread. A scan runs along the loop that is left and the new axes, `along (%i, %t, %v)`. `keep=loops` leaves strided
loops; `keep=axes` makes the rest of the row a register axis too, so that no loop remains and equal reads merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.affine.linear import extent_or_one
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import varying_bound, wheres
from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.roles import row_chain
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import Axis, Part, append_axis, recompute, reorder
from deplodock.passes.tile.rule import LaunchRule, Skip
from deplodock.schedule.choose.sizes import CTA_THREADS

Keep: TypeAlias = Literal["loops", "axes"]
Lanes: TypeAlias = Literal["row", "free"]


@dataclass(frozen=True)
class CooperativeReducePass(LaunchRule):
    """Let the threads of a CTA share the rows of a kernel that reduces them."""

    name = "cooperative-reduce"
    threads: int = option(CTA_THREADS, Integers((8, 16, 32, 64, 128, 256, 512, 1024)), "threads that share a row")
    vector: int = option(1, Integers((1, 2, 4)), "consecutive elements of a row that one thread owns")
    keep: Keep = option(
        "loops",
        Keep,
        "whether the rest of the row stays a loop of each thread (loops) or becomes a register axis (axes)",
    )
    outer: int = option(
        1,
        Integers((1, 2, 4, 8)),
        "threads that share the outermost loop of a row of several loops; `threads` share the innermost",
    )
    lanes: Lanes = option(
        "row", Lanes, "whether neighbouring threads share a row (row) or work on neighbouring rows (free)"
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        rows = _rows(launch)
        threads, vector, outer_threads, as_axes = self.threads, self.vector, self.outer, self.keep == "axes"
        if as_axes:
            _check_axes(rows)
        if (as_axes or vector > 1) and (inner := next(filter(None, map(varying_bound, rows)), None)) is not None:
            raise Skip(
                f"the bound of the loop over {label(inner.iv)} varies along the row, so the registers of a "
                "thread cannot run it together; give vector=1 and keep=loops"
            )
        if (buffer := _exchanged(launch)) is not None:
            raise Skip(f"{label(buffer)} is written and read in the launch, and another thread may be the one to read")
        if outer_threads > 1 and (as_axes or all(len(row_chain(op)) == 1 for op in rows)):
            raise Skip("outer is for rows of several loops, with keep=loops")

        extent, step = rows[0].trips, threads * vector
        known = len(launch.axes)
        outer: list[Part] = []
        shared: list[Part] = []
        if as_axes and extent is not None and extent > step:
            shared.append((append_axis(rewriter, launch, Axis(-(-extent // step), Binding.REGISTER, "i")), step))
        if outer_threads > 1:
            outer.append((append_axis(rewriter, launch, Axis(outer_threads, Binding.THREAD, "u")), 1))
        shared.append((append_axis(rewriter, launch, Axis(threads, Binding.THREAD, "t")), vector))
        if vector > 1:
            shared.append((append_axis(rewriter, launch, Axis(vector, Binding.REGISTER, "v")), 1))
        if as_axes:
            _become_axes(rewriter, launch, rows, shared)
        else:
            for op in rows:
                _share(rewriter, op, outer, shared)
        if self.lanes == "free":
            reorder(rewriter, launch, [*launch.axes[known:], *launch.axes[:known]])


def _rows(launch: tile.LaunchOp) -> list[loop.LoopLike]:
    """The row loops of a launch that reduces rows. Raises Skip with the reason where threads cannot share them."""
    nest = launch_nest(launch)
    rows = nest.row_loops()
    if any(isinstance(op, tile.CombineOp) for op in launch.body.block.ops):
        raise Skip("the rows are shared by threads already")
    if not nest.folds():
        raise Skip("no reduction or scan stands in the launch")
    if any(isinstance(op, tile.StageOp) for op in launch.body.block.ops):
        raise Skip("inputs are staged; cooperative-reduce runs before stage-inputs")
    if (loose := next((op for op in rows if op.trips is None), None)) is not None:
        raise Skip(f"the bound of the loop over {label(loose.iv)} is not constant")
    return rows


def _check_axes(rows: Sequence[loop.LoopLike]) -> None:
    """Raises Skip with the reason where row loops cannot become axes of the launch."""
    if any(wheres(op.body.block) for op in rows):
        raise Skip("keep=axes: a row loop has a loop.where of its own")
    if not rows[0].trips:
        raise Skip("keep=axes: the rows have no elements, so no point of the axes would be left to write their results")
    if len({op.trips for op in rows}) > 1:
        raise Skip(f"keep=axes needs row loops of one extent, got {', '.join(str(op.trips) for op in rows)}")


def _exchanged(launch: tile.LaunchOp) -> SSAValue | None:
    """A buffer that the launch both writes and reads, or None."""
    written = [op.destination for op in launch.body.walk() if isinstance(op, loop.StoreOp)]
    read = [op.source for op in launch.body.walk() if isinstance(op, loop.LoadOp)]
    return next((buffer for buffer in written if buffer in read), None)


def _share(rewriter: PatternRewriter, op: loop.LoopLike, outer: Sequence[Part], shared: Sequence[Part]) -> None:
    """Distribute a row over the shared axes; of several loops these share the innermost, the outer the outermost."""
    chain = row_chain(op)
    first = chain[0]
    if len(chain) == 1:
        first = _stride(rewriter, first, shared)
    else:
        _stride(rewriter, chain[-1], shared)
        first = _stride(rewriter, first, outer) if outer else first
    if isinstance(first, loop.ReduceOp):
        axes = [axis for axis, _ in (*(outer if len(chain) > 1 else ()), *shared)]
        _combine(rewriter, first, first.results, axes, InsertPoint.after(first))


def _stride(rewriter: PatternRewriter, op: loop.LoopLike, shared: Sequence[Part]) -> loop.LoopLike:
    """Leave a loop over every so many elements, the rest distributed over the shared axes; its results are partial."""
    extent, step = op.trips, _step(shared)
    assert extent is not None
    body = Region(op.body.detach_block(op.body.block))
    trips = -(-extent // step)
    if not isinstance(op, loop.ReduceOp):
        narrowed = loop.ForOp(trips, body, unroll=bool(op.unroll))
    else:
        narrowed = loop.ReduceOp(trips, body, op.identities, op.combiner.clone(), unroll=bool(op.unroll))
    old = narrowed.iv
    serial = rewriter.insert_block_argument(body.block, 1, IndexType())
    serial.name_hint = "i"
    recompute(rewriter, old, [(serial, step), *shared], body.block, extent if extent % step else None)
    rewriter.erase_block_argument(old)
    rewriter.replace(op, narrowed)
    return narrowed


def _become_axes(
    rewriter: PatternRewriter, launch: tile.LaunchOp, rows: Sequence[loop.LoopLike], parts: Sequence[Part]
) -> None:
    """Dissolve the row loops, all of one extent, into the launch; what the threads do not cover is a register axis."""
    extent, step = rows[0].trips, _step(parts)
    assert extent is not None
    for op in rows[1:]:
        rewriter.replace_all_uses_with(op.iv, rows[0].iv)
    recompute(rewriter, rows[0].iv, parts, launch.body.block, extent if extent % step else None)
    for op in rows:
        for inner in list(op.body.block.ops):
            inner.detach()
            rewriter.insert(inner, InsertPoint.before(op))
        if isinstance(op, loop.ReduceOp):
            terminator = op.prev_op
            assert isinstance(terminator, loop.YieldOp)
            _combine(rewriter, op, terminator.operands, [axis for axis, _ in parts], InsertPoint.before(op))
            rewriter.erase(terminator)
        rewriter.erase(op)


def _combine(
    rewriter: PatternRewriter,
    op: loop.ReduceOp,
    partial: Sequence[SSAValue],
    axes: Sequence[SSAValue],
    place: InsertPoint,
) -> None:
    """Give the users of a reduction the fold of partial results over the axes instead of its results."""
    combined = tile.CombineOp(partial, axes, op.identities, op.combiner.clone())
    rewriter.insert(combined, place)
    for old, new in zip(op.results, combined.results, strict=True):
        new.name_hint = old.name_hint
        rewriter.replace_uses_with_if(old, new, lambda use: use.operation is not combined)


def _step(parts: Sequence[Part]) -> int:
    """The elements of a row that the axes cover together."""
    axis, stride = parts[0]
    return stride * extent_or_one(axis)
