// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: counters are i32 in global memory, got memref<8xf32>
func.func @main() {
  %turns = kernel.counters : memref<8xf32>
  func.return
}

// -----

// CHECK: counters are of a static number, got memref<?xi32>
func.func @main() {
  %turns = kernel.counters : memref<?xi32>
  func.return
}

// -----

// CHECK: counters are i32 in global memory, got memref<8xi32, #tile.memory<shared>>
kernel.func @k() blocks(%block = 32) threads(%thread = 64) {
  %turns = kernel.alloc : memref<8xi32, #tile.memory<shared>>
  %last = kernel.ticket %turns[0] of 4 : memref<8xi32, #tile.memory<shared>>
}

// -----

// CHECK: a ticket counts 1 or more CTAs, below 2^31, got 0
kernel.func @k(%turns: memref<8xi32>) blocks(%block = 32) threads(%thread = 64) {
  %last = kernel.ticket %turns[0] of 0 : memref<8xi32>
}

// -----

// CHECK: memref<8xi32> needs 1 subscripts, got 2
kernel.func @k(%turns: memref<8xi32>) blocks(%block = 32) threads(%thread = 64) {
  %last = kernel.ticket %turns[0, 1] of 4 : memref<8xi32>
}

// -----

// CHECK: the number of CTAs must have 1 results, got 2
kernel.func @k(%turns: memref<8xi32>) blocks(%block = 32) threads(%thread = 64) {
  %last = "kernel.ticket"(%turns) <{ctas = affine_map<() -> (4, 4)>, map = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 1, 0, 0>}> : (memref<8xi32>) -> index
}

// -----

// CHECK: loop.guard before it touches memory, which launches before may still write
kernel.func @k(%x: memref<8xf32>) blocks(%block = 32) threads(%thread = 64) {
  loop.guard where (%thread < 8) {
    %v = loop.load %x[%thread] : memref<8xf32>
  }
  kernel.await_launches
}
