"""Copies of boxes as CUDA C: `cp.async.bulk.tensor` of the PTX ISA, whose coordinates start with the last dimension.

A tensor map is a parameter of the kernel, by value: its 128 bytes lie in constant memory, where no fence is needed.
"""

from __future__ import annotations

from deplodock.codegen import mbarrier
from deplodock.codegen.indices import forms, offset
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.kernel.sync import FenceProxyAsyncOp
from deplodock.dialects.kernel.tma import MAX_RANK, TmaLoadOp

PARAMETER = "const __grid_constant__ tensor_map"
"""The C type of a tensor map, as a parameter."""

TYPE = """\
struct alignas(64) tensor_map {
  unsigned long long words[16];
};
"""
"""The bytes of a CUtensorMap of the CUDA driver API."""


def _load(rank: int) -> str:
    parameters = ", ".join(f"int c{dim}" for dim in range(rank))
    coordinates = ", ".join(f"%{dim + 3}" for dim in range(rank))
    operands = ", ".join(f'"r"(c{dim})' for dim in range(rank))
    return f"""\
__device__ __forceinline__ void tma_load_{rank}(void* to, const void* map, {parameters}, unsigned long long* barrier) {{
  const unsigned at = (unsigned)__cvta_generic_to_shared(to), signal = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile(
      "cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {{{coordinates}}}], [%2];" ::"r"(at), "l"(map), "r"(signal), {operands} : "memory");
}}
"""


_FENCE = """\
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
"""

HELPERS = {"fence_proxy_async": _FENCE, **{f"tma_load_{rank}": _load(rank) for rank in range(1, MAX_RANK + 1)}}
"""The device functions that copy boxes and fence them, by name, in the order they are printed."""


def _fence(to: KernelWriter, op: FenceProxyAsyncOp) -> None:
    to.line("fence_proxy_async();")


def _copy(to: KernelWriter, op: TmaLoadOp) -> None:
    subscripts = [to.indices.text(form) for form in forms(op.source_map.data, op.source_indices)]
    start = offset(op.destination, forms(op.destination_map.data, op.destination_indices))
    destination = f"{to.names[op.destination]}[{to.indices.text(start)}]"
    barrier = mbarrier.address(to, op.barrier, op.slot.data, op.slot_indices)
    coordinates = ", ".join(reversed(subscripts))
    to.line(f"tma_load_{len(subscripts)}(&{destination}, &{to.names[op.map]}, {coordinates}, {barrier});")


TEXTS: Texts = {FenceProxyAsyncOp: _fence, TmaLoadOp: _copy}
"""How copies of boxes and their fences are written."""
