// RUN: deplodock-opt %s -p form-kernels,lower-to-loops --split-input-file --check-semantics | filecheck %s

// The first step reads what the recurrence starts from, each other one the row that the step before has written. What
// a caller gives is copied, what it gets is, too: only buffers of the program's own have parts.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[X:.*]] = memref.alloc() : memref<9x4xf32>
// CHECK-NEXT:    func.call @k_rows(%x, %[[X]])
// CHECK-NEXT:    %[[HS:.*]] = memref.alloc() : memref<9x4xf32>
// CHECK-NEXT:    %[[X0:.*]] = loop.part %[[X]][0] : memref<9x4xf32> -> memref<4xf32>
// CHECK-NEXT:    %[[H0:.*]] = loop.part %[[HS]][0] : memref<9x4xf32> -> memref<4xf32>
// CHECK-NEXT:    func.call @k_y(%h, %[[X0]], %[[H0]])
// CHECK-NEXT:    loop.repeat %[[T:.*]] = 0 to 8 {
// CHECK-NEXT:      %[[BEFORE:.*]] = loop.part %[[HS]][%[[T]]] : memref<9x4xf32> -> memref<4xf32>
// CHECK-NEXT:      %[[XT:.*]] = loop.part %[[X]][%[[T]] + 1] : memref<9x4xf32> -> memref<4xf32>
// CHECK-NEXT:      %[[AFTER:.*]] = loop.part %[[HS]][%[[T]] + 1] : memref<9x4xf32> -> memref<4xf32>
// CHECK-NEXT:      func.call @k_y(%[[BEFORE]], %[[XT]], %[[AFTER]])
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[OUT:.*]] = memref.alloc() : memref<9x4xf32>
// CHECK-NEXT:    func.call @k_rows(%[[HS]], %[[OUT]])
// CHECK-NEXT:    func.return %[[OUT]] : memref<9x4xf32>
// CHECK-NOT:   @cell
func.func @cell(%h: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor_ext.elementwise {arith.mulf} %h, %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @main(%h: tensor<4xf32>, %x: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %hs = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<9x4xf32>) -> tensor<9x4xf32>
  func.return %hs : tensor<9x4xf32>
}

// -----

// Rows of 24 and of 4 bytes are padded to multiples of 16. One step is not repeated.
// CHECK-LABEL: func.func @main
// CHECK:         %[[X:.*]] = memref.alloc() : memref<1x4xf32>
// CHECK:         %[[HS:.*]] = memref.alloc() : memref<1x8xf32>
// CHECK-NEXT:    loop.part %[[X]][0] : memref<1x4xf32> -> memref<f32>
// CHECK-NEXT:    loop.part %[[HS]][0] : memref<1x8xf32> -> memref<2x3xf32>
// CHECK-NOT:     loop.repeat
// CHECK:       loop.load padded %x[%a0] : memref<1xf32>
// CHECK:       loop.load %hs[0, %a0 * 3 + %a1] : memref<1x8xf32>
func.func @cell(%h: tensor<2x3xf32>, %x: tensor<f32>) -> tensor<2x3xf32> {
  %xs = tensor_ext.index_map %x affine_map<(d0, d1) -> ()> : tensor<f32> -> tensor<2x3xf32>
  %y = tensor_ext.elementwise {arith.mulf} %h, %xs : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
func.func @main(%h: tensor<2x3xf32>, %x: tensor<1xf32>) -> tensor<1x2x3xf32> {
  %hs = tensor_ext.recurrence @cell from (%h : tensor<2x3xf32>) each (%x : tensor<1xf32>) -> tensor<1x2x3xf32>
  func.return %hs : tensor<1x2x3xf32>
}
