// RUN: deplodock-opt %s -p verify-barriers --split-input-file | filecheck %s
// RUN: sed '/kernel.barrier/d' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-barriers 2>&1 | filecheck %s --check-prefix=DELETED
// RUN: xdsl-opt %s -p verify-barriers -t cuda | filecheck %s --check-prefix=CUDA

// DELETED: error: verify-barriers: @reversed: {{.*:[0-9]+:[0-9]+}}: %s is written by loop.store and then read by loop.load with no kernel.barrier between them; add one
// CUDA: reversed(
// CUDA: __syncthreads();

// A kernel whose barriers order its accesses passes unchanged.
// CHECK-LABEL: kernel.func @reversed
// CHECK:         kernel.barrier
kernel.func @reversed(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %v = loop.load %x[%thread] : memref<64xf32>
  loop.store %v, %s[%thread] : memref<64xf32, #tile.memory<shared>>
  kernel.barrier
  %w = loop.load %s[-%thread + 63] : memref<64xf32, #tile.memory<shared>>
  loop.store %w, %out[%thread] : memref<64xf32>
}
