// RUN: deplodock-opt %s -t cuda | filecheck %s

// One helper for each form that is used, once.
// CHECK-NOT:   copy_async_8(
// CHECK:       __device__ __forceinline__ void copy_async_4(void* to, const void* from) {
// CHECK-NEXT:    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
// CHECK-NEXT:    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
// CHECK-NEXT:  }
// CHECK:       __device__ __forceinline__ void copy_async_16(void* to, const void* from) {
// CHECK:         asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
// CHECK:       __device__ __forceinline__ void copy_async_8_where(void* to, const void* from, bool inside) {
// CHECK-NEXT:    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
// CHECK-NEXT:    const int read = inside ? 8 : 0;
// CHECK-NEXT:    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(read) : "memory");
// CHECK-LABEL: extern "C" __global__ void __launch_bounds__(32) k(
// CHECK:         copy_async_4(&s[t], &x[t]);
// CHECK-NEXT:    copy_async_4(&s[t + 32], &x[t + 32]);
// CHECK-NEXT:    asm volatile("cp.async.commit_group;" ::: "memory");
// CHECK-NEXT:    copy_async_16(&s[t * 4 + 64], &x[t * 4]);
// CHECK-NEXT:    copy_async_8_where(&d[t], &y[t], t < 20);
// CHECK-NEXT:    asm volatile("cp.async.commit_group;" ::: "memory");
// CHECK-NEXT:    asm volatile("cp.async.wait_group 1;" ::: "memory");
// CHECK-NEXT:    asm volatile("cp.async.wait_group 0;" ::: "memory");
kernel.func @k(%x: memref<128xf32>, %y: memref<20xf64>) blocks(%b = 1) threads(%t = 32) {
  %s = kernel.alloc : memref<192xf32, #tile.memory<shared>>
  %d = kernel.alloc : memref<32xf64, #tile.memory<shared>>
  kernel.move 1 async %x[%t] to %s[%t] : memref<128xf32> to memref<192xf32, #tile.memory<shared>>
  kernel.move 1 async %x[%t + 32] to %s[%t + 32] : memref<128xf32> to memref<192xf32, #tile.memory<shared>>
  kernel.commit_group
  kernel.move 4 async %x[%t * 4] to %s[%t * 4 + 64] : memref<128xf32> to memref<192xf32, #tile.memory<shared>>
  kernel.move 1 async %y[%t] to %d[%t] where (%t < 20) : memref<20xf64> to memref<32xf64, #tile.memory<shared>>
  kernel.commit_group
  kernel.wait_group 1
  kernel.wait_group 0
}
