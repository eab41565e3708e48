"""Clusters as CUDA C: `barrier.cluster` and `mapa` of the PTX ISA (sm_90)."""

from __future__ import annotations

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
