// RUN: deplodock-opt %s -p form-kernels --split-input-file 2>/dev/null | filecheck %s
// RUN: deplodock-opt %s -p form-kernels,form-kernels --split-input-file 2>/dev/null | filecheck %s

// "never" stores a value that would be fused.
// CHECK-LABEL: func.func @never
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.kernel @k_a(
// CHECK-NEXT:      %{{.*}} = tensor_ext.elementwise {arith.addf} %{{.*}}, %{{.*}} attributes {deplodock.fuse = "never"} : tensor<4xf32>
// CHECK:         tensor_ext.kernel @k_b({{.*}} = %[[A]] : tensor<4xf32>)
func.func @never(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tensor_ext.elementwise {arith.addf} %x, %x attributes {deplodock.fuse = "never"} : tensor<4xf32>
  %b = tensor_ext.elementwise {arith.mulf} %a, %a : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// "always" computes a value wherever it is needed, however much that costs.
// CHECK-LABEL: func.func @always
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_rows(
// CHECK-NEXT:      %{{.*}} = tensor_ext.elementwise {math.exp}
// CHECK:         tensor_ext.kernel @k_columns(
// CHECK-NEXT:      %{{.*}} = tensor_ext.elementwise {math.exp}
func.func @always(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %e = tensor_ext.elementwise {math.exp} %x attributes {deplodock.fuse = "always"} : tensor<4x8xf32>
  %rows = tensor_ext.reduce {arith.addf} %e dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %columns = tensor_ext.reduce {arith.addf} %e dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  func.return %rows, %columns : tensor<4xf32>, tensor<8xf32>
}

// -----

// A kernel that is there stays; what it reads is stored before it, and what reads it comes after it.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.kernel @k_a(
// CHECK:         %[[B:.*]] = tensor_ext.kernel @mine(%v = %[[A]] : tensor<4xf32>) -> tensor<4xf32> attributes {note = "kept"} {
// CHECK:         %[[C:.*]] = tensor_ext.kernel @k_c({{.*}} = %[[A]] : tensor<4xf32>, {{.*}} = %[[B]] : tensor<4xf32>)
// CHECK:         func.return %[[C]]
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tensor_ext.elementwise {arith.addf} %x, %x : tensor<4xf32>
  %b = tensor_ext.kernel @mine(%v = %a : tensor<4xf32>) -> tensor<4xf32> attributes {note = "kept"} {
    %n = tensor_ext.elementwise {arith.negf} %v : tensor<4xf32>
    tensor_ext.yield %n : tensor<4xf32>
  }
  %c = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<4xf32>
  func.return %c : tensor<4xf32>
}
