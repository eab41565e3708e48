"""What orders CTAs and launches as CUDA C: fences, tickets, and the wait of a launch that starts early.

A ticket is `atomicInc`, which starts again at 0, and a barrier that tells all threads what one got. `atomicInc` and
`__syncthreads_or`: CUDA C++ Programming Guide, "Atomic Functions" and "Synchronization Functions". In a role the
barrier is its own: `bar.red`, PTX ISA; `griddepcontrol`: ibid.
"""

from __future__ import annotations

from deplodock.codegen.indices import forms
from deplodock.codegen.roles import role_barrier
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.kernel import RoleOp
from deplodock.dialects.kernel.grid import AwaitLaunchesOp, FenceOp, TicketOp

HELPERS = {
    "await_launches": """\
__device__ __forceinline__ void await_launches() {
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
}
""",
    "take_ticket": """\
__device__ __forceinline__ int take_ticket(int* counter, unsigned ctas) {
  __syncthreads();
  const bool is_last = threadIdx.x == 0 && atomicInc(reinterpret_cast<unsigned*>(counter), ctas - 1) == ctas - 1;
  return __syncthreads_or(is_last) != 0;
}
""",
    "take_role_ticket": """\
__device__ __forceinline__ int take_role_ticket(int* counter, unsigned ctas, int thread, int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
  const int is_last = thread == 0 && atomicInc(reinterpret_cast<unsigned*>(counter), ctas - 1) == ctas - 1;
  int any;
  asm volatile(
      "{ .reg .pred mine;\\n"
      ".reg .pred some;\\n"
      "setp.ne.s32 mine, %1, 0;\\n"
      "bar.red.or.pred some, %2, %3, mine;\\n"
      "selp.s32 %0, 1, 0, some; }" : "=r"(any) : "r"(is_last), "r"(barrier), "r"(threads) : "memory");
  return any;
}
""",
}
"""The device functions of tickets and early launches, by name."""


def _await(to: KernelWriter, op: AwaitLaunchesOp) -> None:
    to.line("await_launches();")


def _fence(to: KernelWriter, op: FenceOp) -> None:
    to.line("__threadfence();")


def _ticket(to: KernelWriter, op: TicketOp) -> None:
    counter = to.element(op.counter, op.map.data, op.indices)
    (ctas,) = (to.indices.text(form) for form in forms(op.ctas.data, op.cta_indices))
    if isinstance(to.team, RoleOp):
        who = f"{to.thread}, {role_barrier(to.team)}, {to.team.num_threads}"
        to.define(op.result, f"take_role_ticket(&{counter}, {ctas}, {who})")
    else:
        to.define(op.result, f"take_ticket(&{counter}, {ctas})")


TEXTS: Texts = {AwaitLaunchesOp: _await, FenceOp: _fence, TicketOp: _ticket}
"""How they are written."""
