// RUN: deplodock-opt %s -p form-kernels --split-input-file 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK

// Scans along two axes, or in two directions, are kernels of their own.
// REMARK:      at @k_y: %a is stored, not fused: the scans of a kernel run along one axis, in one direction
// CHECK-LABEL: func.func @two_axes
// CHECK:         tensor_ext.kernel @k_a(
// CHECK:         tensor_ext.kernel @k_y(
// CHECK:           tensor_ext.scan {{.*}} dim 1
func.func @two_axes(%x: tensor<64x80xf32>) -> tensor<64x80xf32> {
  %a = tensor_ext.scan {arith.addf} %x dim 0 : tensor<64x80xf32>
  %b = tensor_ext.scan {arith.addf} %x dim 1 : tensor<64x80xf32>
  %y = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<64x80xf32>
  func.return %y : tensor<64x80xf32>
}

// -----

// REMARK:      at @k_y: %b is stored, not fused: the kernel needs the scan at several indices and would compute it again
// CHECK-LABEL: func.func @neighbours
// CHECK:         tensor_ext.kernel @k_b(
func.func @neighbours(%x: tensor<64x80xf32>) -> tensor<64x79xf32> {
  %b = tensor_ext.scan {arith.addf} %x dim 1 : tensor<64x80xf32>
  %l = tensor_ext.index_map %b affine_map<(d0, d1) -> (d0, d1)> : tensor<64x80xf32> -> tensor<64x79xf32>
  %r = tensor_ext.index_map %b affine_map<(d0, d1) -> (d0, d1 + 1)> : tensor<64x80xf32> -> tensor<64x79xf32>
  %y = tensor_ext.elementwise {arith.subf} %r, %l : tensor<64x79xf32>
  func.return %y : tensor<64x79xf32>
}

// -----

// REMARK:      at @k_sum: %b is stored, not fused: the kernel has not the axes of the scan
// CHECK-LABEL: func.func @reduced
// CHECK:         tensor_ext.kernel @k_b(
func.func @reduced(%x: tensor<64x80xf32>) -> tensor<64xf32> {
  %b = tensor_ext.scan {arith.addf} %x dim 1 : tensor<64x80xf32>
  %sum = tensor_ext.reduce {arith.addf} %b dims [1] : tensor<64x80xf32> -> tensor<64xf32>
  func.return %sum : tensor<64xf32>
}

// -----

// A reduction that leaves the axis free is stored before it is scanned.
// REMARK:      at @k_s: %sum is stored, not fused: the kernel has scans along a free dimension of it
// CHECK-LABEL: func.func @scanned_sums
// CHECK:         tensor_ext.kernel @k_sum(
func.func @scanned_sums(%x: tensor<64x80xf32>) -> tensor<64xf32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<64x80xf32> -> tensor<64xf32>
  %s = tensor_ext.scan {arith.addf} %sum dim 0 : tensor<64xf32>
  func.return %s : tensor<64xf32>
}

// -----

// REMARK:      at @k_y: %b is stored, not fused: the kernel needs the scan along a part of an axis
// CHECK-LABEL: func.func @every_other
// CHECK:         tensor_ext.kernel @k_b(
func.func @every_other(%x: tensor<64x80xf32>) -> tensor<64x40xf32> {
  %b = tensor_ext.scan {arith.addf} %x dim 1 : tensor<64x80xf32>
  %l = tensor_ext.index_map %b affine_map<(d0, d1) -> (d0, d1 * 2)> : tensor<64x80xf32> -> tensor<64x40xf32>
  %y = tensor_ext.elementwise {math.exp} %l : tensor<64x40xf32>
  func.return %y : tensor<64x40xf32>
}

// -----

// On a diagonal each element is of a row of its own.
// REMARK:      at @k_y: %b is stored, not fused: the kernel needs the scan along a part of an axis
// CHECK-LABEL: func.func @diagonal
// CHECK:         tensor_ext.kernel @k_b(
func.func @diagonal(%x: tensor<64x64xf32>) -> tensor<63xf32> {
  %b = tensor_ext.scan {arith.addf} %x dim 1 : tensor<64x64xf32>
  %l = tensor_ext.index_map %b affine_map<(d0) -> (d0 + 1, d0)> : tensor<64x64xf32> -> tensor<63xf32>
  %y = tensor_ext.elementwise {math.exp} %l : tensor<63xf32>
  func.return %y : tensor<63xf32>
}

// -----

// REMARK:      at @k_y: %b is stored, not fused: it runs along the rows of the kernel
// CHECK-LABEL: func.func @along_rows
// CHECK:         tensor_ext.kernel @k_b(
func.func @along_rows(%x: tensor<64x80xf32>) -> tensor<64x80xf32> {
  %b = tensor_ext.scan {arith.addf} %x dim 0 : tensor<64x80xf32>
  %m = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<64x80xf32> -> tensor<64xf32>
  %d = tensor_ext.index_map %m affine_map<(d0, d1) -> (d0)> : tensor<64xf32> -> tensor<64x80xf32>
  %y = tensor_ext.elementwise {arith.subf} %b, %d : tensor<64x80xf32>
  func.return %y : tensor<64x80xf32>
}

// -----

// REMARK:      at @k_y: %s is stored, not fused: a kernel with a contraction has no scans
// CHECK-LABEL: func.func @beside_contraction
// CHECK:         tensor_ext.kernel @k_s(
func.func @beside_contraction(%x: tensor<64x80xf32>, %w: tensor<80x64xf32>, %z: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %s = tensor_ext.scan {arith.addf} %z dim 1 : tensor<64x64xf32>
  %l = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x80xf32> -> tensor<64x64x80xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<80x64xf32> -> tensor<64x64x80xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<64x64x80xf32>
  %c = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<64x64x80xf32> -> tensor<64x64xf32>
  %y = tensor_ext.elementwise {arith.addf} %s, %c : tensor<64x64xf32>
  func.return %y : tensor<64x64xf32>
}

// -----

// REMARK:      at @k_y: %c is stored, not fused: a kernel with scans has no contraction
// CHECK-LABEL: func.func @contraction_beside
// CHECK:         tensor_ext.kernel @k_c(
func.func @contraction_beside(%x: tensor<64x80xf32>, %w: tensor<80x64xf32>, %z: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %l = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x80xf32> -> tensor<64x64x80xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<80x64xf32> -> tensor<64x64x80xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<64x64x80xf32>
  %c = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<64x64x80xf32> -> tensor<64x64xf32>
  %s = tensor_ext.scan {arith.addf} %z dim 1 : tensor<64x64xf32>
  %y = tensor_ext.elementwise {arith.addf} %s, %c : tensor<64x64xf32>
  func.return %y : tensor<64x64xf32>
}
