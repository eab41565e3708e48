// Malformed rings and asynchronous copies: each message says what to write.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: ring_invalid.mlir:[[# @LINE + 2]]:3: error: tile.ring: a ring has at least one slot, got 0
func.func @f() {
  %ring = tile.ring 0
  func.return
}

// -----

// CHECK: error: tile.ring: a producer and the readers go on by phases, which only an mbarrier ring has
func.func @f() {
  %ring = tile.ring 2 producer
  func.return
}

// -----

// CHECK: error: tile.alloc: tile.alloc needs #tile.memory<shared>, got memref<3x4xf32, #tile.memory<register>>
func.func @f() {
  %s = tile.alloc : memref<3x4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: error: tile.copy: the first dimension of memref<2x4xf32, #tile.memory<shared>> must be the 3 slots of the ring
func.func @f(%x: memref<8xf32>) {
  %ring = tile.ring 3
  %s = tile.alloc : memref<2x4xf32, #tile.memory<shared>>
  tile.copy %x[d0] to %s at %ring[0] : memref<8xf32> to memref<2x4xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: ring_invalid.mlir:[[# @LINE + 5]]:57
// CHECK: d1 is not one of the coordinates, of which there are 1
func.func @f(%x: memref<8xf32>) {
  %ring = tile.ring 2
  %s = tile.alloc : memref<2x4xf32, #tile.memory<shared>>
  tile.copy %x[d1] to %s at %ring[0] : memref<8xf32> to memref<2x4xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: error: tile.wait: the ring must be the result of a tile.ring
func.func @f(%ring: !tile.ring) {
  tile.wait %ring[0]
  func.return
}

// -----

// CHECK: error: tile.stage: buffers, the number of slabs, must be at least 1, got 0
func.func @f(%x: memref<8xf32>) {
  %s = tile.stage %x[d0] buffers 0 : memref<8xf32> to memref<4xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: error: tile.stage: buffers, async and tma are for shared slabs; registers are filled by their thread
func.func @f(%x: memref<8xf32>) {
  %s = tile.stage %x[d0] async : memref<8xf32> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: error: tile.stage: a slab is copied by async or tma, not both
func.func @f(%x: memref<8xf32>) {
  %s = tile.stage %x[d0] async tma : memref<8xf32> to memref<4xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: error: kernel.move: an async move is of 4, 8 or 16 bytes, got 4 f64
func.func @f(%x: memref<8xf64>, %s: memref<8xf64, #tile.memory<shared>>) {
  kernel.move 4 async %x[0] to %s[0] : memref<8xf64> to memref<8xf64, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: error: kernel.move: an async move is from global to shared memory, got memref<8xf32> to memref<8xf32, #tile.memory<register>>
func.func @f(%x: memref<8xf32>, %s: memref<8xf32, #tile.memory<register>>) {
  kernel.move 4 async %x[0] to %s[0] : memref<8xf32> to memref<8xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: error: kernel.wait_group: the groups that may stay in flight are 0 or more, got -1
func.func @f() {
  kernel.wait_group -1
  func.return
}

// -----

// CHECK: error: tile.alloc: a buffer on a ring needs a static shape of slots first, got memref<f32, #tile.memory<shared>>
func.func @f() {
  %s = tile.alloc : memref<f32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: the destination of a copy has its slots as the first dimension
func.func @f(%x: memref<8xf32>, %s: memref<f32, #tile.memory<shared>>) {
  %ring = tile.ring 2
  tile.copy %x[0] to %s at %ring[0] : memref<8xf32> to memref<f32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: error: tile.copy: the conditions of the copy must hold pairs of sides `lhs < rhs`, got 1 sides
func.func @f(%x: memref<8xf32>) {
  %ring = tile.ring 2
  %s = tile.alloc : memref<2x4xf32, #tile.memory<shared>>
  "tile.copy"(%x, %s, %ring) <{
    map = affine_map<(d0) -> (d0)>, step = affine_map<() -> (0)>, where = affine_map<() -> (1)>,
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>
  }> : (memref<8xf32>, memref<2x4xf32, #tile.memory<shared>>, !tile.ring) -> ()
  func.return
}

// -----

// CHECK: error: tile.stage: tf32 rounds slabs of f32 that tma copies
func.func @f(%x: memref<8xf32>) {
  %s = tile.stage %x[d0] async tf32 : memref<8xf32> to memref<4xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: error: tile.stage: tf32 rounds slabs of f32 that tma copies
func.func @f(%x: memref<8xi32>) {
  %s = tile.stage %x[d0] tma tf32 : memref<8xi32> to memref<4xi32, #tile.memory<shared>>
  func.return
}
