"""t:004 cooperative-reduce: let the threads of a CTA share the rows of a kernel.

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
thread. `keep=loops` leaves strided loops; `keep=axes` makes the rest of the row a register axis too, so that no loop
remains and equal reads merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.dependence import varying_bound, wheres
from deplodock.analysis.nest import Nest, launches
from deplodock.analysis.roles import contraction
from deplodock.analysis.schedule import Options
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.tile.edits import Axis, append_axis, recompute
from deplodock.passes.tile.rule import Skip, apply_rule, positive


@dataclass(frozen=True)
class CooperativeReducePass(ModulePass):
    """Let the threads of a CTA share the rows of a kernel that reduces them.

    Parameters:
        threads: threads that share a row.
        vector: consecutive elements of a row that one thread owns.
        keep: whether the rest of the row stays a loop of each thread (loops) or becomes a register axis (axes).
    """

    name = "cooperative-reduce"
    threads: int | None = None
    vector: int | None = None
    keep: Literal["loops", "axes"] | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_rule(self, op, cooperative_reduce)


def cooperative_reduce(function: func.FuncOp, options: Options) -> None:
    """Distribute the row loops of every launch that reduces rows; Skip with the reason if none does."""
    refusals: list[str] = []
    for launch in (found := launches(function)):
        try:
            _distribute_launch(launch, options)
        except Skip as skip:
            refusals.append(str(skip))
    if len(refusals) == len(found):
        raise Skip(refusals[0] if refusals else "no launch; run tileify first")


def _distribute_launch(launch: tile.LaunchOp, options: Options) -> None:
    nest = Nest(tuple(launch.axes), launch.body.block)
    rows = nest.row_loops()
    if any(isinstance(op, tile.CombineOp) for op in launch.body.block.ops):
        raise Skip("the rows are shared by threads already")
    if not nest.reductions():
        raise Skip("no reduction stands in the launch")
    if contraction(nest) is not None:
        raise Skip("the reduction is a contraction; chunk-matmul-k and split-matmul-k divide those")
    if any(isinstance(op, tile.StageOp) for op in launch.body.block.ops):
        raise Skip("inputs are staged; cooperative-reduce runs before stage-inputs")
    if (loose := next((op for op in rows if op.trips is None), None)) is not None:
        raise Skip(f"the bound of the loop over %{loose.iv.name_hint} is not constant")
    threads, vector = positive(options, "threads", 256), positive(options, "vector", 1)
    as_axes = options.get("keep") == "axes"
    if as_axes and any(wheres(op.body.block) for op in rows):
        raise Skip("keep=axes: a row loop has a loop.where of its own")
    if as_axes and not rows[0].trips:
        raise Skip("keep=axes: the rows have no elements, so no point of the axes would be left to write their results")
    if as_axes and len({op.trips for op in rows}) > 1:
        raise Skip(f"keep=axes needs row loops of one extent, got {', '.join(str(op.trips) for op in rows)}")

    if (as_axes or vector > 1) and (inner := next(filter(None, map(varying_bound, rows)), None)) is not None:
        raise Skip(
            f"the bound of the loop over %{inner.iv.name_hint} varies along the row, so the registers of a thread "
            "cannot run it together; give vector=1 and keep=loops"
        )
    if (buffer := _exchanged(launch)) is not None:
        raise Skip(f"%{buffer.name_hint} is written and read in the launch, and another thread may be the one to read")

    step = threads * vector
    if as_axes and (extent := rows[0].trips) is not None and extent > step:
        serial = [(append_axis(launch, Axis(-(-extent // step), Binding.REGISTER, "i")), step)]
    else:
        serial = []
    shared: list[tuple[SSAValue, int]] = [(append_axis(launch, Axis(threads, Binding.THREAD, "t")), vector)]
    if vector > 1:
        shared.append((append_axis(launch, Axis(vector, Binding.REGISTER, "v")), 1))
    if as_axes:
        _become_axes(launch, rows, [*serial, *shared], step)
    else:
        for op in rows:
            _stride(op, shared, step)


def _exchanged(launch: tile.LaunchOp) -> SSAValue | None:
    """A buffer that the launch both writes and reads, or None."""
    written = [op.destination for op in launch.body.walk() if isinstance(op, loop.StoreOp)]
    read = [op.source for op in launch.body.walk() if isinstance(op, loop.LoadOp)]
    return next((buffer for buffer in written if buffer in read), None)


def _stride(op: loop.ForOp | loop.ReduceOp, shared: Sequence[tuple[SSAValue, int]], step: int) -> None:
    """Leave a loop over every `step`-th element, the rest distributed over the shared axes."""
    extent = op.trips
    assert extent is not None
    body = Region(op.body.detach_block(op.body.block))
    trips = -(-extent // step)
    if isinstance(op, loop.ForOp):
        narrowed = loop.ForOp(trips, body, unroll=op.unroll is not None)
    else:
        narrowed = loop.ReduceOp(trips, body, op.identities, op.combiner.clone(), unroll=op.unroll is not None)
    Rewriter.insert_op(narrowed, InsertPoint.before(op))
    old = narrowed.iv
    serial = body.block.insert_arg(IndexType(), 1)
    serial.name_hint = "i"
    recompute(old, [(serial, step), *shared], body.block, extent if extent % step else None)
    body.block.erase_arg(old)
    if isinstance(op, loop.ReduceOp):
        for old_result, partial in zip(op.results, narrowed.results, strict=True):
            partial.name_hint = old_result.name_hint
        _combine(op, narrowed.results, [axis for axis, _ in shared])
    Rewriter.erase_op(op)


def _become_axes(
    launch: tile.LaunchOp,
    rows: Sequence[loop.ForOp | loop.ReduceOp],
    parts: Sequence[tuple[SSAValue, int]],
    step: int,
) -> None:
    """Dissolve the row loops, all of one extent, into the launch; what the threads do not cover is a register axis."""
    extent = rows[0].trips
    assert extent is not None
    for op in rows[1:]:
        op.iv.replace_all_uses_with(rows[0].iv)
    recompute(rows[0].iv, parts, launch.body.block, extent if extent % step else None)
    for op in rows:
        for inner in list(op.body.block.ops):
            inner.detach()
            Rewriter.insert_op(inner, InsertPoint.before(op))
        if isinstance(op, loop.ReduceOp):
            terminator = op.prev_op
            assert isinstance(terminator, loop.YieldOp)
            _combine(op, terminator.operands, [axis for axis, _ in parts])
            Rewriter.erase_op(terminator)
        Rewriter.erase_op(op)


def _combine(op: loop.ReduceOp, partial: Sequence[SSAValue], axes: Sequence[SSAValue]) -> None:
    """Replace the results of a reduction by the fold of each thread's partial results over the axes."""
    combined = tile.CombineOp(partial, axes, op.identities, op.combiner.clone())
    Rewriter.insert_op(combined, InsertPoint.before(op))
    for old, new in zip(op.results, combined.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
