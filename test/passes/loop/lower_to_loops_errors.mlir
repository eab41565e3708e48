// RUN: deplodock-opt %s -p lower-to-loops --split-input-file --verify-diagnostics --allow-unregistered-dialect | filecheck %s

// CHECK: tensor_ext.elementwise: lower-to-loops takes tensors in kernels only; run form-kernels first
func.func @no_kernel(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tensor_ext.elementwise {arith.negf} %x : tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: arith.constant: a tensor constant with different elements is not supported; pass it as an argument
func.func @table() -> tensor<2xf32> {
  %0 = tensor_ext.kernel @k() -> tensor<2xf32> {
    %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    tensor_ext.yield %c : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

// CHECK: func.func: elements of type f128 are not supported; use f32, f64, f16, bf16, i32, i64, i8, i16, ui8 or i1
func.func @quadruple(%x: tensor<3xf128>) -> tensor<3xf128> {
  func.return %x : tensor<3xf128>
}

// -----

// CHECK: func.func: @outside has tensors and needs a body of one block
func.func private @outside(tensor<3xf32>) -> tensor<3xf32>

// -----

// CHECK: torch.aten.exp: a kernel holds tensor_ext operations and tensor constants only
func.func @foreign(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tensor_ext.kernel @k(%x0 = %x : tensor<3xf32>) -> tensor<3xf32> {
    %e = torch.aten.exp %x0 : tensor<3xf32> -> tensor<3xf32>
    tensor_ext.yield %e : tensor<3xf32>
  }
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: tensor_ext.concat: a kernel yields a concat and does nothing else with it; store it for its readers
func.func @concat(%x: tensor<4xf32>) -> tensor<8xf32> {
  %0 = tensor_ext.kernel @k(%x0 = %x : tensor<4xf32>) -> tensor<8xf32> {
    %c = tensor_ext.concat %x0, %x0 dim 0 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
    %e = tensor_ext.elementwise {arith.negf} %c : tensor<8xf32>
    tensor_ext.yield %e : tensor<8xf32>
  }
  func.return %0 : tensor<8xf32>
}

// -----

// CHECK: tensor_ext.gather: a gather reads an argument of its kernel, or an index map of one; store its source
func.func @gather(%x: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
  %0 = tensor_ext.kernel @k(%x0 = %x : tensor<4xf32>, %i0 = %i : tensor<2xi64>) -> tensor<2xf32> {
    %e = tensor_ext.elementwise {arith.negf} %x0 : tensor<4xf32>
    %g = tensor_ext.gather %e at %i0 affine_map<(d0)[s0] -> (s0)> : tensor<4xf32> at tensor<2xi64> -> tensor<2xf32>
    tensor_ext.yield %g : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}

// -----

// CHECK: tensor_ext.pad: a pad reads an argument of its kernel; store its source
func.func @pad(%x: tensor<4xf32>) -> tensor<6xf32> {
  %0 = tensor_ext.kernel @k(%x0 = %x : tensor<4xf32>) -> tensor<6xf32> {
    %e = tensor_ext.elementwise {arith.negf} %x0 : tensor<4xf32>
    %p = tensor_ext.pad %e affine_map<(d0) -> (d0 - 1)> : tensor<4xf32> -> tensor<6xf32>
    tensor_ext.yield %p : tensor<6xf32>
  }
  func.return %0 : tensor<6xf32>
}

// -----

// CHECK: func.func: dynamic shapes are not supported, got tensor<?xf32>; give every dimension an extent
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  func.return %x : tensor<?xf32>
}

// -----

// CHECK: tensor_ext.scan: the scans of a kernel run along one axis of its largest output, in one direction
func.func @across(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tensor_ext.kernel @k(%x0 = %x : tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = tensor_ext.scan {arith.addf} %x0 dim 0 : tensor<4x8xf32>
    %b = tensor_ext.scan {arith.addf} %a dim 1 : tensor<4x8xf32>
    tensor_ext.yield %b : tensor<4x8xf32>
  }
  func.return %0 : tensor<4x8xf32>
}
