// RUN: %roundtrip

// CHECK-LABEL: func.func @keep
func.func @keep(%x: memref<8x4xf32>) {
  tile.launch (%t = 8 : thread, %r = 4 : register) {
    %v = loop.load %x[%t, %r] : memref<8x4xf32>
    // CHECK: %s = tile.keep %v[%r, %t] : memref<4x9xf32, #tile.memory<shared>>
    %s = tile.keep %v[%r, %t] : memref<4x9xf32, #tile.memory<shared>>
    // CHECK-NEXT: %p = tile.keep %v[%r * 8 + %t] {tag = "kept"} : memref<32xf32, #tile.memory<shared>>
    %p = tile.keep %v[%r * 8 + %t] {tag = "kept"} : memref<32xf32, #tile.memory<shared>>
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @store
func.func @store(%x: memref<64x8xf32>, %y: memref<64x8xf32>) {
  tile.launch (%b = 4 : block, %t = 16 : thread, %r = 8 : register) {
    %v = loop.load %x[%b * 16 + %t, %r] : memref<64x8xf32>
    %s = tile.keep %v[%t, %r] : memref<16x8xf32, #tile.memory<shared>>
    // CHECK: tile.store %s to %y[%b * 16 + d0, d1] {tag = "kept"} : memref<16x8xf32, #tile.memory<shared>> to memref<64x8xf32>
    tile.store %s to %y[%b * 16 + d0, d1] {tag = "kept"} : memref<16x8xf32, #tile.memory<shared>> to memref<64x8xf32>
  }
  func.return
}
