// Messages of the verifier say what does not fit.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: dim 2 is not below the rank of tensor<4x8xi64>
func.func @dim() {
  %0 = tensor_ext.iota dim 2 : tensor<4x8xi64>
  func.return
}

// -----

// CHECK: iota counts in i32 or i64, not f32
func.func @float() {
  %0 = tensor_ext.iota dim 0 : tensor<4xf32>
  func.return
}

// -----

// CHECK: gather keeps the element type, got tensor<9xf32> and tensor<3xf64>
func.func @element(%t: tensor<9xf32>, %i: tensor<3xi64>) {
  %0 = tensor_ext.gather %t at %i affine_map<(d0)[s0] -> (s0)> : tensor<9xf32> at tensor<3xi64> -> tensor<3xf64>
  func.return
}

// -----

// CHECK: an index is i32 or i64 and has the shape of the result tensor<3xf32>, got tensor<4xi64>
func.func @shape(%t: tensor<9xf32>, %i: tensor<4xi64>) {
  %0 = tensor_ext.gather %t at %i affine_map<(d0)[s0] -> (s0)> : tensor<9xf32> at tensor<4xi64> -> tensor<3xf32>
  func.return
}

// -----

// CHECK: the map must take the result's 1 indices and a symbol for each of the 1 index tensors (at least one) to the source's 2
func.func @map(%t: tensor<9x4xf32>, %i: tensor<3xi64>) {
  %0 = tensor_ext.gather %t at %i affine_map<(d0)[s0] -> (s0)> : tensor<9x4xf32> at tensor<3xi64> -> tensor<3xf32>
  func.return
}

// -----

// CHECK: (tensor<2x4xf32>, tensor<3x4xf32>) one after the other along dimension 0 are not tensor<6x4xf32>
func.func @extent(%a: tensor<2x4xf32>, %b: tensor<3x4xf32>) {
  %0 = tensor_ext.concat %a, %b dim 0 : tensor<2x4xf32>, tensor<3x4xf32> -> tensor<6x4xf32>
  func.return
}

// -----

// CHECK: (tensor<2x4xf32>, tensor<4xf32>) one after the other along dimension 0 are not tensor<6x4xf32>
func.func @rank(%a: tensor<2x4xf32>, %b: tensor<4xf32>) {
  %0 = tensor_ext.concat %a, %b dim 0 : tensor<2x4xf32>, tensor<4xf32> -> tensor<6x4xf32>
  func.return
}
