// Operations print readably and come back from both forms.
// RUN: %roundtrip
// RUN: deplodock-opt %s --split-input-file --print-op-generic | filecheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func @attributes
// CHECK-NEXT:    %{{.*}} = torch.aten.rms_norm %x, %w {normalized_shape = [8], eps = 1.000000e-06} : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.sum.dim_IntList %x {dim = [-1, 0], keepdim = true} : tensor<2x8xf32> -> tensor<1x1xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten._to_copy %x {dtype = f64} : tensor<2x8xf32> -> tensor<2x8xf64>
// GENERIC:       "torch.aten.rms_norm"(%x, %w) <{normalized_shape = array<i64: 8>, eps = 1.000000e-06 : f64}>
// GENERIC:       "torch.aten.sum.dim_IntList"(%x) <{dim = array<i64: -1, 0>, keepdim = true}>
// GENERIC:       "torch.aten._to_copy"(%x) <{dtype = f64}>
func.func @attributes(%x: tensor<2x8xf32>, %w: tensor<8xf32>) {
  %0 = torch.aten.rms_norm %x, %w {normalized_shape = [8], eps = 1.0e-06} : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  %1 = torch.aten.sum.dim_IntList %x {dim = [-1, 0], keepdim = true} : tensor<2x8xf32> -> tensor<1x1xf32>
  %2 = torch.aten._to_copy %x {dtype = f64} : tensor<2x8xf32> -> tensor<2x8xf64>
  func.return
}

// -----

// A number in place of a tensor operand; an integer stays an integer.
// CHECK-LABEL: func.func @numbers
// CHECK-NEXT:    %{{.*}} = torch.aten.add.Tensor %x {other = 1.500000e+00, alpha = 2} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.mul.Tensor %x {other = 3} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.mul.Tensor %x {other = 0xfff0000000000000 : f64} : tensor<4xf32> -> tensor<4xf32>
// GENERIC:       "torch.aten.add.Tensor"(%x) <{other = 1.500000e+00 : f64, alpha = 2 : i64}>
func.func @numbers(%x: tensor<4xf32>) {
  %0 = torch.aten.add.Tensor %x {other = 1.5, alpha = 2} : tensor<4xf32> -> tensor<4xf32>
  %1 = torch.aten.mul.Tensor %x {other = 3} : tensor<4xf32> -> tensor<4xf32>
  %2 = torch.aten.mul.Tensor %x {other = 0xfff0000000000000 : f64} : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// Operands without attributes, an optional operand left out, and discardable attributes.
// CHECK-LABEL: func.func @operands
// CHECK-NEXT:    %{{.*}} = torch.aten.linear %x, %w : tensor<2x8xf32>, tensor<3x8xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.linear %x, %w, %b : tensor<2x8xf32>, tensor<3x8xf32>, tensor<3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.exp %x attributes {note = "kept"} : tensor<2x8xf32> -> tensor<2x8xf32>
func.func @operands(%x: tensor<2x8xf32>, %w: tensor<3x8xf32>, %b: tensor<3xf32>) {
  %0 = torch.aten.linear %x, %w : tensor<2x8xf32>, tensor<3x8xf32> -> tensor<2x3xf32>
  %1 = torch.aten.linear %x, %w, %b : tensor<2x8xf32>, tensor<3x8xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %2 = torch.aten.exp %x attributes {note = "kept"} : tensor<2x8xf32> -> tensor<2x8xf32>
  func.return
}

// -----

// Every operation is pure: equal ones merge, unused ones go.
// RUN: deplodock-opt %s --split-input-file -p cse,dce | filecheck %s --check-prefix=PURE
// PURE-LABEL: func.func @pure
// PURE-NEXT:    %[[R:.*]] = torch.aten.relu %x
// PURE-NEXT:    func.return %[[R]], %[[R]]
func.func @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>
  %2 = torch.aten.softmax.int %x {dim = 0} : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// No operands, several results, strings, and lists.
// CHECK-LABEL: func.func @forms
// CHECK-NEXT:    %{{.*}} = torch.aten.full {size = [2, 0], fill_value = 1.500000e+00} : -> tensor<2x0xf32>
// CHECK-NEXT:    %{{.*}}, %{{.*}} = torch.aten.split.Tensor %x {split_size = 1} : tensor<2x8xf32> -> tensor<1x8xf32>, tensor<1x8xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.gelu %x {approximate = "tanh"} : tensor<2x8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.cat %x, %x {dim = 1} : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x16xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.clamp.Tensor %x, %x {min = none} : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.index.Tensor %x, %i {indices = [-1, 0]} : tensor<2x8xf32>, tensor<3xi64> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.floor_divide %x {self = 5} : tensor<2x8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %{{.*}} = torch.aten.lt.Tensor %x, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xi1>
// GENERIC:       "torch.aten.full"() <{size = array<i64: 2, 0>, fill_value = 1.500000e+00 : f64}>
// GENERIC:       "torch.aten.clamp.Tensor"(%x, %x) <{min}>
// GENERIC:       "torch.aten.index.Tensor"(%x, %i) <{indices = array<i64: -1, 0>}>
func.func @forms(%x: tensor<2x8xf32>, %i: tensor<3xi64>) {
  %0 = torch.aten.full {size = [2, 0], fill_value = 1.5} : -> tensor<2x0xf32>
  %1, %2 = torch.aten.split.Tensor %x {split_size = 1} : tensor<2x8xf32> -> tensor<1x8xf32>, tensor<1x8xf32>
  %3 = torch.aten.gelu %x {approximate = "tanh"} : tensor<2x8xf32> -> tensor<2x8xf32>
  %4 = torch.aten.cat %x, %x {dim = 1} : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x16xf32>
  %5 = torch.aten.clamp.Tensor %x, %x {min = none} : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = torch.aten.index.Tensor %x, %i {indices = [-1, 0]} : tensor<2x8xf32>, tensor<3xi64> -> tensor<2x3xf32>
  %7 = torch.aten.floor_divide %x {self = 5} : tensor<2x8xf32> -> tensor<2x8xf32>
  %8 = torch.aten.lt.Tensor %x, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xi1>
  func.return
}
