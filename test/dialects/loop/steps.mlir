// Repeated calls and parts of buffers survive custom -> generic -> custom.
// RUN: %roundtrip

func.func private @cell(memref<4xf32>, memref<2x2xf32>)

// CHECK-LABEL: func.func @steps
func.func @steps(%x: memref<9x4xf32>) {
  // CHECK-NEXT: loop.repeat %t = 0 to 8 {
  // CHECK-NEXT:   %before = loop.part %x[%t] : memref<9x4xf32> -> memref<4xf32>
  // CHECK-NEXT:   %after = loop.part %x[%t + 1] : memref<9x4xf32> -> memref<2x2xf32>
  // CHECK-NEXT:   func.call @cell(%before, %after)
  // CHECK-NEXT: }
  loop.repeat %t = 0 to 8 {
    %before = loop.part %x[%t] : memref<9x4xf32> -> memref<4xf32>
    %after = loop.part %x[%t + 1] : memref<9x4xf32> -> memref<2x2xf32>
    func.call @cell(%before, %after) : (memref<4xf32>, memref<2x2xf32>) -> ()
  }
  // CHECK-NEXT: loop.repeat %u = 0 to 0 attributes {tag = "kept"} {
  loop.repeat %u = 0 to 0 attributes {tag = "kept"} {
  }
  func.return
}
