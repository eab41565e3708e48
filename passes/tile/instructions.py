"""An estimate of the instructions that a thread runs for the operations of a launch, for budgets of code size.

An operation runs once for each coordinate of the register axes it varies along. A product that an accumulator takes in
counts with the sum, as one fused multiply-add; an access counts once for its width.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import ConstantLike

from deplodock.analysis.access.alignment import lanes_along
from deplodock.analysis.affine.linear import extent_or_one, known_points, subscripts_of
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.roles import yields_inner_reduction
from deplodock.dialects import loop, scalar_regions, tile
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.tile import Binding

FUNCTION = 8
"""Instructions of a division or a function such as exp or rsqrt, roughly."""


class Instructions:
    """The estimate for one launch."""

    def __init__(self, launch: tile.LaunchOp) -> None:
        self._dependence = Dependence()
        self._registers = launch.bound_to(Binding.REGISTER)

    def of_block(self, block: Block) -> int:
        """The instructions of one run of a block; unrolled loops in it count all their iterations, others one."""
        return sum(self._of(op) for op in block.ops)

    def of_loop(self, op: loop.LoopLike, unrolled: bool) -> int:
        """The instructions of a loop in the code."""
        body = self.of_block(op.body.block)
        return body * op.trips if unrolled and op.trips is not None else body

    def _of(self, op: Operation) -> int:
        match op:
            case loop.LoopLike():
                return self.of_loop(op, bool(op.unroll))
            case loop.IndexOp() | loop.WhereOp() | tile.StageOp():
                return 0
            case loop.LoadOp():
                return self._of_access(op.source, op, self._axes([op.result]))
            case loop.StoreOp():
                return self._of_access(op.destination, op, self._axes(op.indices))
            case loop.YieldOp():
                return self._of_yield(op)
            case AxisFold():
                return known_points(self._axes(op.inputs))
            case _ if _is_fused(op):
                return 0
            case _:
                return known_points(self._axes(op.results)) * _of_scalar(op)

    def _of_yield(self, op: loop.YieldOp) -> int:
        """The folds of one iteration; those of an inner reduction with the same accumulators are its own."""
        if yields_inner_reduction(op):
            return 0
        around = op.parent_op()
        folding = list(around.combiner.block.ops)[:-1] if isinstance(around, loop.ReduceOp) else []
        return known_points(self._axes(op.operands)) * sum(map(_of_scalar, folding))

    def _of_access(self, buffer: SSAValue, op: loop.LoadOp | loop.StoreOp, axes: Sequence[SSAValue]) -> int:
        type, forms = loop.memref_of(buffer), subscripts_of(op)
        if tile.memory_of(buffer) is tile.Memory.REGISTER:
            return 0
        around = op.parent_op()
        if isinstance(around, loop.ReduceOp) and around.unroll and around.trips is not None:
            width = len(lanes_along(type, forms, around.iv, around.trips))
            if width == around.trips > 1:
                return -(-known_points(axes) // width)
        widths = [len(lanes_along(type, forms, axis, extent_or_one(axis))) for axis in axes]
        return known_points(axes) // max(widths, default=1)

    def _axes(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        found = self._dependence.of(*values)
        return [axis for axis in self._registers if axis in found]


def _of_scalar(op: Operation) -> int:
    """The instructions of a scalar operation."""
    if op.has_trait(ConstantLike):
        return 0
    return FUNCTION if _is_function(op) else 1


def _is_function(op: Operation) -> bool:
    return isinstance(op, arith.DivfOp | arith.DivSIOp | arith.RemSIOp) or op.name.startswith(("math.", "math_ext."))


def _is_fused(op: Operation) -> bool:
    """Whether an operation is a product whose only use is a reduction's sum: fuse-multiply-add fuses no other."""
    if not isinstance(op, arith.MulfOp) or not op.result.has_one_use():
        return False
    user = next(iter(op.result.uses)).operation
    reduction = user.parent_op() if isinstance(user, loop.YieldOp) else None
    ops = scalar_regions.combiner_ops(reduction.combiner) if isinstance(reduction, loop.ReduceOp) else None
    return ops is not None and any(isinstance(fold, arith.AddfOp) for fold in ops)
