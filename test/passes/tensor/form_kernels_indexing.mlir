// RUN: deplodock-opt %s -p form-kernels --split-input-file 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK

// A gather reads memory, through its own map and the index maps before it; the index is computed in place.
// CHECK-LABEL: func.func @lookup
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_y(%{{.*}} = %t : tensor<4x9xf32>, %{{.*}} = %ids : tensor<3xi64>)
// CHECK:           tensor_ext.gather %{{.*}} at %{{.*}} affine_map<(d0, d1)[s0] -> (d1, s0)>
func.func @lookup(%t: tensor<4x9xf32>, %ids: tensor<3xi64>) -> tensor<3x4xf32> {
  %u = tensor_ext.index_map %t affine_map<(d0, d1) -> (d1, d0)> : tensor<4x9xf32> -> tensor<9x4xf32>
  %i = tensor_ext.index_map %ids affine_map<(d0, d1) -> (d0)> : tensor<3xi64> -> tensor<3x4xi64>
  %r = tensor_ext.gather %u at %i affine_map<(d0, d1)[s0] -> (s0, d1)> : tensor<9x4xf32> at tensor<3x4xi64> -> tensor<3x4xf32>
  %y = tensor_ext.elementwise {math.exp} %r : tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// REMARK: at @k_r: %e is stored, not fused: a gather reads it where an index tensor says
// CHECK-LABEL: func.func @computed_table
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.kernel @k_e
// CHECK:         tensor_ext.kernel @k_r({{.*}} = %[[E]] : tensor<9xf32>)
func.func @computed_table(%t: tensor<9xf32>, %i: tensor<3xi64>) -> tensor<3xf32> {
  %e = tensor_ext.elementwise {math.exp} %t : tensor<9xf32>
  %r = tensor_ext.gather %e at %i affine_map<(d0)[s0] -> (s0)> : tensor<9xf32> at tensor<3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

// All elements of the source are one number: the index tensor is not read, whatever the maps before.
// CHECK-LABEL: func.func @splat
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_y() -> tensor<3xf32> {
// CHECK-NEXT:      %[[C:.*]] = arith.constant dense<1.500000e+00> : tensor<f32>
// CHECK-NEXT:      %[[R:.*]] = tensor_ext.index_map %[[C]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<3xf32>
// CHECK-NEXT:      tensor_ext.elementwise {math.exp} %[[R]]
func.func @splat(%i: tensor<3xi64>) -> tensor<3xf32> {
  %c = arith.constant dense<1.5> : tensor<f32>
  %t = tensor_ext.index_map %c affine_map<(d0) -> ()> : tensor<f32> -> tensor<9xf32>
  %r = tensor_ext.gather %t at %i affine_map<(d0)[s0] -> (s0)> : tensor<9xf32> at tensor<3xi64> -> tensor<3xf32>
  %y = tensor_ext.elementwise {math.exp} %r : tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @splat_of_a_shape
// CHECK-NEXT:    tensor_ext.kernel @k_r() -> tensor<3x4xf32> {
// CHECK:           tensor_ext.index_map %{{.*}} affine_map<(d0, d1) -> (0, 0)>
// CHECK-NEXT:      tensor_ext.yield
func.func @splat_of_a_shape(%i: tensor<3x4xi64>) -> tensor<3x4xf32> {
  %c = arith.constant dense<1.5> : tensor<4x9xf32>
  %r = tensor_ext.gather %c at %i affine_map<(d0, d1)[s0] -> (d1, s0)> {deplodock.fuse = "never"} : tensor<4x9xf32> at tensor<3x4xi64> -> tensor<3x4xf32>
  %y = tensor_ext.elementwise {math.exp} %r : tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// The rotation of RoPE: what is done to a concat is done to its parts, in one kernel.
// CHECK-LABEL: func.func @rotate
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_y(%{{.*}} = %x : tensor<8xf32>, %{{.*}} = %s : tensor<8xf32>) -> tensor<8xf32> {
// CHECK:           %[[C:.*]] = tensor_ext.concat
// CHECK-NEXT:      tensor_ext.yield %[[C]]
// CHECK-NOT:     tensor_ext.kernel
func.func @rotate(%x: tensor<8xf32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  %a = tensor_ext.index_map %x affine_map<(d0) -> (d0)> : tensor<8xf32> -> tensor<4xf32>
  %b = tensor_ext.index_map %x affine_map<(d0) -> (d0 + 4)> : tensor<8xf32> -> tensor<4xf32>
  %n = tensor_ext.elementwise {arith.negf} %b : tensor<4xf32>
  %c = tensor_ext.concat %n, %a dim 0 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %m = tensor_ext.elementwise {arith.mulf} %c, %s : tensor<8xf32>
  %y = tensor_ext.elementwise {arith.addf} %m, %x : tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

// A concat that something else reads is stored; a part that is a reduction is stored before it.
// REMARK: at @k_c: %r is stored, not fused: the kernel stores a concat, whose parts have spaces of their own
// REMARK: at @k_s: %c is stored, not fused: its parts are stored side by side
// CHECK-LABEL: func.func @stored
// CHECK-NEXT:    %[[R:.*]] = tensor_ext.kernel @k_r
// CHECK:         %[[C:.*]] = tensor_ext.kernel @k_c({{.*}} = %[[R]] : tensor<8xf32>)
// CHECK:         tensor_ext.kernel @k_s({{.*}} = %[[C]] : tensor<16xf32>)
func.func @stored(%x: tensor<8x8xf32>, %y: tensor<8xf32>) -> tensor<f32> {
  %r = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<8x8xf32> -> tensor<8xf32>
  %c = tensor_ext.concat %r, %y dim 0 : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  %s = tensor_ext.reduce {arith.maximumf} %c dims [0] : tensor<16xf32> -> tensor<f32>
  func.return %s : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @nested
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_d
// CHECK-NEXT:      tensor_ext.concat %{{.*}}, %{{.*}}, %{{.*}} dim 0 : tensor<4xf32>, tensor<2xf32>, tensor<4xf32> -> tensor<10xf32>
func.func @nested(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<10xf32> {
  %c = tensor_ext.concat %x, %y dim 0 : tensor<4xf32>, tensor<2xf32> -> tensor<6xf32>
  %d = tensor_ext.concat %c, %x dim 0 : tensor<6xf32>, tensor<4xf32> -> tensor<10xf32>
  func.return %d : tensor<10xf32>
}

// -----

// What is gathered is in memory: prices do not look for the reduction that made it.
// CHECK-LABEL: func.func @gathered_sum
// CHECK-NEXT:    %[[SUM:.*]] = tensor_ext.kernel @k_sum
// CHECK:         tensor_ext.kernel @k_cat({{.*}} = %[[SUM]] : tensor<16x2xf32>)
func.func @gathered_sum(%x: tensor<16x17xf32>, %at: tensor<16x2xi64>, %y: tensor<16x2xf32>) -> tensor<48x2xf32> {
  %xw = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<16x17xf32> -> tensor<16x2x17xf32>
  %sum = tensor_ext.reduce {arith.addf} %xw dims [2] : tensor<16x2x17xf32> -> tensor<16x2xf32>
  %rows = tensor_ext.gather %sum at %at affine_map<(d0, d1)[s0] -> (d0, s0)> : tensor<16x2xf32> at tensor<16x2xi64> -> tensor<16x2xf32>
  %cat = tensor_ext.concat %rows, %y, %rows dim 0 : tensor<16x2xf32>, tensor<16x2xf32>, tensor<16x2xf32> -> tensor<48x2xf32>
  func.return %cat : tensor<48x2xf32>
}

// -----

// A pad is computed where it is needed, and reads memory: the tensor itself, in the order and the type that it has.
// CHECK-LABEL: func.func @padded_windows
// CHECK-NEXT:    tensor_ext.kernel @k_sum(%{{.*}} = %x : tensor<6x5xbf16>, %{{.*}} = %w : tensor<4x3xf32>)
// CHECK:           %[[P:.*]] = tensor_ext.pad %{{.*}} affine_map<(d0, d1) -> ((d1 + -1), d0)> : tensor<6x5xbf16> -> tensor<5x8xbf16>
// CHECK-NEXT:      tensor_ext.elementwise {arith.extf} %[[P]] : tensor<5x8xbf16> -> tensor<5x8xf32>
func.func @padded_windows(%x: tensor<6x5xbf16>, %w: tensor<4x3xf32>) -> tensor<4x5x6xf32> {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1, d0)> : tensor<6x5xbf16> -> tensor<5x6xbf16>
  %f = tensor_ext.elementwise {arith.extf} %t : tensor<5x6xbf16> -> tensor<5x6xf32>
  %p = tensor_ext.pad %f affine_map<(d0, d1) -> (d0, d1 - 1)> : tensor<5x6xf32> -> tensor<5x8xf32>
  %a = tensor_ext.index_map %p affine_map<(d0, d1, d2, d3) -> (d1, d2 + d3)> : tensor<5x8xf32> -> tensor<4x5x6x3xf32>
  %b = tensor_ext.index_map %w affine_map<(d0, d1, d2, d3) -> (d0, d3)> : tensor<4x3xf32> -> tensor<4x5x6x3xf32>
  %product = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<4x5x6x3xf32>
  %sum = tensor_ext.reduce {arith.addf} %product dims [3] : tensor<4x5x6x3xf32> -> tensor<4x5x6xf32>
  func.return %sum : tensor<4x5x6xf32>
}

// -----

// A dimension of one that is left out is padded, too.
// CHECK-LABEL: func.func @padded_ones
// CHECK:           tensor_ext.pad %{{.*}} affine_map<(d0, d1) -> ((d1 + -2), 0)> : tensor<5x1xf32> -> tensor<1x6xf32>
// CHECK-LABEL: func.func @padded_column
// CHECK:           tensor_ext.pad %{{.*}} affine_map<(d0, d1) -> ((d0 + -1), (d1 + -2))> : tensor<1x5xf32> -> tensor<3x6xf32>
// CHECK-LABEL: func.func @padded_beside
// CHECK:           tensor_ext.pad %{{.*}} affine_map<(d0, d1) -> ((d0 + -1), (d1 + -2))> : tensor<1x5xf32> -> tensor<3x6xf32>
// CHECK-LABEL: func.func @padded_row
// CHECK:           tensor_ext.pad %{{.*}} affine_map<(d0, d1) -> ((d1 + -2))> : tensor<5xf32> -> tensor<1x6xf32>
func.func @padded_ones(%x: tensor<5x1xf32>) -> tensor<1x6xf32> {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1, 0)> : tensor<5x1xf32> -> tensor<1x5xf32>
  %p = tensor_ext.pad %t affine_map<(d0, d1) -> (0, d1 - 2)> : tensor<1x5xf32> -> tensor<1x6xf32>
  func.return %p : tensor<1x6xf32>
}
func.func @padded_column(%x: tensor<1x5xf32>) -> tensor<3x6xf32> {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (0, d1)> : tensor<1x5xf32> -> tensor<1x5xf32>
  %p = tensor_ext.pad %t affine_map<(d0, d1) -> (d0 - 1, d1 - 2)> : tensor<1x5xf32> -> tensor<3x6xf32>
  func.return %p : tensor<3x6xf32>
}
func.func @padded_beside(%x: tensor<5xf32>) -> tensor<3x6xf32> {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1)> : tensor<5xf32> -> tensor<1x5xf32>
  %p = tensor_ext.pad %t affine_map<(d0, d1) -> (d0 - 1, d1 - 2)> : tensor<1x5xf32> -> tensor<3x6xf32>
  func.return %p : tensor<3x6xf32>
}
func.func @padded_row(%x: tensor<5xf32>) -> tensor<1x6xf32> {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1)> : tensor<5xf32> -> tensor<1x5xf32>
  %p = tensor_ext.pad %t affine_map<(d0, d1) -> (d0, d1 - 2)> : tensor<1x5xf32> -> tensor<1x6xf32>
  func.return %p : tensor<1x6xf32>
}

// -----

// What is computed is stored without zeros. A slice has elements of its source beside it, not zeros, and is stored, too.
// REMARK: at @k_sum: %s is stored, not fused: a pad reads it, or zeros beyond its ends
// CHECK-LABEL: func.func @padded_results
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.kernel @k_e
// CHECK:         %[[S:.*]] = tensor_ext.kernel @k_s
// CHECK:         tensor_ext.kernel @k_sum({{.*}} = %[[E]] : tensor<6xf32>, {{.*}} = %[[S]] : tensor<6xf32>)
func.func @padded_results(%x: tensor<6xf32>, %y: tensor<9xf32>) -> tensor<8xf32> {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<6xf32>
  %s = tensor_ext.index_map %y affine_map<(d0) -> (d0 + 2)> : tensor<9xf32> -> tensor<6xf32>
  %p = tensor_ext.pad %e affine_map<(d0) -> (d0 - 1)> : tensor<6xf32> -> tensor<8xf32>
  %q = tensor_ext.pad %s affine_map<(d0) -> (d0 - 1)> : tensor<6xf32> -> tensor<8xf32>
  %sum = tensor_ext.elementwise {arith.addf} %p, %q : tensor<8xf32>
  func.return %sum : tensor<8xf32>
}

// -----

// What follows a reduction stays with it where a concat needs it: fold-copies has that kernel store it in its place.
// CHECK-LABEL: func.func @after_a_sum
// CHECK:         tensor_ext.kernel @k_e(
// CHECK:           tensor_ext.reduce
// CHECK-NEXT:      tensor_ext.elementwise {math.exp}
// CHECK:         tensor_ext.kernel @k_cat(
// REMARK: at @k_cat: %e is stored, not fused: the kernel of the reduction can store it in its place in the concat
func.func @after_a_sum(%x: tensor<16x17xf32>, %y: tensor<8xf32>) -> tensor<24xf32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<16x17xf32> -> tensor<16xf32>
  %e = tensor_ext.elementwise {math.exp} %sum : tensor<16xf32>
  %cat = tensor_ext.concat %e, %y dim 0 : tensor<16xf32>, tensor<8xf32> -> tensor<24xf32>
  func.return %cat : tensor<24xf32>
}

// -----

// A concat of the rows that two kernels need is in memory for both, which stay two.
// CHECK-LABEL: func.func @concat_of_rows
// CHECK:         tensor_ext.kernel @k_c(
// CHECK:         tensor_ext.kernel @k_e(
// CHECK:         tensor_ext.kernel @k_r(
func.func @concat_of_rows(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<64x8xf32>) -> (tensor<64x8xf32>, tensor<8xf32>) {
  %c = tensor_ext.concat %x, %y dim 0 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %s = tensor_ext.reduce {arith.addf} %z dims [0] : tensor<64x8xf32> -> tensor<8xf32>
  %b = tensor_ext.index_map %c affine_map<(d0, d1) -> (d1)> : tensor<8xf32> -> tensor<64x8xf32>
  %e = tensor_ext.elementwise {arith.addf} %b, %z : tensor<64x8xf32>
  %r = tensor_ext.elementwise {arith.mulf} %c, %s : tensor<8xf32>
  func.return %e, %r : tensor<64x8xf32>, tensor<8xf32>
}
