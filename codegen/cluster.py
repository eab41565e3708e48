"""Clusters as CUDA C: `barrier.cluster` and `mapa` of the PTX ISA (sm_90)."""

from __future__ import annotations

from deplodock.codegen.copies import check_wide, vector_of
from deplodock.codegen.indices import forms
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.kernel.cluster import ClusterBarrierOp, ClusterMoveOp

HELPERS = {
    "cluster_barrier": """\
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
""",
    "cluster_address": """\
template <typename T>
__device__ __forceinline__ const T* cluster_address(const T* own, unsigned rank) {
  const T* address;
  asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(own), "r"(rank));
  return address;
}
""",
}
"""The device functions of clusters, by name."""


def _barrier(to: KernelWriter, op: ClusterBarrierOp) -> None:
    to.line("cluster_barrier();")


def _move(to: KernelWriter, op: ClusterMoveOp) -> None:
    (rank,) = forms(op.rank.data, op.rank_indices)
    own = to.element(op.source, op.source_map.data, op.source_indices)
    address = f"cluster_address(&{own}, {to.indices.text(rank)})"
    destination = to.element(op.destination, op.destination_map.data, op.destination_indices)
    vector = vector_of(op.source, op.elements)
    if vector is not None:
        check_wide("source", op.elements, op.source, op.source_map.data, op.source_indices)
        check_wide("destination", op.elements, op.destination, op.destination_map.data, op.destination_indices)
        address = f"reinterpret_cast<const {vector}*>({address})"
        destination = f"*reinterpret_cast<{vector}*>(&{destination})"
    to.line(f"{destination} = *{address};")


TEXTS: Texts = {ClusterBarrierOp: _barrier, ClusterMoveOp: _move}
"""How the operations of clusters are written."""
