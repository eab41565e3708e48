// RUN: deplodock-opt %s -p form-kernels --split-input-file 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix=REMARK

// Many columns would compute a row of the norm again; storing it costs less.
// REMARK:      at @k_out: %norm is stored, not fused: computing it there costs {{[0-9.]+}} us, storing it {{[0-9.]+}} us
// CHECK-LABEL: func.func @norm_matmul
// CHECK-NEXT:    %[[N:.*]] = tensor_ext.kernel @k_norm(
// CHECK:           tensor_ext.reduce
// CHECK:         %{{.*}} = tensor_ext.kernel @k_out({{.*}} = %w : {{.*}} = %[[N]] : tensor<800x320xf32>)
func.func @norm_matmul(%x: tensor<800x320xf32>, %w: tensor<1600x320xf32>) -> tensor<800x1600xf32> {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<800x320xf32> -> tensor<800xf32>
  %b = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<800xf32> -> tensor<800x320xf32>
  %norm = tensor_ext.elementwise {arith.mulf} %x, %b : tensor<800x320xf32>
  %l = tensor_ext.index_map %norm affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<800x320xf32> -> tensor<800x1600x320xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1600x320xf32> -> tensor<800x1600x320xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<800x1600x320xf32>
  %out = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<800x1600x320xf32> -> tensor<800x1600xf32>
  func.return %out : tensor<800x1600xf32>
}

// -----

// With few columns they do, and only the statistic of each row is stored.
// CHECK-LABEL: func.func @norm_thin_matmul
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.kernel @k_max(
// CHECK:         %{{.*}} = tensor_ext.kernel @k_out({{.*}} = %[[M]] : tensor<8xf32>)
func.func @norm_thin_matmul(%x: tensor<8x32xf32>, %w: tensor<16x32xf32>) -> tensor<8x16xf32> {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<8x32xf32> -> tensor<8xf32>
  %b = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<8xf32> -> tensor<8x32xf32>
  %norm = tensor_ext.elementwise {arith.mulf} %x, %b : tensor<8x32xf32>
  %l = tensor_ext.index_map %norm affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<8x32xf32> -> tensor<8x16x32xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<16x32xf32> -> tensor<8x16x32xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<8x16x32xf32>
  %out = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<8x16x32xf32> -> tensor<8x16xf32>
  func.return %out : tensor<8x16xf32>
}

// -----

// A kernel holds one contraction of f32 factors; what joins the two goes into the second.
// REMARK:      at @k_out: %v is stored, not fused: no tensor core takes the factors, and contractions in registers would halve each other's tile
// CHECK-LABEL: func.func @gate_up
// CHECK-NEXT:    %[[V:.*]] = tensor_ext.kernel @k_v(
// CHECK:         %{{.*}} = tensor_ext.kernel @k_out({{.*}} = %[[V]] : tensor<8x16xf32>)
func.func @gate_up(%x: tensor<8x32xf32>, %g: tensor<16x32xf32>, %u: tensor<16x32xf32>) -> tensor<8x16xf32> {
  %l = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<8x32xf32> -> tensor<8x16x32xf32>
  %q = tensor_ext.index_map %u affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<16x32xf32> -> tensor<8x16x32xf32>
  %o = tensor_ext.elementwise {arith.mulf} %l, %q : tensor<8x16x32xf32>
  %v = tensor_ext.reduce {arith.addf} %o dims [2] : tensor<8x16x32xf32> -> tensor<8x16xf32>
  %r = tensor_ext.index_map %g affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<16x32xf32> -> tensor<8x16x32xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<8x16x32xf32>
  %s = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<8x16x32xf32> -> tensor<8x16xf32>
  %out = tensor_ext.elementwise {arith.mulf} %s, %v : tensor<8x16xf32>
  func.return %out : tensor<8x16xf32>
}

// -----

// A reduction needed at two rows at once would run twice.
// REMARK:      at @k_y: %s is stored, not fused: the kernel needs the reduction at several indices and would compute it again
// CHECK-LABEL: func.func @two_rows
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.kernel @k_s(
// CHECK:         tensor_ext.kernel @k_y({{.*}} = %[[S]] : tensor<4xf32>)
func.func @two_rows(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %s = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %a = tensor_ext.index_map %s affine_map<(d0, d1) -> (d0)> : tensor<4xf32> -> tensor<4x4xf32>
  %b = tensor_ext.index_map %s affine_map<(d0, d1) -> (d1)> : tensor<4xf32> -> tensor<4x4xf32>
  %y = tensor_ext.elementwise {arith.addf} %a, %b : tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

// So would one whose rows are a part of an axis.
// REMARK:      at @k_flat: %s is stored, not fused: the kernel needs the reduction along a part of an axis and would compute it again
// CHECK-LABEL: func.func @part_of_an_axis
// CHECK:         tensor_ext.kernel @k_s(
// CHECK:         tensor_ext.kernel @k_flat(
func.func @part_of_an_axis(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %s = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %a = tensor_ext.index_map %s affine_map<(d0, d1) -> (d0)> : tensor<4xf32> -> tensor<4x8xf32>
  %flat = tensor_ext.index_map %a affine_map<(d0) -> (d0 floordiv 8, d0 mod 8)> : tensor<4x8xf32> -> tensor<32xf32>
  func.return %flat : tensor<32xf32>
}

// -----

// A contraction that is read in another order of its points, split or joined, is still computed once.
// CHECK-LABEL: func.func @heads
// CHECK:         tensor_ext.kernel @k_h(
// CHECK-NOT:     tensor_ext.kernel
func.func @heads(%x: tensor<8x32xf32>, %w: tensor<16x32xf32>) -> tensor<4x8x4xf32> {
  %l = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<8x32xf32> -> tensor<8x16x32xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<16x32xf32> -> tensor<8x16x32xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<8x16x32xf32>
  %o = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<8x16x32xf32> -> tensor<8x16xf32>
  %h = tensor_ext.index_map %o affine_map<(d0, d1, d2) -> (d1, d0 * 4 + d2)> : tensor<8x16xf32> -> tensor<4x8x4xf32>
  func.return %h : tensor<4x8x4xf32>
}
