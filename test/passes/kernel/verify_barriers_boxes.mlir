// A box lands with the phase that its bytes complete; each mistake is named with its place.
// RUN: deplodock-opt %s -p verify-barriers | filecheck %s --check-prefix=RIGHT
// RUN: sed '/fence_proxy/d' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-barriers 2>&1 | filecheck %s --check-prefix=FENCE
// RUN: sed 's/expect 4096/expect 8192/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-barriers 2>&1 | filecheck %s --check-prefix=BYTES
// RUN: sed 's/full\[0\], 0/full[0], 1/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-barriers 2>&1 | filecheck %s --check-prefix=PARITY
// RUN: sed 's/ws\[0, 0\] signal/ws[0, 4] signal/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-barriers 2>&1 | filecheck %s --check-prefix=PLACE
// RUN: sed 's/thread < 1/thread < 4/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-barriers 2>&1 | filecheck %s --check-prefix=ISSUE

// RIGHT: kernel.func @k
// FENCE: error: verify-barriers: @k: {{.*:[0-9]+:[0-9]+}}: missing proxy fence: %full is written by kernel.mbarrier and then used by kernel.tma_load with no kernel.fence_proxy_async of the writing thread before it hands it over
// BYTES: error: verify-barriers: @k: {{.*:[0-9]+:[0-9]+}}: kernel.wait_phase waits forever, wrong byte count: phase 0 of its barrier expects 4096 bytes more than come; a box counts as a whole
// PARITY: error: verify-barriers: @k: {{.*:[0-9]+:[0-9]+}}: kernel.wait_phase waits forever for phase 1 of its barrier, which never completes: 0 of 1 arrivals come before; an arrival is missing, or the parity is wrong
// PLACE: error: verify-barriers: @k: {{.*:[0-9]+:[0-9]+}}: misaligned slot: kernel.tma_load copies a box to %ws that is not known to start at a multiple of 128 bytes; make the slots of the buffer as large
// ISSUE: error: verify-barriers: @k: {{.*:[0-9]+:[0-9]+}}: kernel.tma_load is issued by 4 threads; guard it with `%thread < 1`
kernel.func @k(%w: !kernel.tensor_map<memref<64x32xf32>, box [32, 32]>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.fence_proxy_async
  kernel.barrier
  loop.guard where (%thread < 1) {
    kernel.arrive %full[0] expect 4096
    kernel.tma_load %w[0, 0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x32xf32>, box [32, 32]> to memref<32x32xf32, #tile.memory<shared>>
  }
  kernel.wait_phase %full[0], 0
}
