"""prefetch-factors: let the threads of a warpgroup load what they hold for the next step while this one multiplies.

    loop.for %k = 0 to 8 {                          %in = kernel.alloc : ..
      kernel.wait_phase %full[%k mod 4], ..         %parts = kernel.alloc : ..
      %in = kernel.alloc : ..                       %first = loop.index [0]
      .. %xs[%k mod 4, ..] to %in[..]               kernel.wait_phase %full[%first mod 4], ..
      %parts = kernel.alloc : ..                    .. %xs[%first mod 4, ..] to %in[..]
      .. %in[..] to %parts[..]                      .. %in[..] to %parts[..]
      kernel.wgmma_fence                            loop.for %k = 0 to 7 {
      kernel.wgmma m64n64k8 %parts[..] * ..           kernel.wgmma_fence
      kernel.wgmma_commit                    ->       kernel.wgmma m64n64k8 %parts[..] * ..
      kernel.wgmma_wait 0                             kernel.wgmma_commit
      kernel.arrive warp %empty[%k mod 4]             %later = loop.index [%k + 1]
      ..                                              kernel.wait_phase %full[%later mod 4], ..
    }                                                 .. %xs[%later mod 4, ..] to %in[..]
                                                      kernel.wgmma_wait 0
                                                      kernel.arrive warp %empty[%k mod 4]
                                                      ..
                                                      .. %in[..] to %parts[..]
                                                    }
                                                    %last = loop.index [7]
                                                    kernel.wgmma_fence ..

Products read what is computed of the loads, not what is loaded, or ptxas 13.0 would have each product wait for the one
before (its remark C7513); and so it has them where the parts are computed in front of them (C7519). On an H200
1024x1024x1024 of TF32 whose weight lies along the output takes 12.2 us in place of 14.6, and 128x3584x18944 in parts of
FP32 155 in place of 162. Where registers have no room for what is loaded besides all else, steps stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.resources import register_limit
from deplodock.analysis.machine.targets import target_of
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory, memory_of
from deplodock.dialects.interfaces import Access, AllocatesResult, Landing, accesses_of
from deplodock.dialects.kernel.order import FenceProducts, WaitGroups, WaitPhase, order_of
from deplodock.passes.kernel.accumulators import registers_of
from deplodock.passes.kernel.builder import run_less, step_at

OTHER_REGISTERS = 40
"""Registers that a consumer has besides its buffers: addresses, phases, and what it computes (sm_90a, nvcc 13.0)."""


@dataclass(frozen=True)
class PrefetchFactorsPass(ModulePass):
    """Let threads load what they hold for the next step of products while this one multiplies."""

    name = "prefetch-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            limit = register_limit(target_of(op), function.num_threads, function.ctas_per_sm)
            for role in function.roles:
                near = [value for op in role.walk() if _is_buffer(op) for value in op.results]
                if sum(map(registers_of, near)) + OTHER_REGISTERS <= (role.num_registers or limit):
                    for steps in [each for each in role.walk() if isinstance(each, loop.ForOp)]:
                        if (found := _Steps.of(steps)) is not None:
                            found.rewrite()


@dataclass(frozen=True)
class _Steps:
    """A loop whose steps load what threads hold, compute parts of it, and multiply these once."""

    around: loop.ForOp
    buffers: Sequence[Operation]
    """The allocations of what is loaded and computed."""
    loading: Sequence[Operation]
    """The wait for a slot, and the loads of it."""
    computing: Sequence[Operation]
    """What computes parts of what is loaded."""
    wait: Operation
    """The wait for the products, before which the next step may load."""

    @staticmethod
    def of(steps: loop.ForOp) -> _Steps | None:
        """None for a loop that does something else before it multiplies, multiplies what it loads, or runs once."""
        ops = list(steps.body.block.ops)
        before = list(takewhile(lambda op: not isinstance(order_of(op), FenceProducts), ops))
        waits = [op for op in ops if order_of(op) == WaitGroups(0, Landing.PRODUCT)]
        phases = [op for op in before if isinstance(order_of(op), WaitPhase)]
        loading = phases[:1] + [op for op in before if _touches(op, Memory.SHARED)]
        computing = [op for op in before if _touches(op, Memory.REGISTER)]
        filled = set(_written([*loading, *computing]))
        buffers = [op for op in before if filled & {*op.results}]
        is_ahead = phases[:1] == before[:1] and filled == {value for op in buffers for value in op.results}
        is_known = {*before} == {*loading, *computing, *phases, *(op for op in before if _is_buffer(op))}
        is_apart = not {*_written(loading)} & {*_multiplied(steps)}
        if len(waits) != 1 or not loading[1:] or (steps.trips or 0) < 2 or not (is_ahead and is_known and is_apart):
            return None
        return _Steps(steps, buffers, loading, computing, waits[0])

    def rewrite(self) -> None:
        """Load for the first step before the loop and for the others a step ahead; the last step is behind it."""
        steps, trips = self.around, self.around.trips
        assert trips is not None
        moved = [*self.loading, *self.computing]
        first, last = step_at(Linear(), "first"), step_at(Linear(constant=trips - 1), "last")
        later = step_at(Linear.of(steps.iv) + 1, "later")
        for op in self.buffers:
            op.detach()
        head = [op.clone({steps.iv: first.result}) for op in moved]
        behind: dict[SSAValue, SSAValue] = {steps.iv: last.result}
        tail = [op.clone(behind) for op in steps.body.block.ops if op not in moved]
        Rewriter.insert_op([*self.buffers, first, *head], InsertPoint.before(steps))
        Rewriter.insert_op([last, *tail], InsertPoint.after(steps))
        for op in moved:
            op.detach()
        steps.iv.replace_uses_with_if(later.result, lambda use: any(op.is_ancestor(use.operation) for op in moved))
        Rewriter.insert_op([later, *self.loading], InsertPoint.before(self.wait))
        Rewriter.insert_op(self.computing, InsertPoint.at_end(steps.body.block))
        run_less(steps)


def _touches(op: Operation, memory: Memory) -> bool:
    """Whether an operation is a nest of unrolled loops that fills registers of what lies in a memory."""
    touched = _accesses(op)
    is_nest = isinstance(op, loop.ForOp) and bool(op.unroll) and bool(touched)
    return is_nest and all(access.memory is (Memory.REGISTER if access.writes else memory) for access in touched)


def _written(ops: Sequence[Operation]) -> list[SSAValue]:
    return [access.buffer for op in ops for access in _accesses(op) if access.writes]


def _multiplied(steps: loop.ForOp) -> list[SSAValue]:
    """What the products of a loop read."""
    products = [access for access in _accesses(steps) if access.lands is Landing.PRODUCT]
    return [access.buffer for access in products if not access.writes]


def _accesses(op: Operation) -> list[Access]:
    """The accesses of an operation and of what it holds."""
    return [access for inner in op.walk() for access in accesses_of(inner)]


def _is_buffer(op: Operation) -> bool:
    """Whether an operation allocates registers."""
    return op.has_trait(AllocatesResult) and all(memory_of(value) is Memory.REGISTER for value in op.results)
