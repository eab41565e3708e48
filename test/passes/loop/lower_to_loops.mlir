// RUN: deplodock-opt %s -p form-kernels,lower-to-loops --split-input-file | filecheck %s

// A row is reduced once; what does not depend on the loop inside stands outside it.
// CHECK-LABEL: func.func @main(%x: memref<1x32x2048xf32>, %p_weight: memref<2048xf32>) -> memref<1x32x2048xf32> {
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<1x32x2048xf32>
// CHECK-NEXT:    func.call @k_y(%x, %p_weight, %[[Y]])
// CHECK-NEXT:    func.return %[[Y]] : memref<1x32x2048xf32>
// CHECK:       func.func @k_y(%x: memref<1x32x2048xf32>, %p_weight: memref<2048xf32>, %out: memref<1x32x2048xf32>) {
// CHECK-NEXT:    %inv_n = arith.constant 0.00048828125 : f32
// CHECK-NEXT:    loop.for %a0 = 0 to 32 {
// CHECK-NEXT:      %sum = loop.reduce {arith.addf} %a1 = 0 to 2048 : f32 {
// CHECK-NEXT:        %[[IN:.*]] = loop.load %x[0, %a0, %a1] : memref<1x32x2048xf32>
// CHECK-NEXT:        %sq = arith.mulf %[[IN]], %[[IN]] : f32
// CHECK-NEXT:        loop.yield %sq : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %mean = arith.mulf %sum, %inv_n : f32
// CHECK-NEXT:      %r = math.rsqrt %mean : f32
// CHECK-NEXT:      loop.for %a2 = 0 to 2048 {
// CHECK-NEXT:        %[[IN:.*]] = loop.load %x[0, %a0, %a2] : memref<1x32x2048xf32>
// CHECK-NEXT:        %s = arith.mulf %[[IN]], %r : f32
// CHECK-NEXT:        %[[W:.*]] = loop.load %p_weight[%a2] : memref<2048xf32>
// CHECK-NEXT:        %y = arith.mulf %s, %[[W]] : f32
// CHECK-NEXT:        loop.store %y, %out[0, %a0, %a2] : memref<1x32x2048xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return
// CHECK-NEXT:  }
func.func @main(%x: tensor<1x32x2048xf32>, %p_weight: tensor<2048xf32>) -> tensor<1x32x2048xf32> {
  %sq = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<1x32x2048xf32>
  %sum = tensor_ext.reduce {arith.addf} %sq dims [2] : tensor<1x32x2048xf32> -> tensor<1x32xf32>
  %inv_n = arith.constant dense<0.00048828125> : tensor<1x32xf32>
  %mean = tensor_ext.elementwise {arith.mulf} %sum, %inv_n : tensor<1x32xf32>
  %r = tensor_ext.elementwise {math.rsqrt} %mean : tensor<1x32xf32>
  %rb = tensor_ext.index_map %r affine_map<(d0, d1, d2) -> (d0, d1)> : tensor<1x32xf32> -> tensor<1x32x2048xf32>
  %s = tensor_ext.elementwise {arith.mulf} %x, %rb : tensor<1x32x2048xf32>
  %wb = tensor_ext.index_map %p_weight affine_map<(d0, d1, d2) -> (d2)> : tensor<2048xf32> -> tensor<1x32x2048xf32>
  %y = tensor_ext.elementwise {arith.mulf} %s, %wb : tensor<1x32x2048xf32>
  func.return %y : tensor<1x32x2048xf32>
}

// -----

// The sum of a contraction loads both factors; what follows it stands after it.
// CHECK-LABEL: func.func @k_relu(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>, %out: memref<16x16xf32>) {
// CHECK-NEXT:    %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.for %a0 = 0 to 16 {
// CHECK-NEXT:      loop.for %a1 = 0 to 16 {
// CHECK-NEXT:        %acc = loop.reduce {arith.addf} %a2 = 0 to 64 : f32 {
// CHECK-NEXT:          %[[X:.*]] = loop.load %x[%a0, %a2] : memref<16x64xf32>
// CHECK-NEXT:          %[[B:.*]] = loop.load %bias[%a2] : memref<64xf32>
// CHECK-NEXT:          %xb = arith.addf %[[X]], %[[B]] : f32
// CHECK-NEXT:          %[[W:.*]] = loop.load %w[%a2, %a1] : memref<64x16xf32>
// CHECK-NEXT:          %p = arith.mulf %xb, %[[W]] : f32
// CHECK-NEXT:          loop.yield %p : f32
// CHECK-NEXT:        }
// CHECK-NEXT:        %relu = arith.maximumf %acc, %zero : f32
// CHECK-NEXT:        loop.store %relu, %out[%a0, %a1] : memref<16x16xf32>
func.func @main(%x: tensor<16x64xf32>, %bias: tensor<64xf32>, %w: tensor<64x16xf32>) -> tensor<16x16xf32> {
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

// What a reduction does not need comes after it: values that wait for it would stay in registers.
// CHECK-LABEL: func.func @k_gated(
// CHECK:             %acc = loop.reduce
// CHECK:               loop.yield
// CHECK-NEXT:        }
// CHECK-NEXT:        %[[G:.*]] = loop.load %g[%a0, %a1] : memref<16x16xf32>
// CHECK-NEXT:        %t = math.tanh %[[G]] : f32
// CHECK-NEXT:        %gated = arith.mulf %t, %acc : f32
func.func @main(%g: tensor<16x16xf32>, %x: tensor<16x64xf32>, %w: tensor<16x64xf32>) -> tensor<16x16xf32> {
  %t = tensor_ext.elementwise {math.tanh} %g : tensor<16x16xf32>
  %l = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<16x64xf32> -> tensor<16x16x64xf32>
  %r = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<16x64xf32> -> tensor<16x16x64xf32>
  %p = tensor_ext.elementwise {arith.mulf} %l, %r : tensor<16x16x64xf32>
  %acc = tensor_ext.reduce {arith.addf} %p dims [2] : tensor<16x16x64xf32> -> tensor<16x16xf32>
  %gated = tensor_ext.elementwise {arith.mulf} %t, %acc : tensor<16x16xf32>
  func.return %gated : tensor<16x16xf32>
}

// -----

// Two reductions of a row, the second with the first in its body; the sum of dimension 0 walks rows of columns.
// CHECK-LABEL: func.func @k_q(
// CHECK-NEXT:    loop.for %a0 = 0 to 65 {
// CHECK-NEXT:      %max = loop.reduce {arith.maximumf} %a1 = 0 to 63 : f32 {
// CHECK-NEXT:        %[[IN:.*]] = loop.load %x[0, %a1, %a0] : memref<1x63x65xf32>
// CHECK-NEXT:        loop.yield %[[IN]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %sum = loop.reduce {arith.addf} %a2 = 0 to 63 : f32 {
// CHECK-NEXT:        %[[IN:.*]] = loop.load %x[0, %a2, %a0] : memref<1x63x65xf32>
// CHECK-NEXT:        %[[D:.*]] = arith.subf %[[IN]], %max : f32
// CHECK-NEXT:        %[[E:.*]] = math.exp %[[D]] : f32
// CHECK-NEXT:        loop.yield %[[E]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %a3 = 0 to 63 {
// CHECK:             %[[Q:.*]] = arith.divf %{{.*}}, %sum : f32
// CHECK-NEXT:        loop.store %[[Q]], %out[0, %a3, %a0] : memref<1x63x65xf32>
func.func @main(%x: tensor<1x63x65xf32>) -> tensor<1x63x65xf32> {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<1x63x65xf32> -> tensor<1x65xf32>
  %maxb = tensor_ext.index_map %max affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<1x65xf32> -> tensor<1x63x65xf32>
  %d = tensor_ext.elementwise {arith.subf} %x, %maxb : tensor<1x63x65xf32>
  %e = tensor_ext.elementwise {math.exp} %d : tensor<1x63x65xf32>
  %sum = tensor_ext.reduce {arith.addf} %e dims [1] : tensor<1x63x65xf32> -> tensor<1x65xf32>
  %sumb = tensor_ext.index_map %sum affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<1x65xf32> -> tensor<1x63x65xf32>
  %q = tensor_ext.elementwise {arith.divf} %e, %sumb : tensor<1x63x65xf32>
  func.return %q : tensor<1x63x65xf32>
}

// -----

// Several reduced dimensions are nested reductions, and the free loops after them are nested perfectly.
// CHECK-LABEL: func.func @k_y(
// CHECK-NEXT:    loop.for %a0 = 0 to 2 {
// CHECK-NEXT:      %s = loop.reduce {arith.addf} %a1 = 0 to 3 : f32 {
// CHECK-NEXT:        %[[S:.*]] = loop.reduce {arith.addf} %a2 = 0 to 4 : f32 {
// CHECK-NEXT:          %[[IN:.*]] = loop.load %x[%a0, %a1, %a2] : memref<2x3x4xf32>
// CHECK-NEXT:          loop.yield %[[IN]] : f32
// CHECK-NEXT:        }
// CHECK-NEXT:        loop.yield %[[S]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %a3 = 0 to 3 {
// CHECK-NEXT:        loop.for %a4 = 0 to 4 {
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %s = tensor_ext.reduce {arith.addf} %x dims [1, 2] : tensor<2x3x4xf32> -> tensor<2xf32>
  %b = tensor_ext.index_map %s affine_map<(d0, d1, d2) -> (d0)> : tensor<2xf32> -> tensor<2x3x4xf32>
  %y = tensor_ext.elementwise {arith.subf} %x, %b : tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// -----

// A combiner of several values keeps its region.
// CHECK-LABEL: func.func @k_y(
// CHECK:           %m, %s = loop.reduce %a1 = 0 to 8 : f32, f32 {
// CHECK:             loop.yield %[[IN:.*]], %[[IN]] : f32, f32
// CHECK-NEXT:      } combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.000000e+00 : f32] {
// CHECK-NEXT:        %[[C:.*]] = arith.cmpf oge, %m0, %m1 : f32
// CHECK-NEXT:        %[[M:.*]] = arith.select %[[C]], %m0, %m1 : f32
// CHECK-NEXT:        %[[S:.*]] = arith.select %[[C]], %s0, %s1 : f32
// CHECK-NEXT:        loop.yield %[[M]], %[[S]] : f32, f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[Y:.*]] = arith.addf %m, %s : f32
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %m, %s = tensor_ext.reduce %x, %x dims [1] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4xf32>, tensor<4xf32> combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.0 : f32] {
    %c = arith.cmpf oge, %m0, %m1 : f32
    %a = arith.select %c, %m0, %m1 : f32
    %b = arith.select %c, %s0, %s1 : f32
    tensor_ext.yield %a, %b : f32, f32
  }
  %y = tensor_ext.elementwise {arith.addf} %m, %s : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
