"""verify-barriers: check that barriers order all accesses of shared memory, and that all threads reach each barrier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.barriers import first_hazard
from deplodock.analysis.linear import fold_map
from deplodock.dialects import kernel, loop


@dataclass(frozen=True)
class VerifyBarriersPass(ModulePass):
    """Check that barriers order the accesses of shared memory and are reached by all threads."""

    name = "verify-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, kernel.FuncOp):
                verify_barriers(function)


def verify_barriers(function: kernel.FuncOp) -> None:
    """Raises DiagnosticException at the first barrier or shuffle in divergent code, and at the first hazard."""
    name = function.sym_name.data
    for op in function.walk():
        if isinstance(op, kernel.BarrierOp | kernel.ShuffleXorOp) and (around := _divergent(op, function)) is not None:
            raise DiagnosticException(
                f"verify-barriers: @{name}: {op.name} stands in a {around.name} that not all threads run alike; "
                "move it out"
            )
    if (hazard := first_hazard(function)) is not None:
        raise DiagnosticException(f"verify-barriers: @{name}: {hazard} with no kernel.barrier between them; add one")


def _divergent(op: Operation, function: kernel.FuncOp) -> Operation | None:
    """The guard or loop around an operation whose condition or bound may differ between threads, or None."""
    parent = op.parent_op()
    while parent is not None and parent is not function:
        if isinstance(parent, loop.GuardOp) and not _is_uniform(parent.conditions.data, parent.indices, function):
            return parent
        if isinstance(parent, loop.ForOp) and not _is_uniform(parent.bound.data, parent.bound_operands, function):
            return parent
        parent = parent.parent_op()
    return None


def _is_uniform(map: AffineMap, operands: Sequence[SSAValue], function: kernel.FuncOp) -> bool:
    """Whether a map's values are the same for all threads of a CTA: they depend on the block id and loops only."""
    return all(_is_uniform_root(root, function) for form in fold_map(map, operands) for root in form.roots())


def _is_uniform_root(root: SSAValue, function: kernel.FuncOp) -> bool:
    if root is function.thread_id or not isinstance(root, BlockArgument):
        return False
    owner = root.block.parent_op()
    return owner is function or (
        isinstance(owner, loop.ForOp) and _is_uniform(owner.bound.data, owner.bound_operands, function)
    )
