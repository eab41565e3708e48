// Copies and stores of boxes survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>, %b: !kernel.tensor_map<memref<4x8xf64>, box [1, 2]>)
// CHECK:      %ws = kernel.alloc : memref<3x32x32xf32, #tile.memory<shared>>
// CHECK-NEXT: %bs = kernel.alloc : memref<2xf64, #tile.memory<shared>>
// CHECK-NEXT: %full = kernel.mbarrier 3 arrivals 1
// CHECK-NEXT: kernel.fence_proxy_async {tag = "kept"}
// CHECK:      kernel.tma_load %w[%k * 32, %block * 32] to %ws[%k mod 3, 0, 0] signal %full[%k mod 3] {tag = "kept"} : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<3x32x32xf32, #tile.memory<shared>>
// CHECK-NEXT: kernel.tma_load %b[%k, 0] to %bs[0] signal %full[0] : !kernel.tensor_map<memref<4x8xf64>, box [1, 2]> to memref<2xf64, #tile.memory<shared>>
// CHECK-NEXT: kernel.tma_store %ws[%k, 0, 0] to %w[%k * 32, 32] {tag = "kept"} : memref<3x32x32xf32, #tile.memory<shared>> to !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
// CHECK:      kernel.tma_commit {tag = "kept"}
// CHECK-NEXT: kernel.tma_wait 1 {tag = "kept"}
kernel.func @k(%w: !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>, %b: !kernel.tensor_map<memref<4x8xf64>, box [1, 2]>) blocks(%block = 3) threads(%thread = 32) {
  %ws = kernel.alloc : memref<3x32x32xf32, #tile.memory<shared>>
  %bs = kernel.alloc : memref<2xf64, #tile.memory<shared>>
  %full = kernel.mbarrier 3 arrivals 1
  kernel.fence_proxy_async {tag = "kept"}
  kernel.barrier
  loop.for %k = 0 to 2 {
    loop.guard where (%thread < 1) {
      kernel.tma_load %w[%k * 32, %block * 32] to %ws[%k mod 3, 0, 0] signal %full[%k mod 3] {tag = "kept"} : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]> to memref<3x32x32xf32, #tile.memory<shared>>
      kernel.tma_load %b[%k, 0] to %bs[0] signal %full[0] : !kernel.tensor_map<memref<4x8xf64>, box [1, 2]> to memref<2xf64, #tile.memory<shared>>
      kernel.tma_store %ws[%k, 0, 0] to %w[%k * 32, 32] {tag = "kept"} : memref<3x32x32xf32, #tile.memory<shared>> to !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
    }
    kernel.tma_commit {tag = "kept"}
    kernel.tma_wait 1 {tag = "kept"}
  }
}

// CHECK:      %r_map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32], tf32>
// CHECK-NEXT: %s_map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128, tf32>
// CHECK-NEXT: %w_map = kernel.tensor_map %w {tag = "kept"} : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
// CHECK-NEXT: %b_map = kernel.tensor_map %b : !kernel.tensor_map<memref<4x8xf64>, box [1, 2]>
// CHECK-NEXT: kernel.launch @k(%w_map, %b_map) : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>, !kernel.tensor_map<memref<4x8xf64>, box [1, 2]>
func.func @main(%w: memref<64x96xf32>, %b: memref<4x8xf64>) {
  %r_map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32], tf32>
  %s_map = kernel.tensor_map %w : !kernel.tensor_map<memref<64x96xf32>, box [32, 32], swizzle 128, tf32>
  %w_map = kernel.tensor_map %w {tag = "kept"} : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>
  %b_map = kernel.tensor_map %b : !kernel.tensor_map<memref<4x8xf64>, box [1, 2]>
  kernel.launch @k(%w_map, %b_map) : !kernel.tensor_map<memref<64x96xf32>, box [32, 32]>, !kernel.tensor_map<memref<4x8xf64>, box [1, 2]>
  func.return
}
