"""What is the same for all threads of a CTA."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.linear import fold_map
from deplodock.dialects import kernel, loop


def divergent(op: Operation, function: kernel.FuncOp) -> Operation | None:
    """The guard or loop around an operation whose condition or bound may differ between threads of a CTA, or None."""
    parent = op.parent_op()
    while parent is not None and parent is not function:
        if isinstance(parent, loop.GuardOp) and not _is_uniform(parent.conditions.data, parent.indices, function):
            return parent
        if isinstance(parent, loop.ForOp) and not _is_uniform(parent.bound.data, parent.bound_operands, function):
            return parent
        parent = parent.parent_op()
    return None


def _is_uniform(map: AffineMap, operands: Sequence[SSAValue], function: kernel.FuncOp) -> bool:
    """Whether a map's values are the same for all threads of a CTA: they depend on block id, loops and tickets."""
    return all(_is_uniform_root(root, function) for form in fold_map(map, operands) for root in form.roots())


def _is_uniform_root(root: SSAValue, function: kernel.FuncOp) -> bool:
    if root is function.thread_id or not isinstance(root, BlockArgument):
        return isinstance(root.owner, kernel.TicketOp)
    owner = root.block.parent_op()
    return owner is function or (
        isinstance(owner, loop.ForOp) and _is_uniform(owner.bound.data, owner.bound_operands, function)
    )
