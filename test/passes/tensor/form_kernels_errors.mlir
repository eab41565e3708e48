// RUN: deplodock-opt %s -p form-kernels --split-input-file --verify-diagnostics --allow-unregistered-dialect | filecheck %s

// CHECK: torch.aten.exp: form-kernels takes tensor_ext operations and tensor constants; lower this operation first
func.func @not_lowered(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = torch.aten.exp %x : tensor<3xf32> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: tensor_ext.elementwise: dynamic shapes are not supported; give every dimension an extent
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = tensor_ext.elementwise {arith.negf} %x : tensor<?xf32>
  func.return %0 : tensor<?xf32>
}

// -----

// CHECK: func.func: its arguments must be tensors of static shapes, not f32
func.func @scalar(%x: tensor<3xf32>, %s: f32) -> tensor<3xf32> {
  %0 = tensor_ext.elementwise {arith.negf} %x : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: arith.addf: the body uses a value from outside; make it an operand or a constant inside
func.func @captured(%x: tensor<3xf32>, %s: f32) -> tensor<3xf32> {
  %0 = tensor_ext.elementwise %x : tensor<3xf32> -> tensor<3xf32> (%a: f32) {
    %b = arith.addf %a, %s : f32
    tensor_ext.yield %b : f32
  }
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: tensor_ext.elementwise: deplodock.fuse must be "never" or "always", not "sometimes"
func.func @mode(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tensor_ext.elementwise {arith.negf} %x attributes {deplodock.fuse = "sometimes"} : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: tensor_ext.elementwise: deplodock.fuse = "always" is not possible: it is returned
func.func @returned(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tensor_ext.elementwise {arith.negf} %x attributes {deplodock.fuse = "always"} : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: tensor_ext.reduce: deplodock.fuse = "always" is not possible: several kernels need the reduction
func.func @twice(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<f32>) {
  %r = tensor_ext.reduce {arith.addf} %x dims [1] attributes {deplodock.fuse = "always"} : tensor<3x4xf32> -> tensor<3xf32>
  %y = tensor_ext.elementwise {arith.negf} %r : tensor<3xf32>
  %z = tensor_ext.reduce {arith.addf} %r dims [0] : tensor<3xf32> -> tensor<f32>
  func.return %y, %z : tensor<3xf32>, tensor<f32>
}

// -----

// CHECK: arith.constant: deplodock.fuse = "never" is not possible: a constant is in every kernel that needs it
func.func @constant(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = arith.constant {deplodock.fuse = "never"} dense<1.0> : tensor<3xf32>
  %y = tensor_ext.elementwise {arith.addf} %x, %one : tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK: func.func: form-kernels takes functions of one block
func.func @blocks(%x: tensor<3xf32>) -> tensor<3xf32> {
  cf.br ^next
^next:
  %0 = tensor_ext.elementwise {arith.negf} %x : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
