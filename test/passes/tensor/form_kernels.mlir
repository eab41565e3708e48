// RUN: deplodock-opt %s -p form-kernels --split-input-file | filecheck %s

// A reduction and what follows on its rows are one kernel, with the names of the source.
// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT:    %[[Y:.*]] = tensor_ext.kernel @k_y(%[[X:.*]] = %x : tensor<1x32x2048xf32>, %[[W:.*]] = %p_weight : tensor<2048xf32>) -> tensor<1x32x2048xf32> {
// CHECK-NEXT:      %sq = tensor_ext.elementwise {arith.mulf} %[[X]], %[[X]]
// CHECK-NEXT:      %sum = tensor_ext.reduce {arith.addf} %sq dims [2]
// CHECK:           %[[S:.*]] = tensor_ext.elementwise {arith.mulf} %[[X]], %{{.*}} : tensor<1x32x2048xf32>
// CHECK:           %[[R:.*]] = tensor_ext.elementwise {arith.mulf} %[[S]], %{{.*}} : tensor<1x32x2048xf32>
// CHECK-NEXT:      tensor_ext.yield %[[R]] : tensor<1x32x2048xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[Y]]
func.func @rms_norm(%x: tensor<1x32x2048xf32>, %p_weight: tensor<2048xf32>) -> tensor<1x32x2048xf32> {
  %sq = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<1x32x2048xf32>
  %sum = tensor_ext.reduce {arith.addf} %sq dims [2] : tensor<1x32x2048xf32> -> tensor<1x32xf32>
  %r = tensor_ext.elementwise {math.rsqrt} %sum : tensor<1x32xf32>
  %rb = tensor_ext.index_map %r affine_map<(d0, d1, d2) -> (d0, d1)> : tensor<1x32xf32> -> tensor<1x32x2048xf32>
  %s = tensor_ext.elementwise {arith.mulf} %x, %rb : tensor<1x32x2048xf32>
  %wb = tensor_ext.index_map %p_weight affine_map<(d0, d1, d2) -> (d2)> : tensor<2048xf32> -> tensor<1x32x2048xf32>
  %y = tensor_ext.elementwise {arith.mulf} %s, %wb : tensor<1x32x2048xf32>
  func.return %y : tensor<1x32x2048xf32>
}

// -----

// Additions before a contraction and anything pointwise after it are in its kernel.
// CHECK-LABEL: func.func @relu_matmul
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_relu({{.*}} = %x : {{.*}} = %bias : {{.*}} = %w : {{.*}}) -> tensor<16x16xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @relu_matmul(%x: tensor<16x64xf32>, %bias: tensor<64xf32>, %w: tensor<64x16xf32>) -> tensor<16x16xf32> {
  %b = tensor_ext.index_map %bias affine_map<(d0, d1) -> (d1)> : tensor<64xf32> -> tensor<16x64xf32>
  %xb = tensor_ext.elementwise {arith.addf} %x, %b : tensor<16x64xf32>
  %l = tensor_ext.index_map %xb affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<16x64xf32> -> tensor<16x16x64xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<64x16xf32> -> tensor<16x16x64xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<16x16x64xf32>
  %acc = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<16x16x64xf32> -> tensor<16x16xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %relu = tensor_ext.elementwise {arith.maximumf} %acc, %zero : tensor<16x16xf32>
  func.return %relu : tensor<16x16xf32>
}

// -----

// Two reductions of the same rows share a kernel; that of other rows does not.
// CHECK-LABEL: func.func @softmax_then_column_sum
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_sum({{.*}} = %x : tensor<8x32xf32>) -> tensor<8xf32>
// CHECK:           tensor_ext.reduce {arith.maximumf} %{{.*}} dims [1]
// CHECK:           tensor_ext.reduce {arith.addf} %{{.*}} dims [1]
// CHECK:         tensor_ext.kernel @k_columns
// CHECK:           tensor_ext.reduce {arith.addf} %{{.*}} dims [0]
func.func @softmax_then_column_sum(%x: tensor<8x32xf32>) -> tensor<32xf32> {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<8x32xf32> -> tensor<8xf32>
  %maxb = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<8xf32> -> tensor<8x32xf32>
  %d = tensor_ext.elementwise {arith.subf} %x, %maxb : tensor<8x32xf32>
  %sum = tensor_ext.reduce {arith.addf} %d dims [1] : tensor<8x32xf32> -> tensor<8xf32>
  %sumb = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<8xf32> -> tensor<8x32xf32>
  %q = tensor_ext.elementwise {arith.divf} %x, %sumb : tensor<8x32xf32>
  %columns = tensor_ext.reduce {arith.addf} %q dims [0] : tensor<8x32xf32> -> tensor<32xf32>
  func.return %columns : tensor<32xf32>
}

// -----

// A copy, a constant and a returned argument.
// CHECK-LABEL: func.func @trivial
// CHECK-NEXT:    %[[T:.*]] = tensor_ext.kernel @k_t(%{{.*}} = %x : tensor<3x4xf32>) -> tensor<4x3xf32> {
// CHECK:         %[[C:.*]] = tensor_ext.kernel @k_c() -> tensor<2xf32> {
// CHECK-NEXT:      %{{.*}} = arith.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK:         func.return %x, %[[T]], %[[C]]
func.func @trivial(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4x3xf32>, tensor<2xf32>) {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1, d0)> : tensor<3x4xf32> -> tensor<4x3xf32>
  %c = arith.constant dense<1.0> : tensor<2xf32>
  func.return %x, %t, %c : tensor<3x4xf32>, tensor<4x3xf32>, tensor<2xf32>
}

// -----

// Operations that nothing returned needs are dropped; without a hint the kernel is named after what it does.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_elementwise
// CHECK-NOT:     math.exp
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  %1 = tensor_ext.elementwise {arith.negf} %x : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
