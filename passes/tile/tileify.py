"""tileify: turn the outer free loops of a kernel into the thread axes of a launch.

    loop.for %m = 0 to 16 {                      tile.launch (%m = 16 : thread, %n = 16 : thread) {
      loop.for %n = 0 to 16 {                      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {..}
        %acc = loop.reduce .. {..}         ->      loop.store %acc, %out[%m, %n] : memref<16x16xf32>
        loop.store %acc, %out[%m, %n]            }
      }
    }

Nests that stand side by side and share no reduction become a launch each. Within a launch, a loop is lifted when it is
alone in its body but for reads and scalars: lifting one of two siblings would run the other once for each of its
coordinates. Siblings of one extent are lifted together. A loop that a scan runs along stays. A loop that writes what is
read before it stays, as no point of a launch waits for the reads of the others. A kernel without an outer free loop,
such as a whole-tensor reduction, becomes a launch without axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeGuard

from xdsl.dialects import func, memref
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint
from xdsl.traits import ConstantLike

from deplodock.analysis.operations import label, only_reads
from deplodock.analysis.shape.dependence import wheres
from deplodock.analysis.shape.nest import is_kernel, launch_bodies, launches, scans_along
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.tile.edits import append_loop_axis
from deplodock.passes.tile.rule import Rule, Skip
from deplodock.schedule.steps import Schedule


@dataclass(frozen=True)
class TileifyPass(Rule[func.FuncOp]):
    """Turn the outer free loops of a kernel into the thread axes of a launch."""

    name = "tileify"

    @classmethod
    def matches(cls, op: Operation) -> TypeGuard[func.FuncOp]:
        return is_kernel(op)

    def chosen(self, function: func.FuncOp, schedule: Schedule) -> dict[func.FuncOp, Rule[func.FuncOp] | Skip]:
        return {function: self}

    def rewrite(self, function: func.FuncOp, rewriter: PatternRewriter, /) -> None:
        if len(function.body.blocks) != 1:
            raise Skip("it has several blocks; a kernel is one block of loops")
        if launches(function):
            raise Skip("the kernel is a launch already")
        block = function.body.block
        if (other := next((op for op in block.ops if isinstance(op, func.CallOp | memref.AllocOp)), None)) is not None:
            raise Skip(f"{other.name} is host code, which a launch cannot hold")
        last = block.last_op
        assert last is not None
        moved = [op for op in block.ops if op is not last and not op.has_trait(ConstantLike)]
        bodies = launch_bodies(moved)
        if (reason := next(filter(None, map(_read_back, bodies)), None) or _exchanged(moved, bodies)) is not None:
            raise Skip(f"{reason}, and launches alone order memory")
        for ops in bodies:
            launch = tile.LaunchOp([], [], Region(Block()))
            launch.location = ops[0].location if ops else function.location
            rewriter.insert(launch, InsertPoint.before(last))
            values: dict[SSAValue, SSAValue] = {}
            launch.body.block.add_ops(op.clone(values) for op in ops)
            while loops := _liftable(launch):
                _lift(rewriter, launch, loops)
        for op in reversed(moved):
            rewriter.erase(op)


def _read_back(ops: Sequence[Operation]) -> str | None:
    """Why a body needs memory in order: it reads what it wrote; else None."""
    written: list[SSAValue] = []
    for op in (inner for outer in ops for inner in outer.walk()):
        if isinstance(op, loop.StoreOp):
            written.append(op.destination)
        elif isinstance(op, loop.LoadOp) and op.source in written:
            return f"{label(op.source)} is read after it was written"
    return None


def _exchanged(ops: Sequence[Operation], bodies: Sequence[Sequence[Operation]]) -> str | None:
    """Why launches in this order need memory in another one, that of the operations; else None."""
    place = {op: number for number, op in enumerate(ops)}
    read = {op: [inner.source for inner in op.walk() if isinstance(inner, loop.LoadOp)] for op in ops}
    written = {op: [inner.destination for inner in op.walk() if isinstance(inner, loop.StoreOp)] for op in ops}
    for first, later in combinations(bodies, 2):
        for op, other in product(later, first):
            both = [*(b for b in read[op] if b in written[other]), *(b for b in written[op] if b in read[other])]
            if both and place[op] < place[other]:
                return f"{label(both[0])} is read and written in another order than the nests are launched in"
    return None


def _is_fixed(inner: loop.ForOp, launch: tile.LaunchOp) -> bool:
    """Whether a loop's bound is one expression of values outside the launch."""
    outside = all(not launch.is_ancestor(value.owner) for value in inner.bound_operands)
    return outside and len(inner.bound.data.results) == 1


def _liftable(launch: tile.LaunchOp) -> list[loop.ForOp]:
    """The loops of the body that become its next axis: the only one, or several alike; none if others would rerun."""
    block = launch.body.block
    loops = [op for op in block.ops if isinstance(op, loop.ForOp)]
    others = [op for op in block.ops if not isinstance(op, loop.ForOp)]
    if not loops or any(op.regions or not only_reads(op) for op in others):
        return []
    if any(scans_along(op.iv) for op in loops):
        return []
    alike = all((op.bound, *op.bound_operands) == (loops[0].bound, *loops[0].bound_operands) for op in loops)
    if len(loops) > 1 and (not alike or any(wheres(op.body.block) for op in loops)):
        return []
    return loops if _is_fixed(loops[0], launch) and not any(_overwrites(inner, block) for inner in loops) else []


def _overwrites(inner: loop.ForOp, block: Block) -> bool:
    """Whether a loop writes what the rest of its block reads: its iterations come after all of those reads."""
    written = [op.destination for op in inner.walk() if isinstance(op, loop.StoreOp)]
    read = (op for other in block.ops if other is not inner for op in other.walk() if isinstance(op, loop.LoadOp))
    return any(load.source in written for load in read)


def _lift(rewriter: PatternRewriter, launch: tile.LaunchOp, loops: Sequence[loop.ForOp]) -> None:
    """Make loops of the launch body the last axis, and put their bodies in their place."""
    axis = append_loop_axis(rewriter, launch, loops[0], Binding.THREAD)
    for inner in loops:
        rewriter.replace_all_uses_with(inner.iv, axis)
        for op in list(inner.body.block.ops):
            op.detach()
            rewriter.insert(op, InsertPoint.before(inner))
        rewriter.erase(inner)
