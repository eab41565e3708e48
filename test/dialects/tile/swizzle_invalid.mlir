// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: rows of 128, 64 or 32 bytes are swizzled, got 96
func.func @k() {
  %xs = kernel.alloc : memref<64x24xf32, #tile.swizzle<96>, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: a swizzle of 128 bytes is for rows of as many, got memref<64x64xf32, #tile.swizzle<128>, #tile.memory<shared>>
func.func @k() {
  %xs = kernel.alloc : memref<64x64xf32, #tile.swizzle<128>, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: only buffers in #tile.memory<shared> are swizzled, got memref<64x32xf32, #tile.swizzle<128>, #tile.memory<register>>
func.func @k() {
  %xs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<register>>
  func.return
}

// -----

// CHECK: a swizzle of 64 bytes is for boxes with rows of as many, got 32 f32
func.func @main(%w: memref<64x96xf32>) {
  %map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 64>
  func.return
}

// -----

// CHECK: a swizzle of 128 bytes is for rows of as many, got memref<3x64x16xf32, #tile.swizzle<128>, #tile.memory<shared>>
func.func @k() {
  %xs = tile.alloc : memref<3x64x16xf32, #tile.swizzle<128>, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: the swizzle of !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128> must be that of its buffer in shared memory, got memref<32x32xf32, #tile.memory<shared>>
kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  kernel.tma_load %w[0, 0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128> to memref<32x32xf32, #tile.memory<shared>>
}
