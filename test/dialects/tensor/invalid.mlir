// Malformed tensor_ext operations: each message says where and what to write.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: invalid.mlir:[[# @LINE + 3]]:32
// CHECK: arith.select on (f32) has no short form (Expected 3 operands, but got 1); write the body as a region `(%x: f32, ..) {..}`
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {arith.select} %x : tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:32
// CHECK: arith.cmpf on (f32, f32) has no short form (property 'predicate' expected in operation 'arith.cmpf'); write the body as a region `(%x: f32, ..) {..}`
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {arith.cmpf} %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:32
// CHECK: 'arith.nope' is not a registered operation
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {arith.nope} %x : tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:32
// CHECK: identifier expected: the name of a scalar operation such as arith.addf
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {} %x : tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:44
// CHECK: elementwise takes one operation in braces; write several as a region
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {arith.addf, arith.mulf} %x, %x : tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:47
// CHECK: expected tensor types, got f32
func.func @f(%x: f32) {
  %0 = tensor_ext.elementwise {math.exp} %x : f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:49
// CHECK: expected '->' and the result types
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise %x : tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:44
// CHECK: expected 2 operand types but had 1
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {arith.addf} %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: operand 'inputs' at position 0 does not verify:
func.func @f(%x: f32) {
  %0 = tensor_ext.elementwise %x : f32 -> tensor<4xf32> (%a: f32) {
    tensor_ext.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: elementwise operands and results must have one shape, got tensor<4xf32> and tensor<5xf32>; broadcast with tensor_ext.index_map
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise {math.exp} %x : tensor<4xf32> -> tensor<5xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: the body must take one scalar for each operand, of the operand's element type
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f64) {
    tensor_ext.yield %x : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: Operation tensor_ext.elementwise contains empty block in single-block region that expects at least a terminator
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f32) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: the body must end with tensor_ext.yield of values of the types (f32)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f32) {
    loop.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: the body must end with tensor_ext.yield of values of the types (f32)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f32) {
    tensor_ext.yield %a, %a : f32, f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: Region 'body' at position 0 expected a single block, but got 2 blocks
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f32) {
    tensor_ext.yield %a : f32
  ^bb1:
    tensor_ext.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: Region 'body' at position 0 expected a single block, but got 0 blocks
func.func @f(%x: tensor<4xf32>) {
  %0 = "tensor_ext.elementwise"(%x) ({
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: Expected 1 region, but got 0
func.func @f(%x: tensor<4xf32>) {
  %0 = "tensor_ext.elementwise"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.elementwise: elementwise needs at least one result
func.func @f(%x: tensor<4xf32>) {
  "tensor_ext.elementwise"(%x) ({
  ^bb0(%a: f32):
    tensor_ext.yield
  }) : (tensor<4xf32>) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: math.exp on (f32, f32) has no short form (Expected 1 operand, but got 2); write `combine (..) identity [..] {..}`
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {math.exp} %x dims [0] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: no identity is known for {arith.subf} on (f32); write `combine (..) identity [..] {..}`
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.subf} %x dims [0] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: 2 combining operations for 1 values; name one for each value
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.addf, arith.addf} %x dims [0] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:68
// CHECK: Expected 'combine': a reduction without {op} needs its combiner spelled out
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce %x dims [0] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:48
// CHECK: 99999999999999999999 does not fit i64
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.addf} %x dims [99999999999999999999] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:48
// CHECK: Expected integer literal
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.addf} %x dims [true] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:53
// CHECK: expected tensor types, got f32
func.func @f(%x: f32) {
  %0 = tensor_ext.reduce {arith.addf} %x dims [0] : f32 -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: dims must be ascending, distinct and below the rank 1, got [1]
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: dims must be ascending, distinct and below the rank 1, got [0, 0]
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.addf} %x dims [0, 0] : tensor<4xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: reducing dims [0] of tensor<4xf32> gives tensor<f32>, not tensor<4xf32>
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: reduce operands must have one shape, got tensor<4xf32> and tensor<5xf32>
func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0, %1 = tensor_ext.reduce {arith.addf, arith.addf} %x, %y dims [0] : tensor<4xf32>, tensor<5xf32> -> tensor<f32>, tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: reduce gives one result for each operand, got 2 for 1 operands
func.func @f(%x: tensor<4xf32>) {
  %0, %1 = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<4xf32> -> tensor<f32>, tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: Operation tensor_ext.reduce contains empty block in single-block region that expects at least a terminator
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce %x dims [0] : tensor<4xf32> -> tensor<f32> combine () identity [] {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: the combiner must take the accumulators, then the values: (f32, f32)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce %x dims [0] : tensor<4xf32> -> tensor<f32> combine (%a: f32) identity [0.0 : f32] {
    tensor_ext.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: the combiner must end with tensor_ext.yield of values of the types (f32)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce %x dims [0] : tensor<4xf32> -> tensor<f32> combine (%a: f32, %b: f32) identity [0.0 : f32] {
    loop.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: the reduction needs one identity for each result, of the types (f32)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce %x dims [0] : tensor<4xf32> -> tensor<f32> combine (%a: f32, %b: f32) identity [0.0 : f64] {
    tensor_ext.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: the reduction needs one identity for each result, of the types (f32)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.reduce %x dims [0] : tensor<4xf32> -> tensor<f32> combine (%a: f32, %b: f32) identity ["zero"] {
    tensor_ext.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: Expected attribute i64 but got i32
func.func @f(%x: tensor<4xf32>) {
  %0 = "tensor_ext.reduce"(%x) <{dims = array<i32: 0>, identities = [0.0 : f32]}> ({
  ^bb0(%a: f32, %b: f32):
    tensor_ext.yield %a : f32
  }) : (tensor<4xf32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: property 'dims' expected in operation 'tensor_ext.reduce'
func.func @f(%x: tensor<4xf32>) {
  %0 = "tensor_ext.reduce"(%x) ({
  ^bb0(%a: f32, %b: f32):
    tensor_ext.yield %a : f32
  }) : (tensor<4xf32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: reduce needs at least one operand
func.func @f() {
  "tensor_ext.reduce"() <{dims = array<i64>, identities = []}> ({
    tensor_ext.yield
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.reduce: reduce gives one result for each operand, got 0 for 1 operands
func.func @f(%x: tensor<4xf32>) {
  "tensor_ext.reduce"(%x) <{dims = array<i64: 0>, identities = [0.0 : f32]}> ({
  ^bb0(%a: f32, %b: f32):
    tensor_ext.yield %a : f32
  }) : (tensor<4xf32>) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.index_map: the map must take the result's 1 indices to the source's 1, without symbols; got (d0) -> (d0, d0)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.index_map %x affine_map<(d0) -> (d0, d0)> : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.index_map: the map must take the result's 1 indices to the source's 1, without symbols; got (d0)[s0] -> ((d0 + s0))
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.index_map %x affine_map<(d0)[s0] -> (d0 + s0)> : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.index_map: index_map keeps the element type, got tensor<4xf32> and tensor<4xi32>
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.index_map %x affine_map<(d0) -> (d0)> : tensor<4xf32> -> tensor<4xi32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.index_map: the divisor of 'mod' in the map must be a positive constant: (d0) -> ((d0 mod 0))
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.index_map %x affine_map<(d0) -> (d0 mod 0)> : tensor<4xf32> -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3
// CHECK: f32 should be of base attribute tensor
func.func @f(%x: f32) {
  %0 = tensor_ext.index_map %x affine_map<(d0) -> (d0)> : f32 -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.kernel: Operation tensor_ext.kernel contains empty block in single-block region that expects at least a terminator
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.kernel @k(%y = %x : tensor<4xf32>) -> tensor<4xf32> {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.kernel: Operation using value defined out of its IsolatedFromAbove parent: YieldOp(tensor_ext.yield %x : tensor<4xf32>)
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.kernel @k(%y = %x : tensor<4xf32>) -> tensor<4xf32> {
    tensor_ext.yield %x : tensor<4xf32>
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:32
// CHECK: Expected '='
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.kernel @k(%x : tensor<4xf32>) -> tensor<4xf32> {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:26
// CHECK: expect symbol name
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.kernel k() -> tensor<4xf32> {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.kernel: Operation using value defined out of its IsolatedFromAbove parent: YieldOp(tensor_ext.yield %x : tensor<4xf32>)
func.func @f(%x: tensor<4xf32>) {
  %0 = "tensor_ext.kernel"(%x) <{sym_name = "k"}> ({
  ^bb0:
    tensor_ext.yield %x : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.kernel: a kernel needs at least one result
func.func @f(%x: tensor<4xf32>) {
  "tensor_ext.kernel"(%x) <{sym_name = "k"}> ({
  ^bb0(%y: tensor<4xf32>):
    tensor_ext.yield
  }) : (tensor<4xf32>) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.kernel: operand 'inputs' at position 0 does not verify:
func.func @f(%x: f32) {
  %0 = tensor_ext.kernel @k(%y = %x : f32) -> f32 {
    tensor_ext.yield %y : f32
  }
  func.return
}

// -----

// CHECK: error: tensor_ext.kernel: the body must take one argument for each operand, of the operand's type
func.func @f(%x: tensor<4xf32>) {
  %y = "tensor_ext.kernel"(%x) <{sym_name = "k"}> ({
  ^bb0(%a: tensor<8xf32>):
    tensor_ext.yield %a : tensor<8xf32>
  }) : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.scan: dim must be below the rank 1, got 1
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.scan {arith.addf} %x dim 1 : tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.scan: scan operands must have one shape, got tensor<4xf32> and tensor<5xf32>
func.func @f(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %0, %1 = tensor_ext.scan {arith.addf, arith.addf} %x, %y dim 0 : tensor<4xf32>, tensor<5xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tensor_ext.scan: scan gives one result for each operand, of the operand's type
func.func @f(%x: tensor<4xf32>) {
  %0 = "tensor_ext.scan"(%x) <{dim = 0 : i64, identities = [0.0 : f32]}> ({
  ^bb0(%a: f32, %b: f32):
    tensor_ext.yield %a : f32
  }) : (tensor<4xf32>) -> tensor<f32>
  func.return
}

// -----

// CHECK: no identity is known for {arith.subf} on (f32); write `combine (..) identity [..] {..}`
func.func @f(%x: tensor<4xf32>) {
  %0 = tensor_ext.scan {arith.subf} %x dim 0 : tensor<4xf32>
  func.return
}

// -----

// CHECK: deplodock.precision is for products of f32, not of f16; leave it out
func.func @precision(%x: tensor<4xf16>) {
  %0 = tensor_ext.elementwise %x, %x : tensor<4xf16>, tensor<4xf16> -> tensor<4xf16> (%a: f16, %b: f16) {
    %c = arith.mulf %a, %b {deplodock.precision = "high"} : f16
    tensor_ext.yield %c : f16
  }
  func.return
}
