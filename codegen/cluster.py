"""Clusters as CUDA C: `barrier.cluster` and `mapa` of the PTX ISA (sm_90)."""

from __future__ import annotations

from deplodock.codegen.indices import forms
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.kernel.cluster import ClusterBarrierOp, ClusterLoadOp

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


def _load(to: KernelWriter, op: ClusterLoadOp) -> None:
    (rank,) = forms(op.rank.data, op.rank_indices)
    own = to.element(op.source, op.map.data, op.indices)
    to.define(op.result, f"*cluster_address(&{own}, {to.indices.text(rank)})")


TEXTS: Texts = {ClusterBarrierOp: _barrier, ClusterLoadOp: _load}
"""How the operations of clusters are written."""
