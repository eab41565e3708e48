// Messages of the verifier say what does not fit.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: the module does not define the function @nobody
func.func @missing(%h: tensor<4xf32>) {
  %0 = tensor_ext.recurrence @nobody from (%h : tensor<4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

// CHECK: @cell must be a function of (tensor<4xf32>, tensor<2xf32>) to (tensor<4xf32>)
func.func @cell(%h: tensor<4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @other(%h: tensor<4xf32>, %x: tensor<3x2xf32>) {
  %0 = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<3x2xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

// CHECK: tensor<2x4xf32> must have a row for each of 3 steps
func.func @cell(%h: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @rows(%h: tensor<4xf32>, %x: tensor<2x4xf32>) {
  %0 = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) each (%x : tensor<2x4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

// CHECK: the result tensor<3x5xf32> must have 3 rows of tensor<4xf32>
func.func @cell(%h: tensor<4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @result(%h: tensor<4xf32>) {
  %0 = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) -> tensor<3x5xf32>
  func.return
}

// -----

// CHECK: a recurrence carries one value or more, and has a result for each
func.func @cell(%h: tensor<4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @count(%h: tensor<4xf32>) {
  %0, %1 = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) -> tensor<3x4xf32>, tensor<3x4xf32>
  func.return
}

// -----

// CHECK: the first dimension of results, and of what each step takes a row, is the steps'
func.func @cell(%h: tensor<4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @none(%h: tensor<4xf32>) {
  %0 = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) -> tensor<0x4xf32>
  func.return
}
