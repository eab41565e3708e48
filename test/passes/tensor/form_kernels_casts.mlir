// RUN: deplodock-opt %s -p form-kernels --split-input-file | filecheck %s

// A widening cast is never stored: both kernels of two contractions read the narrow tensor.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT:    %p = tensor_ext.kernel @k_p(%{{.*}} = %x : tensor<512x512xbf16>, %{{.*}} = %y : tensor<512x512xbf16>) -> tensor<512x512xf32> {
// CHECK:         %q = tensor_ext.kernel @k_q(%{{.*}} = %x : tensor<512x512xbf16>, %{{.*}} = %z : tensor<512x512xf32>) -> tensor<512x512xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @shared(%x: tensor<512x512xbf16>, %y: tensor<512x512xbf16>, %z: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
  %w = tensor_ext.elementwise {arith.extf} %x : tensor<512x512xbf16> -> tensor<512x512xf32>
  %v = tensor_ext.elementwise {arith.extf} %y : tensor<512x512xbf16> -> tensor<512x512xf32>
  %a = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %b = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %c = tensor_ext.index_map %z affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<512x512x512xf32>
  %ac = tensor_ext.elementwise {arith.mulf} %a, %c : tensor<512x512x512xf32>
  %p = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<512x512x512xf32> -> tensor<512x512xf32>
  %q = tensor_ext.reduce {arith.addf} %ac dims [2] : tensor<512x512x512xf32> -> tensor<512x512xf32>
  func.return %p, %q : tensor<512x512xf32>, tensor<512x512xf32>
}

// -----

// What is computed before the cast is stored as it is, narrow.
// CHECK-LABEL: func.func @behind
// CHECK:         %h = tensor_ext.kernel @k_h(%{{.*}} = %x : tensor<512x512xf32>) -> tensor<512x512xf16> {
// CHECK:         %p = tensor_ext.kernel @k_p(%{{.*}} = %y : tensor<512x512xf32>, %{{.*}} = %h : tensor<512x512xf16>) -> tensor<512x512xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @behind(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<512x512xf32>
  %h = tensor_ext.elementwise {arith.truncf} %e : tensor<512x512xf32> -> tensor<512x512xf16>
  %w = tensor_ext.elementwise {arith.extf} %h : tensor<512x512xf16> -> tensor<512x512xf32>
  %a = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %b = tensor_ext.index_map %y affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<512x512x512xf32>
  %p = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<512x512x512xf32> -> tensor<512x512xf32>
  func.return %p : tensor<512x512xf32>
}

// -----

// Nor is what only reads one in other places: keys and values that several heads share.
// CHECK-LABEL: func.func @repeated
// CHECK-NEXT:    %p = tensor_ext.kernel @k_p(%{{.*}} = %x : tensor<28x512x128xbf16>, %{{.*}} = %y : tensor<4x512x128xbf16>) -> tensor<28x512x512xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @repeated(%x: tensor<28x512x128xbf16>, %y: tensor<4x512x128xbf16>) -> tensor<28x512x512xf32> {
  %w = tensor_ext.elementwise {arith.extf} %x : tensor<28x512x128xbf16> -> tensor<28x512x128xf32>
  %v = tensor_ext.elementwise {arith.extf} %y : tensor<4x512x128xbf16> -> tensor<4x512x128xf32>
  %r = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d0 floordiv 7, d1, d2)> : tensor<4x512x128xf32> -> tensor<28x512x128xf32>
  %a = tensor_ext.index_map %w affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)> : tensor<28x512x128xf32> -> tensor<28x512x512x128xf32>
  %b = tensor_ext.index_map %r affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)> : tensor<28x512x128xf32> -> tensor<28x512x512x128xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<28x512x512x128xf32>
  %p = tensor_ext.reduce {arith.addf} %ab dims [3] : tensor<28x512x512x128xf32> -> tensor<28x512x512xf32>
  func.return %p : tensor<28x512x512xf32>
}

// -----

// Parts that are cast alike are stored side by side as they are, narrow.
// CHECK-LABEL: func.func @concat
// CHECK:         %{{.*}} = tensor_ext.kernel @k_{{.*}} -> tensor<512x512xbf16> {
// CHECK:           tensor_ext.concat %{{.*}}, %{{.*}} dim 1 : tensor<512x256xbf16>, tensor<512x256xbf16> -> tensor<512x512xbf16>
// CHECK:         %p = tensor_ext.kernel @k_p(%{{.*}} : tensor<512x512xf32>, %{{.*}} : tensor<512x512xbf16>) -> tensor<512x512xf32> {
func.func @concat(%x: tensor<512x256xbf16>, %y: tensor<512x256xbf16>, %z: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %h = tensor_ext.concat %x, %y dim 1 : tensor<512x256xbf16>, tensor<512x256xbf16> -> tensor<512x512xbf16>
  %w = tensor_ext.elementwise {arith.extf} %h : tensor<512x512xbf16> -> tensor<512x512xf32>
  %a = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %b = tensor_ext.index_map %z affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<512x512x512xf32>
  %p = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<512x512x512xf32> -> tensor<512x512xf32>
  func.return %p : tensor<512x512xf32>
}

// -----

// A sum that is stored, and rounded by what reads it, is rounded before.
// CHECK-LABEL: func.func @rounded
// CHECK:         %h = tensor_ext.kernel @k_h(%{{.*}} : tensor<512x512xf32>, %{{.*}} : tensor<512x512xf32>) -> tensor<512x512xbf16> {
// CHECK:         %y = tensor_ext.kernel @k_y({{.*}} = %h : tensor<512x512xbf16>) -> tensor<512x512xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @rounded(%x: tensor<512x512xf32>, %z: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %a = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %b = tensor_ext.index_map %z affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<512x512x512xf32>
  %p = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<512x512x512xf32> -> tensor<512x512xf32>
  %c = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d2, d0)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %d = tensor_ext.index_map %z affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<512x512xf32> -> tensor<512x512x512xf32>
  %cd = tensor_ext.elementwise {arith.mulf} %c, %d : tensor<512x512x512xf32>
  %q = tensor_ext.reduce {arith.addf} %cd dims [2] : tensor<512x512x512xf32> -> tensor<512x512xf32>
  %h = tensor_ext.elementwise {arith.truncf} %p : tensor<512x512xf32> -> tensor<512x512xbf16>
  %w = tensor_ext.elementwise {arith.extf} %h : tensor<512x512xbf16> -> tensor<512x512xf32>
  %y = tensor_ext.elementwise {arith.mulf} %w, %q : tensor<512x512xf32>
  func.return %y : tensor<512x512xf32>
}
