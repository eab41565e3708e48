// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a cluster has 1 or more CTAs and divides the grid of 32, got 0
kernel.func @k() blocks(%block = 32) threads(%thread = 64) cluster 0 {}

// -----

// CHECK: a cluster has 1 or more CTAs and divides the grid of 30, got 4
kernel.func @k() blocks(%block = 30) threads(%thread = 64) cluster 4 {}

// -----

// CHECK: CTAs of a cluster share no more than shared memory, got memref<64xf32>
kernel.func @k(%x: memref<64xf32>) blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %v = kernel.cluster_load %x[%thread] of 0 : memref<64xf32>
}

// -----

// CHECK: needs 1 subscripts, got 2
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %part = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %v = kernel.cluster_load %part[0, %thread] of 0 : memref<64xf32, #tile.memory<shared>>
}
