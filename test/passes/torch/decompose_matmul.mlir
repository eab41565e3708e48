// Contractions: both operands in the space [batch.., m, n, k], a product, a sum over k.
// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// CHECK-LABEL: func.func @matmul
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<2x8xf32> -> tensor<2x3x8xf32>
// CHECK-NEXT:    %[[B:.*]] = tensor_ext.index_map %y affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<8x3xf32> -> tensor<2x3x8xf32>
// CHECK-NEXT:    %product = tensor_ext.elementwise {arith.mulf} %[[A]], %[[B]] : tensor<2x3x8xf32>
// CHECK-NEXT:    %matmul = tensor_ext.reduce {arith.addf} %product dims [2] : tensor<2x3x8xf32> -> tensor<2x3xf32>
func.func @matmul(%x: tensor<2x8xf32>, %y: tensor<8x3xf32>) -> tensor<2x3xf32> {
  %matmul = torch.aten.matmul %x, %y : tensor<2x8xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
  func.return %matmul : tensor<2x3xf32>
}

// -----

// Batches broadcast.
// CHECK-LABEL: func.func @batched
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0, d1, d2, d3, d4) -> (d0, 0, d2, d4)> : tensor<5x1x2x8xf32> -> tensor<5x6x2x3x8xf32>
// CHECK-NEXT:    tensor_ext.index_map %y affine_map<(d0, d1, d2, d3, d4) -> (d1, d4, d3)> : tensor<6x8x3xf32> -> tensor<5x6x2x3x8xf32>
// CHECK:         tensor_ext.reduce {arith.addf} %product dims [4]
func.func @batched(%x: tensor<5x1x2x8xf32>, %y: tensor<6x8x3xf32>) -> tensor<5x6x2x3xf32> {
  %0 = torch.aten.matmul %x, %y : tensor<5x1x2x8xf32>, tensor<6x8x3xf32> -> tensor<5x6x2x3xf32>
  func.return %0 : tensor<5x6x2x3xf32>
}

// -----

// A vector has no m or n.
// CHECK-LABEL: func.func @vectors
// CHECK-NEXT:    %[[Y:.*]] = tensor_ext.index_map %y affine_map<(d0, d1) -> (d1)> : tensor<8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.elementwise {arith.mulf} %x, %[[Y]] : tensor<2x8xf32>
// CHECK-NEXT:    %[[V:.*]] = tensor_ext.reduce {arith.addf} %[[P]] dims [1] : tensor<2x8xf32> -> tensor<2xf32>
// CHECK-NEXT:    tensor_ext.index_map %z affine_map<(d0, d1) -> (d1)> : tensor<2xf32> -> tensor<8x2xf32>
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0, d1) -> (d1, d0)> : tensor<2x8xf32> -> tensor<8x2xf32>
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [1] : tensor<8x2xf32> -> tensor<8xf32>
// CHECK-NEXT:    %[[D:.*]] = tensor_ext.elementwise {arith.mulf} %y, %y : tensor<8xf32>
// CHECK-NEXT:    tensor_ext.reduce {arith.addf} %[[D]] dims [0] : tensor<8xf32> -> tensor<f32>
func.func @vectors(%x: tensor<2x8xf32>, %y: tensor<8xf32>, %z: tensor<2xf32>) -> (tensor<2xf32>, tensor<8xf32>, tensor<f32>) {
  %0 = torch.aten.mv %x, %y : tensor<2x8xf32>, tensor<8xf32> -> tensor<2xf32>
  %1 = torch.aten.matmul %z, %x : tensor<2xf32>, tensor<2x8xf32> -> tensor<8xf32>
  %2 = torch.aten.dot %y, %y : tensor<8xf32>, tensor<8xf32> -> tensor<f32>
  func.return %0, %1, %2 : tensor<2xf32>, tensor<8xf32>, tensor<f32>
}

// -----

// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)> : tensor<2x5x8xf32> -> tensor<2x5x3x8xf32>
// CHECK-NEXT:    %[[W:.*]] = tensor_ext.index_map %w affine_map<(d0, d1, d2, d3) -> (d2, d3)> : tensor<3x8xf32> -> tensor<2x5x3x8xf32>
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.elementwise {arith.mulf} %[[A]], %[[W]] : tensor<2x5x3x8xf32>
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.reduce {arith.addf} %[[P]] dims [3] : tensor<2x5x3x8xf32> -> tensor<2x5x3xf32>
// CHECK-NEXT:    %[[B:.*]] = tensor_ext.index_map %b affine_map<(d0, d1, d2) -> (d2)> : tensor<3xf32> -> tensor<2x5x3xf32>
// CHECK-NEXT:    %linear = tensor_ext.elementwise {arith.addf} %[[S]], %[[B]] : tensor<2x5x3xf32>
func.func @linear(%x: tensor<2x5x8xf32>, %w: tensor<3x8xf32>, %b: tensor<3xf32>) -> tensor<2x5x3xf32> {
  %linear = torch.aten.linear %x, %w, %b : tensor<2x5x8xf32>, tensor<3x8xf32>, tensor<3xf32> -> tensor<2x5x3xf32>
  func.return %linear : tensor<2x5x3xf32>
}
