// RUN: deplodock-opt %s -p form-kernels --split-input-file | filecheck %s

// Where a reduction has few results, what follows it for many elements has a kernel of its own, with as many CTAs. What
// both kernels need is stored by the one that computes it anyway.
// CHECK-LABEL: func.func @few_rows
// CHECK:         %sum, %new = tensor_ext.kernel @k_new({{.*}} -> tensor<2xf32>, tensor<2xf32> {
// CHECK:           tensor_ext.reduce
// CHECK:         %y = tensor_ext.kernel @k_y(%z_1 = %z : tensor<2x65536xf32>, %sum_1 = %sum : tensor<2xf32>) -> tensor<2x65536xf32> {
// CHECK-NOT:       tensor_ext.reduce
// CHECK:         func.return %new, %y
func.func @few_rows(%x: tensor<64x2xf32>, %old: tensor<2xf32>, %z: tensor<2x65536xf32>) -> (tensor<2xf32>, tensor<2x65536xf32>) {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<64x2xf32> -> tensor<2xf32>
  %new = tensor_ext.elementwise {arith.addf} %sum, %old : tensor<2xf32>
  %b = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<2xf32> -> tensor<2x65536xf32>
  %y = tensor_ext.elementwise {arith.subf} %z, %b : tensor<2x65536xf32>
  func.return %new, %y : tensor<2xf32>, tensor<2x65536xf32>
}

// -----

// Many rows are many CTAs: one kernel reads them once.
// CHECK-LABEL: func.func @many_rows
// CHECK:         %new, %y = tensor_ext.kernel @k_y(
// CHECK:           tensor_ext.reduce
// CHECK-NOT:     tensor_ext.kernel
// CHECK:         func.return %new, %y
func.func @many_rows(%x: tensor<4096x1024xf32>, %old: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096x1024xf32>) {
  %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4096x1024xf32> -> tensor<4096xf32>
  %new = tensor_ext.elementwise {arith.addf} %sum, %old : tensor<4096xf32>
  %b = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<4096xf32> -> tensor<4096x1024xf32>
  %y = tensor_ext.elementwise {arith.subf} %x, %b : tensor<4096x1024xf32>
  func.return %new, %y : tensor<4096xf32>, tensor<4096x1024xf32>
}
