"""place-barriers: put a barrier where a thread's access of shared memory must be ordered with another thread's.

    loop.store %v, %part[%thread] : ..            loop.store %v, %part[%thread] : ..
    %w = loop.load %part[%k] : ..           ->    kernel.barrier
                                                  %w = loop.load %part[%k] : ..

A barrier stands as late as it can at the nesting level that both accesses share. All threads must reach it, so that
level cannot be in a guard or loop that they do not run alike. Where copies of boxes use what threads wrote, or barriers
that they initialised, a `kernel.fence_proxy_async` follows that, and the unrolled loops around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.access.shared_accesses import Hazard, MissingFence, Unfinished
from deplodock.analysis.order.facts import KernelFacts
from deplodock.analysis.order.hazards import first_hazard
from deplodock.analysis.order.phases import PhaseFault
from deplodock.analysis.order.uniformity import divergent
from deplodock.dialects import kernel, loop
from deplodock.dialects.kernel.order import order_of
from deplodock.passes import remarks


@dataclass(frozen=True)
class PlaceBarriersPass(ModulePass):
    """Put barriers where accesses of shared memory by different threads must be ordered."""

    name = "place-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            place_barriers(function)


def place_barriers(function: kernel.FuncOp) -> None:
    """Place barriers until no hazard is left, and take back those that later ones make redundant.

    Raises DiagnosticException where not all threads would reach one, where a copy in flight is touched or a wait wrong.
    """
    name = function.sym_name.data
    facts = KernelFacts(function)
    placed: list[kernel.BarrierOp] = []
    while (hazard := first_hazard(facts)) is not None:
        if isinstance(hazard, PhaseFault | Unfinished) or (isinstance(hazard, MissingFence) and hazard.is_of_product):
            raise DiagnosticException(f"place-barriers: @{name}: {hazard}")
        if isinstance(hazard, MissingFence):
            fence = kernel.FenceProxyAsyncOp()
            Rewriter.insert_op(fence, InsertPoint.after(_written(hazard)))
            facts.add(fence)
            continue
        if hazard.is_in_flight:
            raise DiagnosticException(f"place-barriers: @{name}: {hazard}; a wait for it must come first")
        anchor = _anchor(hazard)
        if isinstance(anchor, kernel.Team):
            raise DiagnosticException(f"place-barriers: @{name}: {hazard} in another role; only a phase can order them")
        if (around := divergent(anchor, function)) is not None:
            raise DiagnosticException(
                f"place-barriers: @{name}: {hazard} inside one {around.name} that not all threads "
                "run alike; split it so that a kernel.barrier can stand between them"
            )
        placed.append(kernel.BarrierOp())
        Rewriter.insert_op(placed[-1], InsertPoint.before(anchor))
        facts.add(placed[-1])
    if not placed:
        remarks.skip("place-barriers", name, "no shared memory passes between threads")
    for barrier in placed[:-1]:
        _remove_if_redundant(barrier, facts)


def _remove_if_redundant(barrier: kernel.BarrierOp, facts: KernelFacts) -> None:
    block, following = barrier.parent, barrier.next_op
    assert block is not None
    assert following is not None
    barrier.detach()
    if first_hazard(facts) is not None:
        block.insert_op_before(barrier, following)


def _written(hazard: MissingFence) -> Operation:
    """The write, or the outermost unrolled loop around it that hands nothing over and does not hold what uses it."""
    op = hazard.first.since
    while isinstance(around := op.parent_op(), loop.ForOp) and around.unroll:
        if around.is_ancestor(hazard.second.op) or any(order_of(inner) is not None for inner in around.walk()):
            break
        op = around
    return op


def _anchor(hazard: Hazard) -> Operation:
    """The operation around the second access in the innermost block that also holds the first."""
    op: Operation | None = hazard.second.op
    while op is not None:
        block = op.parent_block()
        if block is not None and (parent := block.parent_op()) is not None and parent.is_ancestor(hazard.first.since):
            return op
        op = op.parent_op()
    raise AssertionError("the accesses are not of one kernel")
