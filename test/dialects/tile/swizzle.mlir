// Swizzled layouts survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      %xs = kernel.alloc : memref<3x64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
// CHECK-NEXT: %ys = kernel.alloc : memref<8x8xf64, #tile.swizzle<64>, #tile.memory<shared>>
// CHECK-NEXT: %zs = tile.stage %x[d0, d1] : memref<64x96xf32> to memref<64x8xf32, #tile.swizzle<32>, #tile.memory<shared>>
// CHECK-NEXT: kernel.tensor_map %x : !kernel.tensor_map<memref<64x96xf32>, box [64, 32], swizzle 128>
func.func @k(%x: memref<64x96xf32>) {
  %xs = kernel.alloc : memref<3x64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %ys = kernel.alloc : memref<8x8xf64, #tile.swizzle<64>, #tile.memory<shared>>
  %zs = tile.stage %x[d0, d1] : memref<64x96xf32> to memref<64x8xf32, #tile.swizzle<32>, #tile.memory<shared>>
  %map = kernel.tensor_map %x : !kernel.tensor_map<memref<64x96xf32>, box [64, 32], swizzle 128>
  func.return
}
