// RUN: deplodock-opt %s -p form-kernels,lower-to-loops --split-input-file | filecheck %s

// A transposition is a copy with exchanged subscripts; the stores are contiguous.
// CHECK-LABEL: func.func @k_t(
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK-NEXT:      loop.for %a1 = 0 to 3 {
// CHECK-NEXT:        %[[IN:.*]] = loop.load %x[%a1, %a0] : memref<3x4xf32>
// CHECK-NEXT:        loop.store %[[IN]], %out[%a0, %a1] : memref<4x3xf32>
func.func @main(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %t = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1, d0)> : tensor<3x4xf32> -> tensor<4x3xf32>
  func.return %t : tensor<4x3xf32>
}

// -----

// Ranges simplify a reshape and its inverse away.
// CHECK-LABEL: func.func @k_y(
// CHECK:           %[[IN:.*]] = loop.load %x[%a0, %a1] : memref<6x4xf32>
// CHECK-NEXT:      %y = arith.addf %[[IN]], %[[IN]] : f32
func.func @main(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %r = tensor_ext.index_map %x affine_map<(d0, d1) -> ((d0 * 3 + d1) floordiv 4, (d0 * 3 + d1) mod 4)> : tensor<6x4xf32> -> tensor<8x3xf32>
  %b = tensor_ext.index_map %r affine_map<(d0, d1) -> ((d0 * 4 + d1) floordiv 3, (d0 * 4 + d1) mod 3)> : tensor<8x3xf32> -> tensor<6x4xf32>
  %y = tensor_ext.elementwise {arith.addf} %b, %x : tensor<6x4xf32>
  func.return %y : tensor<6x4xf32>
}

// -----

// What is left of a reshape stands in the subscripts.
// CHECK-LABEL: func.func @k_r(
// CHECK-NEXT:    loop.for %a0 = 0 to 8 {
// CHECK-NEXT:      loop.for %a1 = 0 to 3 {
// CHECK-NEXT:        %[[IN:.*]] = loop.load %x[(%a0 * 3 + %a1) floordiv 4, (%a0 * 3 + %a1) mod 4] : memref<6x4xf32>
func.func @main(%x: tensor<6x4xf32>) -> tensor<8x3xf32> {
  %r = tensor_ext.index_map %x affine_map<(d0, d1) -> ((d0 * 3 + d1) floordiv 4, (d0 * 3 + d1) mod 4)> : tensor<6x4xf32> -> tensor<8x3xf32>
  func.return %r : tensor<8x3xf32>
}

// -----

// Slices and flips are offsets and strides; equal elements are loaded once.
// CHECK-LABEL: func.func @k_y(
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK-NEXT:      %[[A:.*]] = loop.load %x[%a0 * 2 + 1] : memref<9xf32>
// CHECK-NEXT:      %[[B:.*]] = loop.load %x[%a0 * -1 + 8] : memref<9xf32>
// CHECK-NEXT:      %p = arith.mulf %[[A]], %[[B]] : f32
// CHECK-NEXT:      %y = arith.addf %p, %[[A]] : f32
func.func @main(%x: tensor<9xf32>) -> tensor<4xf32> {
  %s = tensor_ext.index_map %x affine_map<(d0) -> (d0 * 2 + 1)> : tensor<9xf32> -> tensor<4xf32>
  %again = tensor_ext.index_map %x affine_map<(d0) -> (d0 * 2 + 1)> : tensor<9xf32> -> tensor<4xf32>
  %flip = tensor_ext.index_map %x affine_map<(d0) -> (8 - d0)> : tensor<9xf32> -> tensor<4xf32>
  %p = tensor_ext.elementwise {arith.mulf} %s, %flip : tensor<4xf32>
  %y = tensor_ext.elementwise {arith.addf} %p, %again : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// A producer that a diamond needs at one index is computed once, at two indices twice.
// CHECK-LABEL: func.func @k_z(
// CHECK:           %e = math.exp
// CHECK-NEXT:      %[[T:.*]] = loop.load %x[%a1, %a0] : memref<3x3xf32>
// CHECK-NEXT:      %[[ET:.*]] = math.exp %[[T]] : f32
// CHECK-NEXT:      %y = arith.addf %e, %[[ET]] : f32
// CHECK-NEXT:      %z = arith.mulf %y, %e : f32
func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<3x3xf32>
  %t = tensor_ext.index_map %e affine_map<(d0, d1) -> (d1, d0)> : tensor<3x3xf32> -> tensor<3x3xf32>
  %y = tensor_ext.elementwise {arith.addf} %e, %t : tensor<3x3xf32>
  %z = tensor_ext.elementwise {arith.mulf} %y, %e : tensor<3x3xf32>
  func.return %z : tensor<3x3xf32>
}
