// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// Half precision is computed in f32 and rounded at the end of each operation.

// CHECK-LABEL: @add
// CHECK: %[[X:.*]] = tensor_ext.elementwise {arith.extf} %x
// CHECK-NEXT: %[[Y:.*]] = tensor_ext.elementwise {arith.extf} %y
// CHECK-NEXT: %[[SUM:.*]] = tensor_ext.elementwise {arith.addf} %[[X]], %[[Y]] : tensor<4xf32>
// CHECK-NEXT: tensor_ext.elementwise {arith.truncf} %[[SUM]] : tensor<4xf32> -> tensor<4xbf16>
func.func @add(%x: tensor<4xbf16>, %y: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = torch.aten.add.Tensor %x, %y : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xbf16>
  func.return %0 : tensor<4xbf16>
}

// -----

// A sum is taken in f32 and rounded once.

// CHECK-LABEL: @sum
// CHECK: %[[SUM:.*]] = tensor_ext.reduce {arith.addf} %{{.*}} dims [0] : tensor<9xf32> -> tensor<f32>
// CHECK-NEXT: tensor_ext.elementwise {arith.truncf} %[[SUM]] : tensor<f32> -> tensor<f16>
func.func @sum(%x: tensor<9xf16>) -> tensor<f16> {
  %0 = torch.aten.sum %x : tensor<9xf16> -> tensor<f16>
  func.return %0 : tensor<f16>
}

// -----

// Bytes are unsigned, and wrap.

// CHECK-LABEL: @bytes
// CHECK: tensor_ext.elementwise {arith.extui} %x : tensor<4xui8> -> tensor<4xi32>
// CHECK: %[[PRODUCT:.*]] = tensor_ext.elementwise {arith.muli}
// CHECK-NEXT: tensor_ext.elementwise {arith.trunci} %[[PRODUCT]] : tensor<4xi32> -> tensor<4xui8>
func.func @bytes(%x: tensor<4xui8>) -> tensor<4xui8> {
  %0 = torch.aten.mul.Tensor %x {other = 3} : tensor<4xui8> -> tensor<4xui8>
  func.return %0 : tensor<4xui8>
}

// -----

// What only moves elements moves them as they are.

// CHECK-LABEL: @move
// CHECK-NOT: arith.extf
// CHECK: tensor_ext.index_map %x
func.func @move(%x: tensor<4x2xbf16>) -> tensor<2x4xbf16> {
  %0 = torch.aten.t %x : tensor<4x2xbf16> -> tensor<2x4xbf16>
  func.return %0 : tensor<2x4xbf16>
}
