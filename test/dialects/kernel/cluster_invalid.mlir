// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a cluster has 1 or more CTAs and divides the grid of 32, got 0
kernel.func @k() blocks(%block = 32) threads(%thread = 64) cluster 0 {}

// -----

// CHECK: a cluster has 1 or more CTAs and divides the grid of 30, got 4
kernel.func @k() blocks(%block = 30) threads(%thread = 64) cluster 4 {}

// -----

// CHECK: CTAs of a cluster share no more than shared memory, got memref<64xf32>
kernel.func @k(%x: memref<64xf32>) blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %v = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.cluster_move 1 %x[%thread] of 0 to %v[0] : memref<64xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: needs 1 subscripts, got 2
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %part = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %v = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.cluster_move 1 %part[0, %thread] of 0 to %v[0] : memref<64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: elements of other CTAs go to registers, got memref<64xf32, #tile.memory<shared>>
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %part = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  kernel.cluster_move 1 %part[%thread] of 0 to %part[%thread] : memref<64xf32, #tile.memory<shared>> to memref<64xf32, #tile.memory<shared>>
}

// -----

// CHECK: a move keeps the element type, got memref<64xf32, #tile.memory<shared>> and memref<4xi32, #tile.memory<register>>
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %part = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %v = kernel.alloc : memref<4xi32, #tile.memory<register>>
  kernel.cluster_move 1 %part[%thread] of 0 to %v[0] : memref<64xf32, #tile.memory<shared>> to memref<4xi32, #tile.memory<register>>
}

// -----

// CHECK: the last dimension of memref<2xf32, #tile.memory<register>> has no 4 elements to move
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %part = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %v = kernel.alloc : memref<2xf32, #tile.memory<register>>
  kernel.cluster_move 4 %part[%thread] of 0 to %v[0] : memref<64xf32, #tile.memory<shared>> to memref<2xf32, #tile.memory<register>>
}
