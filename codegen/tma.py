"""Copies and stores of boxes as CUDA C: `cp.async.bulk.tensor` of the PTX ISA, whose coordinates start with the last
dimension.

A tensor map is a parameter of the kernel, by value: its 128 bytes lie in constant memory, where no fence is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.codegen import mbarrier
from deplodock.codegen.indices import forms, offset
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.kernel.sync import FenceProxyAsyncOp
from deplodock.dialects.kernel.tma import MAX_RANK, TmaCommitOp, TmaLoadOp, TmaStoreOp, TmaWaitOp

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


def _store(rank: int) -> str:
    parameters = ", ".join(f"int c{dim}" for dim in range(rank))
    coordinates = ", ".join(f"%{dim + 2}" for dim in range(rank))
    operands = ", ".join(f'"r"(c{dim})' for dim in range(rank))
    return f"""\
__device__ __forceinline__ void tma_store_{rank}(const void* map, {parameters}, const void* from) {{
  const unsigned at = (unsigned)__cvta_generic_to_shared(from);
  asm volatile(
      "cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
      " [%0, {{{coordinates}}}], [%1];" ::"l"(map), "r"(at), {operands} : "memory");
}}
"""


_FENCE = """\
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
"""

HELPERS = {
    "fence_proxy_async": _FENCE,
    **{f"tma_load_{rank}": _load(rank) for rank in range(1, MAX_RANK + 1)},
    **{f"tma_store_{rank}": _store(rank) for rank in range(1, MAX_RANK + 1)},
}
"""The device functions that copy boxes and fence them, by name, in the order they are printed."""


def _fence(to: KernelWriter, op: FenceProxyAsyncOp) -> None:
    to.line("fence_proxy_async();")


def _copy(to: KernelWriter, op: TmaLoadOp) -> None:
    coordinates = _coordinates(to, op.source_map.data, op.source_indices)
    destination = _box(to, op.destination, op.destination_map.data, op.destination_indices)
    barrier = mbarrier.address(to, op.barrier, op.slot.data, op.slot_indices)
    rank = len(op.tensor_map.extents)
    to.line(f"tma_load_{rank}({destination}, &{to.names[op.map]}, {coordinates}, {barrier});")


def _write(to: KernelWriter, op: TmaStoreOp) -> None:
    coordinates = _coordinates(to, op.destination_map.data, op.destination_indices)
    source = _box(to, op.source, op.source_map.data, op.source_indices)
    to.line(f"tma_store_{len(op.tensor_map.extents)}(&{to.names[op.map]}, {coordinates}, {source});")


def _coordinates(to: KernelWriter, map: AffineMap, indices: Sequence[SSAValue]) -> str:
    """Where a box starts in the buffer of its map."""
    return ", ".join(reversed([to.indices.text(form) for form in forms(map, indices)]))


def _box(to: KernelWriter, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> str:
    """The address of a box in shared memory."""
    return f"&{to.names[buffer]}[{to.indices.text(offset(buffer, forms(map, indices)))}]"


def _commit(to: KernelWriter, op: TmaCommitOp) -> None:
    to.line('asm volatile("cp.async.bulk.commit_group;" ::: "memory");')


def _wait(to: KernelWriter, op: TmaWaitOp) -> None:
    to.line(f'asm volatile("cp.async.bulk.wait_group.read {op.pending.value.data};" ::: "memory");')


TEXTS: Texts = {FenceProxyAsyncOp: _fence, TmaLoadOp: _copy, TmaStoreOp: _write, TmaCommitOp: _commit, TmaWaitOp: _wait}
"""How copies and stores of boxes, and what orders them, are written."""
