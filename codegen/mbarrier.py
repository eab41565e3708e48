"""Barriers with phases as CUDA C: `mbarrier` of the PTX ISA.

`try_wait`, which may suspend the thread for a while, exists from sm_90; before, a thread tests again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.operations import ancestors
from deplodock.codegen.indices import forms
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects import loop
from deplodock.dialects.kernel import FuncOp
from deplodock.dialects.kernel.mbarrier import ArriveCopiesOp, ArriveOp, MbarrierOp, WaitPhaseOp

_ADDRESS = "const unsigned address = (unsigned)__cvta_generic_to_shared(barrier);"

HELPERS = {
    "mbarrier_init": """\
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int count, unsigned arrivals) {
  for (int i = 0; i < count; ++i) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(barrier + i);
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
}
""",
    "mbarrier_inval": """\
__device__ __forceinline__ void mbarrier_inval(unsigned long long* barrier, int count) {
  for (int i = 0; i < count; ++i) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(barrier + i);
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(address) : "memory");
  }
}
""",
    "mbarrier_arrive": f"""\
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier) {{
  {_ADDRESS}
  asm volatile("{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }}" ::"r"(address) : "memory");
}}
""",
    "mbarrier_arrive_warp": f"""\
__device__ __forceinline__ void mbarrier_arrive_warp(unsigned long long* barrier) {{
  {_ADDRESS}
  __syncwarp();
  if (threadIdx.x % 32 == 0)
    asm volatile("{{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }}" ::"r"(address) : "memory");
}}
""",
    "mbarrier_arrive_expect": f"""\
__device__ __forceinline__ void mbarrier_arrive_expect(unsigned long long* barrier, unsigned bytes) {{
  {_ADDRESS}
  asm volatile("{{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }}" ::"r"(address), "r"(bytes)
               : "memory");
}}
""",
    "mbarrier_arrive_copies": f"""\
__device__ __forceinline__ void mbarrier_arrive_copies(unsigned long long* barrier) {{
  {_ADDRESS}
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address) : "memory");
}}
""",
    "mbarrier_wait": f"""\
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity) {{
  {_ADDRESS}
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{{ .reg .pred done;\\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\\n"
      "@!done bra again; }}" ::"r"(address), "r"(parity) : "memory");
#else
  asm volatile(
      "{{ .reg .pred done;\\n"
      "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\\n"
      "@!done bra again; }}" ::"r"(address), "r"(parity) : "memory");
#endif
}}
""",
}
"""The device functions of barriers with phases, by name, in the order they are printed."""


def address(to: KernelWriter, barrier: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> str:
    """The address of the barrier whose slot a map gives."""
    (slot,) = forms(map, indices)
    return f"&{to.names[barrier]}[{to.indices.text(slot)}]"


def declare(to: KernelWriter, function: FuncOp) -> None:
    """Declare all barriers; those of a loop are initialised at once, as the loop invalidates them each time."""
    for op in function.body.walk():
        if not isinstance(op, MbarrierOp):
            continue
        name = to.names.define(op.result, "barrier")
        to.line(f"__shared__ __align__(8) unsigned long long {name}[{op.slots.value.data}];")
        if _is_repeated(op):
            to.line(f"if ({to.thread} == 0) {_init(to, op)};")


def _initialise(to: KernelWriter, op: MbarrierOp) -> None:
    if not _is_repeated(op):
        to.line(f"if ({to.thread} == 0) {_init(to, op)};")
        return
    with to.braces(f"if ({to.thread} == 0)"):
        to.line(f"mbarrier_inval({to.names[op.result]}, {op.slots.value.data});")
        to.line(f"{_init(to, op)};")


def _init(to: KernelWriter, op: MbarrierOp) -> str:
    return f"mbarrier_init({to.names[op.result]}, {op.slots.value.data}, {op.arrivals.value.data})"


def _is_repeated(op: Operation) -> bool:
    """Whether an operation stands in a loop."""
    return any(isinstance(parent, loop.ForOp) for parent in ancestors(op))


def _arrive(to: KernelWriter, op: ArriveOp) -> None:
    barrier = _of(to, op)
    if op.expect is not None:
        to.line(f"mbarrier_arrive_expect({barrier}, {op.expect.value.data});")
    else:
        to.line(f"{'mbarrier_arrive_warp' if op.is_warp else 'mbarrier_arrive'}({barrier});")


def _arrive_copies(to: KernelWriter, op: ArriveCopiesOp) -> None:
    to.line(f"mbarrier_arrive_copies({_of(to, op)});")


def _wait(to: KernelWriter, op: WaitPhaseOp) -> None:
    (parity,) = forms(op.parity.data, op.parity_indices)
    to.line(f"mbarrier_wait({_of(to, op)}, {to.indices.text(parity % 2)});")


def _of(to: KernelWriter, op: ArriveOp | ArriveCopiesOp | WaitPhaseOp) -> str:
    return address(to, op.barrier, op.slot.data, op.slot_indices)


TEXTS: Texts = {MbarrierOp: _initialise, ArriveOp: _arrive, ArriveCopiesOp: _arrive_copies, WaitPhaseOp: _wait}
"""How barriers with phases are written, once they are declared."""
