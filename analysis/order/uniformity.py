"""What is the same for all threads of a CTA or cluster."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Linear, forms_of
from deplodock.analysis.operations import ancestors
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import GivesUniform
from deplodock.dialects.kernel.order import Meet, order_of


def divergent(op: Operation, function: kernel.FuncOp) -> Operation | None:
    """The guard or loop around an operation whose condition or bound may differ between threads of a CTA, or None.

    In a role those are the threads of the role. At a cluster barrier those of the whole cluster meet, of which no
    more than one role may have such barriers: the barrier waits for the threads that have not ended.
    """
    order = order_of(op)
    is_of_cluster = isinstance(order, Meet) and order.is_cluster
    size = function.cluster_size if is_of_cluster else 1
    for parent in ancestors(op, below=function):
        if isinstance(parent, kernel.Team) and is_of_cluster and _has_others(parent, function):
            return parent
        if isinstance(parent, loop.GuardOp) and not _is_uniform(parent.conditions.data, parent.indices, function, size):
            return parent
        if isinstance(parent, loop.ForOp) and not _is_uniform(parent.bound.data, parent.bound_operands, function, size):
            return parent
    return None


def _has_others(role: kernel.Team, function: kernel.FuncOp) -> bool:
    """Whether another role has barriers of the cluster, too."""
    orders = (order_of(op) for other in function.roles if other is not role for op in other.walk())
    return any(isinstance(order, Meet) and order.is_cluster for order in orders)


def _is_uniform(map: AffineMap, operands: Sequence[SSAValue], function: kernel.FuncOp, size: int) -> bool:
    """Whether a map's values are the same for all threads of `size` CTAs that follow each other.

    They depend on block id, loops and uniform results.
    """
    forms = forms_of(map, operands)
    if any(_varies_in_cluster(form, function, size) for form in forms):
        return False
    return all(_is_uniform_root(root, function, size) for form in forms for root in form.roots())


def _varies_in_cluster(form: Linear, function: kernel.FuncOp, size: int) -> bool:
    """Whether a form depends on which of `size` CTAs that follow each other it is."""
    if size == 1 or not form.depends_on(function.block_id):
        return False
    cluster, rank = stand_in(function.num_blocks // size), stand_in(size)
    return form.substitute(function.block_id, Linear(((cluster, size), (rank, 1)))).depends_on(rank)


def _is_uniform_root(root: SSAValue, function: kernel.FuncOp, size: int) -> bool:
    if root is function.thread_id or not isinstance(root, BlockArgument):
        return isinstance(root.owner, Operation) and root.owner.has_trait(GivesUniform)
    owner = root.block.parent_op()
    return owner is function or (
        isinstance(owner, loop.ForOp) and _is_uniform(owner.bound.data, owner.bound_operands, function, size)
    )
