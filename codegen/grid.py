"""Tickets as CUDA C: `atomicInc`, which starts again at 0, and a barrier that tells all threads what one got.

`atomicInc` and `__syncthreads_or`: CUDA C++ Programming Guide, "Atomic Functions" and "Synchronization Functions".
"""

from __future__ import annotations

from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.kernel.grid import FenceOp, TicketOp
from deplodock.errors import UnsupportedError

HELPERS = {
    "take_ticket": """\
__device__ __forceinline__ int take_ticket(int* counter, unsigned ctas) {
  __syncthreads();
  const bool is_last = threadIdx.x == 0 && atomicInc(reinterpret_cast<unsigned*>(counter), ctas - 1) == ctas - 1;
  return __syncthreads_or(is_last) != 0;
}
""",
}
"""The device functions of tickets, by name."""


def _fence(to: KernelWriter, op: FenceOp) -> None:
    to.line("__threadfence();")


def _ticket(to: KernelWriter, op: TicketOp) -> None:
    if to.team.role_name is not None:
        raise UnsupportedError("a kernel.ticket in a role has no CUDA form; all threads of the CTA take it")
    counter = to.element(op.counter, op.map.data, op.indices)
    to.define(op.result, f"take_ticket(&{counter}, {op.ctas.value.data})")


TEXTS: Texts = {FenceOp: _fence, TicketOp: _ticket}
"""How tickets and the fences around them are written."""
