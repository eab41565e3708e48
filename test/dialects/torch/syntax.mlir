// Messages of the parser name the attribute and what it takes.
// RUN: deplodock-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: softmax.int has no attribute 'axis'; it has dim, dtype
func.func @unknown(%x: tensor<4xf32>) {
  %0 = torch.aten.softmax.int %x {axis = 0} : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: dim must be an integer such as -1
func.func @float(%x: tensor<4xf32>) {
  %0 = torch.aten.softmax.int %x {dim = 0.5} : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: expected a float such as 1.0e-06
func.func @word(%x: tensor<4xf32>) {
  %0 = torch.aten.rms_norm %x {normalized_shape = [4], eps = small} : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: dtype must be an element type such as f32
func.func @dtype(%x: tensor<4xf32>) {
  %0 = torch.aten._to_copy %x {dtype = f128} : tensor<4xf32> -> tensor<4xf128>
  func.return
}
