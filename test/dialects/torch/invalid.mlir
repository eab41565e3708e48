// Messages of the verifier say what to write instead.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: expected the tensor operands input, weight, bias (optional); got 1 of them
func.func @too_few(%x: tensor<4xf32>) {
  %0 = torch.aten.linear %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: expected the tensor operands self, other; got 1 of them
func.func @no_other(%x: tensor<4xf32>) {
  %0 = torch.aten.maximum %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: dim is missing: write {dim = -1}
func.func @missing(%x: tensor<4xf32>) {
  %0 = torch.aten.softmax.int %x : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: dim must be an integer such as {dim = -1}
func.func @wrong_kind(%x: tensor<4xf32>) {
  %0 = "torch.aten.softmax.int"(%x) <{dim = 1.0 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: other must be a tensor operand, not a number
func.func @number(%x: tensor<4x4xf32>) {
  %0 = "torch.aten.matmul"(%x) <{other = 1 : i64}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return
}

// -----

// CHECK: torch.aten.exp computes on f32, f64, f16 or bf16, not i32: cast with torch.aten._to_copy
func.func @integer(%x: tensor<4xi32>) {
  %0 = torch.aten.exp %x : tensor<4xi32> -> tensor<4xi32>
  func.return
}

// -----

// CHECK: the operand is tensor<4xi64>, the result tensor<4xf32>: cast with torch.aten._to_copy
func.func @promotion(%x: tensor<4xf32>, %y: tensor<4xi64>) {
  %0 = torch.aten.add.Tensor %x, %y : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: tensors hold f32, f64, f16, bf16, i32, i64, i8, i16, ui8 or i1, not f128
func.func @quadruple(%x: tensor<4xf128>) {
  %0 = torch.aten._to_copy %x {dtype = f32} : tensor<4xf128> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: dtype is f64, but the result is tensor<4xf32>
func.func @dtype(%x: tensor<4xf32>) {
  %0 = torch.aten._to_copy %x {dtype = f64} : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: torch.aten.lt.Tensor gives i1, not f32: cast with torch.aten._to_copy
func.func @comparison(%x: tensor<4xf32>) {
  %0 = torch.aten.lt.Tensor %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: the operand is tensor<4xi64>, the other tensor<4xf32>: cast with torch.aten._to_copy
func.func @compared(%x: tensor<4xf32>, %i: tensor<4xi64>) {
  %0 = torch.aten.lt.Tensor %x, %i : tensor<4xf32>, tensor<4xi64> -> tensor<4xi1>
  func.return
}

// -----

// CHECK: condition must hold i1, not f32
func.func @condition(%x: tensor<4xf32>) {
  %0 = torch.aten.where.self %x, %x, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: indices must say where its 1 tensors stand in the list, such as {indices = [-1, 0]} for the first in the second place
func.func @positions(%x: tensor<4xf32>, %i: tensor<4xi64>) {
  %0 = torch.aten.index.Tensor %x, %i {indices = [1]} : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: expected the tensor operands self, other; got 0 of them
func.func @numbers_only() {
  %0 = torch.aten.floor_divide {self = 5, other = 2} : -> tensor<4xi64>
  func.return
}

// -----

// CHECK: expected one result
func.func @results(%x: tensor<4xf32>) {
  %0, %1 = torch.aten.exp %x : tensor<4xf32> -> tensor<4xf32>, tensor<4xf32>
  func.return
}

// -----

// CHECK: approximate must be a string such as {approximate = "none"}
func.func @string(%x: tensor<4xf32>) {
  %0 = "torch.aten.gelu"(%x) <{approximate = 1 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: torch.aten.mul.Tensor: other must be an operand or a number such as {other = 1.0}
func.func @no_number(%x: tensor<4xf32>) {
  %0 = "torch.aten.mul.Tensor"(%x) <{other = "one"}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: torch.aten.index.Tensor: indices must say where its 1 tensors stand in the list, such as {indices = [-1, 0]} for the first in the second place and nothing in the first
func.func @gaps(%x: tensor<4x4xf32>, %i: tensor<2xi64>) {
  %0 = "torch.aten.index.Tensor"(%x, %i) <{indices = array<i64: 1, -1>}> : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  func.return
}

// -----

// CHECK: deplodock.precision must be "high" or "medium", got "tf32"; leave it out for "highest"
func.func @precision(%x: tensor<4x4xf32>) {
  %0 = torch.aten.mm %x, %x attributes {deplodock.precision = "tf32"} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  func.return
}

// -----

// CHECK: torch.aten.mm: deplodock.precision is for products of matrices of f32; leave it out
func.func @half(%x: tensor<4x4xf16>) {
  %0 = torch.aten.mm %x, %x attributes {deplodock.precision = "high"} : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: torch.aten.exp: deplodock.precision is for products of matrices of f32; leave it out
func.func @no_product(%x: tensor<4xf32>) {
  %0 = torch.aten.exp %x attributes {deplodock.precision = "high"} : tensor<4xf32> -> tensor<4xf32>
  func.return
}
