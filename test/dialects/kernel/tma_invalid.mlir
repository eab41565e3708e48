// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a box has 1 to 256 elements along each dimension, got [512, 32]; split it
func.func @main(%w: memref<1024x96xf32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<1024x96xf32>, box [512, 32]>
  func.return
}

// -----

// CHECK: the rows of a box are multiples of 16 bytes, got 6 f32; widen them
func.func @main(%w: memref<64x96xf32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 6]>
  func.return
}

// -----

// CHECK: the rows of a buffer with a tensor map are multiples of 16 bytes, got 97 f32; copy without it
func.func @main(%w: memref<64x97xf32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x97xf32>, box [32, 32]>
  func.return
}

// -----

// CHECK: the box of memref<64x96xf32> needs 2 extents, got 1
func.func @main(%w: memref<64x96xf32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32]>
  func.return
}

// -----

// CHECK: a tensor map has 1 to 5 dimensions, memref<1x1x1x1x64x96xf32> has 6
func.func @main(%w: memref<1x1x1x1x64x96xf32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<1x1x1x1x64x96xf32>, box [1, 1, 1, 1, 32, 32]>
  func.return
}

// -----

// CHECK: a tensor map is of f32, f64, f16, bf16, i32, i64 or i8, got i1; copy without it
func.func @main(%w: memref<64x96xi1>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xi1>, box [32, 32]>
  func.return
}

// -----

// CHECK: a tensor map is of a contiguous global buffer of static shape, got memref<64x96xf32, #tile.memory<shared>>
func.func @main(%w: memref<64x96xf32, #tile.memory<shared>>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32, #tile.memory<shared>>, box [32, 32]>
  func.return
}

// -----

// CHECK: a tensor map is of a memref, got f32
func.func @main(%w: f32) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<f32, box [32, 32]>
  func.return
}

// -----

// CHECK: a box of [32, 32] fills rows of the last dimensions of its buffer, got memref<3x32x16xf32, #tile.memory<shared>>
kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<3x32x16xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.tma_load %w[0, 0] to %ws[0, 0, 0] signal %full[0] : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<3x32x16xf32, #tile.memory<shared>>
}

// -----

// CHECK: a copy keeps the element type, got memref<64x96xf32> and memref<32x32xi32, #tile.memory<shared>>
kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xi32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.tma_load %w[0, 0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<32x32xi32, #tile.memory<shared>>
}

// -----

// CHECK: a box lies in a contiguous buffer in #tile.memory<shared>, got memref<32x32xf32, strided<[36, 1]>, #tile.memory<shared>>
kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xf32, strided<[36, 1]>, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.tma_load %w[0, 0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<32x32xf32, strided<[36, 1]>, #tile.memory<shared>>
}

// -----

// CHECK: the subscripts of the map
kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.tma_load %w[0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<32x32xf32, #tile.memory<shared>>
}

// -----

// CHECK: expected a !kernel.tensor_map, got memref<64x96xf32>
func.func @f(%w: memref<64x96xf32>) {
  %map = kernel.tensor_map %w : memref<64x96xf32>
  func.return
}

// -----

// CHECK: the map of memref<64x96xf32> cannot have the type !kernel.tensor_map<memref<64x64xf32>, box [32, 32]>
func.func @f(%w: memref<64x96xf32>) {
  %map = "kernel.tensor_map"(%w) : (memref<64x96xf32>) -> !kernel.tensor_map<memref<64x64xf32>, box [32, 32]>
  func.return
}

// -----

// CHECK: the swizzle of !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128> must be that of its buffer in shared memory, got memref<32x32xf32, #tile.memory<shared>>
kernel.func @k(%y: !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128>) blocks(%block = 1) threads(%thread = 1) {
  %s = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  kernel.tma_store %s[0, 0] to %y[0, 0] : memref<32x32xf32, #tile.memory<shared>> to !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128>
}

// -----

// CHECK: the groups that may stay in flight are 0 or more, got -1
kernel.func @k() blocks(%block = 1) threads(%thread = 1) {
  kernel.tma_wait -1
}

// -----

// CHECK: tf32 rounds elements of f32, got i32; leave it out
func.func @main(%w: memref<64x96xi32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xi32>, box [32, 32], tf32>
  func.return
}

// -----

// CHECK: a store keeps all bits, which a map with tf32 does not; leave it out
kernel.func @k(%y: !kernel.tensor_map<memref<64x96xf32>, box [32, 32], tf32>) blocks(%block = 1) threads(%thread = 1) {
  %s = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  kernel.tma_store %s[0, 0] to %y[0, 0] : memref<32x32xf32, #tile.memory<shared>> to !kernel.tensor_map<memref<64x96xf32>, box [32, 32], tf32>
}
