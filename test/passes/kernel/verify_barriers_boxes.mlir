// The order of boxes is not proven, so a kernel with one is refused.
// RUN: not deplodock-opt %s -p verify-barriers 2>&1 | filecheck %s

// CHECK: error: verify-barriers: @k: {{.*:[0-9]+:[0-9]+}}: the order of a kernel.tma_load is not proven; simulate the kernel
kernel.func @k(%w: !kernel.tensor_map<memref<64x32xf32>, box [32, 32]>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.barrier
  loop.guard where (%thread < 1) {
    kernel.arrive %full[0] expect 4096
    kernel.tma_load %w[0, 0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x32xf32>, box [32, 32]> to memref<32x32xf32, #tile.memory<shared>>
  }
  kernel.wait_phase %full[0], 0
}
