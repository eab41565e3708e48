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
