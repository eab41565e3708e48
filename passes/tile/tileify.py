"""t:001 tileify: turn the outer free loops of a kernel into the thread axes of a launch.

    loop.for %m = 0 to 16 {                      tile.launch (%m = 16 : thread, %n = 16 : thread) {
      loop.for %n = 0 to 16 {                      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {..}
        %acc = loop.reduce .. {..}         ->      loop.store %acc, %out[%m, %n] : memref<16x16xf32>
        loop.store %acc, %out[%m, %n]            }
      }
    }

A loop is lifted when it is alone in its body but for reads and scalars: lifting one of two siblings would run the other
once for each of its coordinates. A kernel without an outer free loop, such as a whole-tensor reduction, becomes a
launch without axes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import ConstantLike

from deplodock.analysis.nest import launches, only_loop
from deplodock.analysis.schedule import Options
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.tile.edits import append_loop_axis
from deplodock.passes.tile.rule import Skip, apply_rule


@dataclass(frozen=True)
class TileifyPass(ModulePass):
    """Turn the outer free loops of a kernel into the thread axes of a launch."""

    name = "tileify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_rule(self, op, tileify)


def tileify(function: func.FuncOp, options: Options) -> None:
    """Wrap the body of a kernel function in a launch, and lift its perfectly nested free loops into axes."""
    if launches(function):
        raise Skip("the kernel is a launch already")
    block = function.body.block
    if (other := next((op for op in block.ops if isinstance(op, func.CallOp | memref.AllocOp)), None)) is not None:
        raise Skip(f"{other.name} is host code, which a launch cannot hold")
    moved = [op for op in block.ops if op is not block.last_op and not op.has_trait(ConstantLike)]
    launch = tile.LaunchOp([], [], Region(Block()))
    block.insert_op_before(launch, moved[0])
    for op in moved:
        op.detach()
        launch.body.block.add_op(op)
    while (inner := only_loop(launch.body.block)) is not None and _is_fixed(inner, launch):
        _lift(launch, inner)


def _is_fixed(inner: loop.ForOp, launch: tile.LaunchOp) -> bool:
    """Whether a loop's bound is one expression of values outside the launch."""
    outside = all(not launch.is_ancestor(value.owner) for value in inner.bound_operands)
    return outside and len(inner.bound.data.results) == 1


def _lift(launch: tile.LaunchOp, inner: loop.ForOp) -> None:
    """Make a loop of the launch body the last axis, and put its body in its place."""
    inner.iv.replace_all_uses_with(append_loop_axis(launch, inner, Binding.THREAD))
    for op in list(inner.body.block.ops):
        op.detach()
        launch.body.block.insert_op_before(op, inner)
    Rewriter.erase_op(inner)
