"""Barriers with phases as CUDA C: `mbarrier` of the PTX ISA.

`try_wait`, which may suspend the thread for a while, exists from sm_90; before, a thread tests again and again.
"""

from __future__ import annotations

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
