// RUN: deplodock-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: strides are 1 or more, and an offset is 0 or more, got memref<32xf32, strided<[-1]>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<32xf32, strided<[-1]>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: strides are 1 or more, and an offset is 0 or more, got memref<32xf32, strided<[0]>, #tile.memory<register>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<32xf32, strided<[0]>, #tile.memory<register>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: strides are 1 or more, and an offset is 0 or more, got memref<32xf32, strided<[1], offset: -4>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<32xf32, strided<[1], offset: -4>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: the shape, strides and offset of a buffer on chip are numbers, got memref<4xf32, strided<[1], offset: ?>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<4xf32, strided<[1], offset: ?>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: the shape, strides and offset of a buffer on chip are numbers, got memref<4xf32, strided<[?]>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<4xf32, strided<[?]>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: elements [0, 8] and [1, 0] of memref<2x16xf32, strided<[8, 1]>, #tile.memory<shared>> have one address
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<2x16xf32, strided<[8, 1]>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: elements [0, 3] and [4, 0] of memref<5x4xf32, strided<[3, 4]>, #tile.memory<register>> have one address
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<5x4xf32, strided<[3, 4]>, #tile.memory<register>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: memref<1024x1025xi8, strided<[2048, 3]>, #tile.memory<shared>> has more elements than a memory on chip
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<1024x1025xi8, strided<[2048, 3]>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: a layout has a stride for each of the 2 dimensions, got memref<4x8xf32, strided<[8]>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<4x8xf32, strided<[8]>, #tile.memory<shared>>
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.alloc: the layout of a buffer on chip is strided<[..]> or #tile.swizzle<..>, got memref<32xf32, affine_map<(d0) -> ((d0 * 2))>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<32xf32, affine_map<(d0) -> (d0 * 2)>, #tile.memory<shared>>
}

// -----

// Slots of a ring.
// CHECK: [[# @LINE + 2]]:3: error: tile.alloc: elements [0, 16, 0] and [1, 0, 0] of memref<3x32x32xf32, strided<[512, 32, 1]>, #tile.memory<shared>> have one address
func.func @k() {
  %s = tile.alloc : memref<3x32x32xf32, strided<[512, 32, 1]>, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: [[# @LINE + 4]]:7: error: tile.stage: elements [0, 4] and [1, 0] of memref<8x8xf32, strided<[4, 1]>, #tile.memory<shared>> have one address
func.func @k(%x: memref<8x8xf32>, %out: memref<8x8xf32>) {
  tile.launch (%b = 8 : block) {
    loop.for %k = 0 to 1 {
      %s = tile.stage %x[d0, d1] : memref<8x8xf32> to memref<8x8xf32, strided<[4, 1]>, #tile.memory<shared>>
    }
  }
  func.return
}

// -----

// CHECK: [[# @LINE + 3]]:5: error: loop.load: buffers in global memory are contiguous, got memref<4x8xf32, strided<[16, 1]>>; drop the layout, or pass the whole buffer and subscript it
func.func @strided(%x: memref<4x8xf32, strided<[16, 1]>>, %out: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i, 0] : memref<4x8xf32, strided<[16, 1]>>
    loop.store %v, %out[%i] : memref<4xf32>
  }
  func.return
}

// -----

// CHECK: [[# @LINE + 1]]:1: error: kernel.func: buffers in global memory are contiguous, got memref<4x8xf32, strided<[8, 1], offset: 8>>
kernel.func @k(%x: memref<4x8xf32, strided<[8, 1], offset: 8>>) blocks(%block = 1) threads(%thread = 32) {
}

// -----

// CHECK: [[# @LINE + 1]]:1: error: kernel.func: the memory space of memref<4x8xf32, 3 : i64> must be #tile.memory<shared> or #tile.memory<register>, or none for global memory
kernel.func @k(%x: memref<4x8xf32, 3>) blocks(%block = 1) threads(%thread = 32) {
}

// -----

// CHECK: [[# @LINE + 1]]:1: error: kernel.func: the arguments of a kernel are in global memory, got memref<8xf32, #tile.memory<shared>>
kernel.func @k(%x: memref<8xf32, #tile.memory<shared>>) blocks(%block = 1) threads(%thread = 32) {
}

// -----

// Layouts of a launch and its kernel differ.
// CHECK: [[# @LINE + 4]]:3: error: kernel.launch: the arguments do not match the signature of @k
kernel.func @k(%x: memref<4x8xf32>) blocks(%block = 1) threads(%thread = 32) {
}
func.func @main(%x: memref<4x8xf32, strided<[16, 1]>>) {
  kernel.launch @k(%x) : memref<4x8xf32, strided<[16, 1]>>
  func.return
}

// -----

// CHECK: [[# @LINE + 2]]:3: error: kernel.counters: buffers in global memory are contiguous, got memref<4xi32, strided<[2]>>
func.func @main() {
  %c = kernel.counters : memref<4xi32, strided<[2]>>
  func.return
}

// -----

// An element type that has no size in memory.
// CHECK: a swizzle of 128 bytes is for rows of as many, got memref<4x16xindex, #tile.swizzle<128>, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %s = kernel.alloc : memref<4x16xindex, #tile.swizzle<128>, #tile.memory<shared>>
}
