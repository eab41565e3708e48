// The precision of an operation is that of the products that its sums add up, and of nothing else.
// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// CHECK-LABEL: func.func @linear
// CHECK:         %product = tensor_ext.elementwise
// CHECK-NEXT:      arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "high"} : f32
// CHECK:         tensor_ext.reduce {arith.addf} %product dims [2]
// CHECK:         tensor_ext.elementwise {arith.addf}
func.func @linear(%x: tensor<2x8xf32>, %w: tensor<3x8xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = torch.aten.linear %x, %w, %b attributes {deplodock.precision = "high"} : tensor<2x8xf32>, tensor<3x8xf32>, tensor<3xf32> -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @scaled
// CHECK:           arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "medium"} : f32
// CHECK:         %scaled = tensor_ext.elementwise {arith.mulf}
func.func @scaled(%x: tensor<2x3xf32>, %y: tensor<2x8xf32>, %z: tensor<8x3xf32>) -> tensor<2x3xf32> {
  %0 = torch.aten.addmm %x, %y, %z {alpha = 2.0} attributes {deplodock.precision = "medium"} : tensor<2x3xf32>, tensor<2x8xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// -----

// Both products of attention; the second one also allows that a factor 0 leaves out the other.
// CHECK-LABEL: func.func @attention
// CHECK:           arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "high"} : f32
// CHECK:         %scores = tensor_ext.elementwise {arith.mulf}
// CHECK:           arith.mulf %{{.*}}, %{{.*}} fastmath<nnan,nsz> {deplodock.precision = "high"} : f32
// CHECK-NOT:     arith.mulf
func.func @attention(%q: tensor<3x8xf32>, %k: tensor<5x8xf32>) -> tensor<3x8xf32> {
  %0 = torch.aten.scaled_dot_product_attention %q, %k, %k attributes {deplodock.precision = "high"} : tensor<3x8xf32>, tensor<5x8xf32>, tensor<5x8xf32> -> tensor<3x8xf32>
  func.return %0 : tensor<3x8xf32>
}

// -----

// Of several factors the last one is multiplied with the product of those before.
// CHECK-LABEL: func.func @einsum
// CHECK:         %[[FIRST:.*]] = tensor_ext.elementwise {arith.mulf}
// CHECK-NEXT:    tensor_ext.elementwise %[[FIRST]]
// CHECK-NEXT:      arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "high"} : f32
func.func @einsum(%x: tensor<2x4xf32>, %y: tensor<4xf32>, %z: tensor<4x3xf32>) -> tensor<2x3xf32> {
  %0 = torch.aten.einsum %x, %y, %z {equation = "ik,k,kj->ij"} attributes {deplodock.precision = "high"} : tensor<2x4xf32>, tensor<4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// -----

// Nothing is summed up.
// CHECK-LABEL: func.func @outer
// CHECK:         tensor_ext.elementwise {arith.mulf}
// CHECK-NOT:     precision
func.func @outer(%x: tensor<2xf32>, %y: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = torch.aten.einsum %x, %y {equation = "i,j->ij"} attributes {deplodock.precision = "high"} : tensor<2xf32>, tensor<4xf32> -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}

// -----

// The share of the input, and the cell.
// CHECK-LABEL: func.func @recurrent
// CHECK:           arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "high"} : f32
// CHECK-LABEL: func.func @rnn_tanh_cell
// CHECK:           arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "high"} : f32
func.func @recurrent(%x: tensor<3x2x4xf32>, %h: tensor<1x2x5xf32>, %w: tensor<5x4xf32>, %u: tensor<5x5xf32>) -> (tensor<3x2x5xf32>, tensor<1x2x5xf32>) {
  %0, %1 = torch.aten.rnn_tanh.input %x, %h, %w, %u {has_biases = false, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false} attributes {deplodock.precision = "high"} : tensor<3x2x4xf32>, tensor<1x2x5xf32>, tensor<5x4xf32>, tensor<5x5xf32> -> tensor<3x2x5xf32>, tensor<1x2x5xf32>
  func.return %0, %1 : tensor<3x2x5xf32>, tensor<1x2x5xf32>
}
