// A recurrence survives custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @cell
func.func @cell(%h: tensor<4xf32>, %x: tensor<2xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor_ext.elementwise {arith.mulf} %h, %w : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

func.func @plain(%h: tensor<4xf32>) -> tensor<4xf32> {
  %y = tensor_ext.elementwise {arith.addf} %h, %h : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @main
func.func @main(%h: tensor<4xf32>, %x: tensor<9x2xf32>, %w: tensor<4xf32>) -> (tensor<9x4xf32>, tensor<3x4xf32>) {
  // CHECK-NEXT: %hs = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<9x2xf32>) with (%w : tensor<4xf32>) -> tensor<9x4xf32>
  %hs = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<9x2xf32>) with (%w : tensor<4xf32>) -> tensor<9x4xf32>
  // CHECK-NEXT: %ps = tensor_ext.recurrence @plain from (%h : tensor<4xf32>) {tag = "kept"} -> tensor<3x4xf32>
  %ps = tensor_ext.recurrence @plain from (%h : tensor<4xf32>) {tag = "kept"} -> tensor<3x4xf32>
  func.return %hs, %ps : tensor<9x4xf32>, tensor<3x4xf32>
}
