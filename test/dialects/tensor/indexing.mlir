// iota, gather, pad and concat survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @forms
func.func @forms(%t: tensor<9x4xf32>, %i: tensor<3x4xi64>, %j: tensor<3x4xi32>, %a: tensor<2x4xf32>, %b: tensor<0x4xf32>) {
  // CHECK-NEXT: %col = tensor_ext.iota dim 1 : tensor<4x8xi64>
  %col = tensor_ext.iota dim 1 : tensor<4x8xi64>
  // CHECK-NEXT: %row = tensor_ext.iota dim 0 {note} : tensor<4xi32>
  %row = tensor_ext.iota dim 0 {note} : tensor<4xi32>
  // CHECK-NEXT: %rows = tensor_ext.gather %t at %i affine_map<(d0, d1)[s0] -> (s0, d1)> : tensor<9x4xf32> at tensor<3x4xi64> -> tensor<3x4xf32>
  %rows = tensor_ext.gather %t at %i affine_map<(d0, d1)[s0] -> (s0, d1)> : tensor<9x4xf32> at tensor<3x4xi64> -> tensor<3x4xf32>
  // CHECK-NEXT: %both = tensor_ext.gather %t at %i, %j affine_map<(d0, d1)[s0, s1] -> (s0, s1)> {note} : tensor<9x4xf32> at tensor<3x4xi64>, tensor<3x4xi32> -> tensor<3x4xf32>
  %both = tensor_ext.gather %t at %i, %j affine_map<(d0, d1)[s0, s1] -> (s0, s1)> {note} : tensor<9x4xf32> at tensor<3x4xi64>, tensor<3x4xi32> -> tensor<3x4xf32>
  // CHECK-NEXT: %around = tensor_ext.pad %t affine_map<(d0, d1) -> ((d0 + -1), d1)> {note} : tensor<9x4xf32> -> tensor<11x4xf32>
  %around = tensor_ext.pad %t affine_map<(d0, d1) -> (d0 - 1, d1)> {note} : tensor<9x4xf32> -> tensor<11x4xf32>
  // CHECK-NEXT: %ab = tensor_ext.concat %a, %b, %a dim 0 {note} : tensor<2x4xf32>, tensor<0x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  %ab = tensor_ext.concat %a, %b, %a dim 0 {note} : tensor<2x4xf32>, tensor<0x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

// They are pure: equal ones merge, unused ones go.
// RUN: deplodock-opt %s --split-input-file -p cse,dce | filecheck %s --check-prefix=PURE
// PURE-LABEL: func.func @pure
// PURE-NEXT:    %[[I:.*]] = tensor_ext.iota dim 0
// PURE-NEXT:    func.return %[[I]], %[[I]]
func.func @pure(%t: tensor<9xf32>, %i: tensor<3xi64>) -> (tensor<3xi64>, tensor<3xi64>) {
  %0 = tensor_ext.iota dim 0 : tensor<3xi64>
  %1 = tensor_ext.iota dim 0 : tensor<3xi64>
  %2 = tensor_ext.gather %t at %i affine_map<(d0)[s0] -> (s0)> : tensor<9xf32> at tensor<3xi64> -> tensor<3xf32>
  %3 = tensor_ext.concat %t, %t dim 0 : tensor<9xf32>, tensor<9xf32> -> tensor<18xf32>
  func.return %0, %1 : tensor<3xi64>, tensor<3xi64>
}
