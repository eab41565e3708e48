// Malformed loop operations: each message says where and what to write.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: invalid.mlir:[[# @LINE + 3]]:17
// CHECK: a loop starts at 0; shift the subscripts instead
func.func @f() {
  loop.for %i = 1 to 4 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:22
// CHECK: value %n is used here, but defined nowhere
func.func @f() {
  loop.for %i = 0 to %n {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:22
// CHECK: operand is used with type index, but has been previously used or defined with type i32
func.func @f(%n: i32) {
  loop.for %i = 0 to %n {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:22
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f() {
  loop.for %i = 0 to {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: the loop bound needs at least one result
func.func @f() {
  loop.for %i = 0 to min() {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:22
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f() {
  loop.for %i = 0 to d0 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:15
// CHECK: Expected '='
func.func @f() {
  loop.for %i : index = 0 to 4 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3
// CHECK: invalid block name in region with named arguments
func.func @f() {
  loop.for %i = 0 to 4 {
  ^bb0(%j: index):
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: Region 'body' at position 0 expected a single block, but got 0 blocks
func.func @f() {
  "loop.for"() <{bound = affine_map<() -> (4)>}> ({
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: a loop body takes one argument, the induction variable of type index
func.func @f() {
  "loop.for"() <{bound = affine_map<() -> (4)>}> ({
  ^bb0:
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: a loop body takes one argument, the induction variable of type index
func.func @f() {
  "loop.for"() <{bound = affine_map<() -> (4)>}> ({
  ^bb0(%i: i32):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: the loop bound must be an affine map over 0 dimensions, one for each operand, and no symbols; got (d0) -> (d0)
func.func @f() {
  "loop.for"() <{bound = affine_map<(d0) -> (d0)>}> ({
  ^bb0(%i: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: the loop bound must be an affine map over 1 dimensions, one for each operand, and no symbols; got ()[s0] -> (s0)
func.func @f(%i: index) {
  "loop.for"(%i) <{bound = affine_map<()[s0] -> (s0)>}> ({
  ^bb0(%j: index):
  }) : (index) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: the loop bound needs at least one result
func.func @f() {
  "loop.for"() <{bound = affine_map<() -> ()>}> ({
  ^bb0(%i: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: 4 : i64 should be of base attribute affine_map
func.func @f() {
  "loop.for"() <{bound = 4 : i64}> ({
  ^bb0(%i: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: property 'bound' expected in operation 'loop.for'
func.func @f() {
  "loop.for"() ({
  ^bb0(%i: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: true should be of base attribute unit
func.func @f() {
  "loop.for"() <{bound = affine_map<() -> (4)>, unroll = true}> ({
  ^bb0(%i: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.for: Expected 1 region, but got 0
func.func @f() {
  "loop.for"() <{bound = affine_map<() -> (4)>}> : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:21
// CHECK: no identity is known for {arith.subf} on (f32); write `combine (..) identity [..] {..}`
func.func @f(%v: f32) {
  %0 = loop.reduce {arith.subf} %k = 0 to 4 : f32 {
    loop.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:21
// CHECK: arith.cmpf on (f32, f32) has no short form (result 'result' at position 0 does not verify: Expected attribute i1 but got f32); write `combine (..) identity [..] {..}`
func.func @f(%v: f32) {
  %0 = loop.reduce {arith.cmpf} %k = 0 to 4 : f32 {
    loop.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:21
// CHECK: arith.addf on (i32, i32) has no short form (operand 'lhs' at position 0 does not verify: Unexpected attribute i32); write `combine (..) identity [..] {..}`
func.func @f(%v: f32) {
  %0 = loop.reduce {arith.addf} %k = 0 to 4 : i32 {
    loop.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:25
// CHECK: 1 combining operations for 2 values; name one for each value
func.func @f(%v: f32) {
  %0, %1 = loop.reduce {arith.addf} %k = 0 to 4 : f32, f32 {
    loop.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 5]]:4
// CHECK: Expected 'combine': a reduction without {op} needs its combiner spelled out
func.func @f(%v: f32) {
  %0 = loop.reduce %k = 0 to 4 : f32 {
    loop.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: the body must end with loop.yield of values of the types (f32)
func.func @f(%v: f32) {
  %0 = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
    loop.yield %v, %v : f32, f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: the body must end with loop.yield of values of the types (f32)
func.func @f(%v: f32) {
  %0 = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
    tensor_ext.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: Operation loop.reduce contains empty block in single-block region that expects at least a terminator
func.func @f(%v: f32) {
  %0 = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: the body of a reduction only reads; move loop.store out of it
func.func @f(%v: f32, %x: memref<4xf32>) {
  %0 = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
    loop.for %i = 0 to 4 {
      loop.store %v, %x[%i] : memref<4xf32>
    }
    loop.yield %v : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: the combiner must take the accumulators, then the values: (f32, f32)
func.func @f(%v: f32) {
  %0 = loop.reduce %k = 0 to 4 : f32 {
    loop.yield %v : f32
  } combine (%a: f32) identity [0.0 : f32] {
    loop.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: ui8 has no constants, so no identity; reduce in i32
func.func @f(%v: ui8) {
  %0 = loop.reduce %k = 0 to 4 : ui8 {
    loop.yield %v : ui8
  } combine (%a: ui8, %b: ui8) identity [0 : ui8] {
    loop.yield %a : ui8
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: the reduction needs one identity for each result, of the types (f32)
func.func @f(%v: f32) {
  %0 = loop.reduce %k = 0 to 4 : f32 {
    loop.yield %v : f32
  } combine (%a: f32, %b: f32) identity [] {
    loop.yield %a : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: the combiner must end with loop.yield of values of the types (f32)
func.func @f(%v: f32) {
  %0 = loop.reduce %k = 0 to 4 : f32 {
    loop.yield %v : f32
  } combine (%a: f32, %b: f32) identity [0.0 : f32] {
    loop.yield
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: Operation loop.reduce contains empty block in single-block region that expects at least a terminator
func.func @f(%v: f32) {
  %0 = loop.reduce %k = 0 to 4 : f32 {
    loop.yield %v : f32
  } combine (%a: f32, %b: f32) identity [0.0 : f32] {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 5]]:32
// CHECK: Expected 'identity'
func.func @f(%v: f32) {
  %0 = loop.reduce %k = 0 to 4 : f32 {
    loop.yield %v : f32
  } combine (%a: f32, %b: f32) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: a reduction needs at least one result
func.func @f() {
  "loop.reduce"() <{bound = affine_map<() -> (4)>, identities = []}> ({
  ^bb0(%k: index):
    loop.yield
  }, {
    loop.yield
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.reduce: Expected 2 regions, but got 1
func.func @f() {
  "loop.reduce"() <{bound = affine_map<() -> (4)>, identities = []}> ({
  ^bb0(%k: index):
    loop.yield
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:23
// CHECK: a product in an affine expression needs a constant factor
func.func @f(%i: index) {
  %0 = loop.index [%i * %i]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:32
// CHECK: the divisor of 'floordiv' must be positive
func.func @f(%i: index) {
  %0 = loop.index [%i floordiv 0]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: the divisor of 'mod' must be positive
func.func @f(%i: index) {
  %0 = loop.index [%i mod -4]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: Expected integer literal: the divisor of 'mod' is a constant
func.func @f(%i: index) {
  %0 = loop.index [%i mod %i]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:19
// CHECK: expected one subscript, got 2
func.func @f(%i: index) {
  %0 = loop.index [%i, %i]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:25
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f(%i: index) {
  %0 = loop.index [%i + ]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: Expected ')'
func.func @f(%i: index) {
  %0 = loop.index [(%i + 1]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:20
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f(%i: index) {
  %0 = loop.index [d0]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:19
// CHECK: expected one subscript, got 0
func.func @f(%i: index) {
  %0 = loop.index []
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:20
// CHECK: operand is used with type index, but has been previously used or defined with type i64
func.func @f(%i: i64) {
  %0 = loop.index [%i]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.index: the index must have 1 results, got 2: (d0) -> (d0, d0)
func.func @f(%i: index) {
  %0 = "loop.index"(%i) <{map = affine_map<(d0) -> (d0, d0)>}> : (index) -> index
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.index: the divisor of 'mod' in the index must be a positive constant: (d0) -> ((d0 mod 0))
func.func @f(%i: index) {
  %0 = "loop.index"(%i) <{map = affine_map<(d0) -> (d0 mod 0)>}> : (index) -> index
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.index: result 'result' at position 0 does not verify:
func.func @f(%i: index) {
  %0 = "loop.index"(%i) <{map = affine_map<(d0) -> (d0)>}> : (index) -> i64
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:16
// CHECK: Expected '<' between the sides of a condition
func.func @f(%i: index) {
  loop.where %i
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:18
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f(%i: index) {
  loop.where %i <= 4
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.where: the condition must hold pairs of sides `lhs < rhs`, got 1 sides
func.func @f(%i: index) {
  "loop.where"(%i) <{condition = affine_map<(d0) -> (d0)>}> : (index) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.where: loop.where takes one condition; write one op for each
func.func @f(%i: index) {
  "loop.where"(%i) <{condition = affine_map<(d0) -> (d0, 4, d0, 8)>}> : (index) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: loop.where: loop.where belongs to a loop or launch, not to loop.guard; put the condition on the guard
func.func @f(%i: index) {
  loop.guard where (%i < 4) {
    loop.where %i < 2
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:14
// CHECK: Expected 'where'
func.func @f(%i: index) {
  loop.guard (%i < 4) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.guard: the guard must hold pairs of sides `lhs < rhs`, got 0 sides
func.func @f(%i: index) {
  loop.guard where () {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3
// CHECK: invalid block name in region with named arguments
func.func @f(%i: index) {
  loop.guard where (%i < 4) {
  ^bb0(%j: index):
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.guard: the guard must hold pairs of sides `lhs < rhs`, got 1 sides
func.func @f(%i: index) {
  "loop.guard"(%i) <{conditions = affine_map<(d0) -> (d0)>}> ({
  ^bb0:
  }) : (index) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:34
// CHECK: ')' expected
func.func @f(%i: index) {
  %0 = loop.inside where (%i < 4 < 5)
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.inside: the conditions must hold pairs of sides `lhs < rhs`, got 0 sides
func.func @f(%i: index) {
  %0 = "loop.inside"() <{conditions = affine_map<() -> ()>}> : () -> i1
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.inside: result 'result' at position 0 does not verify:
func.func @f(%i: index) {
  %0 = "loop.inside"(%i) <{conditions = affine_map<(d0) -> (d0, 4)>}> : (index) -> i32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.load: memref<4x8xf32> needs 2 subscripts, got 1
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = loop.load %x[%i] : memref<4x8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:30
// CHECK: expected a memref type, got tensor<4x8xf32>
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = loop.load %x[%i, 0] : tensor<4x8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: Expected ':'
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = loop.load %x[%i, 0]
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:25
// CHECK: expected a memref type, got f32
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = loop.load %v[] : f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.load: loading from memref<4x8xf32> gives its element type, not f64
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = "loop.load"(%x, %i) <{map = affine_map<(d0) -> (d0, 0)>}> : (memref<4x8xf32>, index) -> f64
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.load: operand 'source' at position 0 does not verify:
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = "loop.load"(%v, %i) <{map = affine_map<(d0) -> (d0, 0)>}> : (f32, index) -> f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.load: Expected at least 1 operand, but got 0
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  %0 = "loop.load"() <{map = affine_map<() -> ()>}> : () -> f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:14
// CHECK: operand is used with type f32, but has been previously used or defined with type index
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  loop.store %i, %x[%i, 0] : memref<4x8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.store: memref<4x8xf32> needs 2 subscripts, got 0
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  loop.store %v, %x[] : memref<4x8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:29
// CHECK: expected a memref type, got f32
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  loop.store %v, %x[0, 0] : f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.store: cannot store index to memref<4x8xf32>: the element types differ
func.func @f(%x: memref<4x8xf32>, %i: index, %v: f32) {
  "loop.store"(%i, %x, %i) <{map = affine_map<(d0) -> (d0, 0)>}> : (index, memref<4x8xf32>, index) -> ()
  func.return
}

// -----

// CHECK: error: loop.guard: the body of loop.guard takes no arguments
func.func @f(%i: index) {
  "loop.guard"(%i) <{conditions = affine_map<(d0) -> (d0, 4)>}> ({
  ^bb0(%j: index):
  }) : (index) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: loop.scan: scan runs along variables of loops around it and axes of its launch only
func.func @f(%v: f32, %k: index) {
  %0 = loop.scan {arith.addf} %v along (%k) : f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: loop.scan: scan folds over one or more distinct axes
func.func @f(%v: f32) {
  loop.for %k = 0 to 8 {
    %0 = loop.scan {arith.addf} %v along (%k, %k) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: loop.scan: the combiner must take the accumulators, then the values: (f32, f32)
func.func @f(%v: f32) {
  loop.for %k = 0 to 8 {
    %0 = loop.scan %v along (%k) : f32 combine (%a: f32) identity [0.0 : f32] {
      loop.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: deplodock.precision must be "high" or "medium", got "tf32"; leave it out for "highest"
func.func @precision(%x: memref<4xf32>, %out: memref<1xf32>) {
  loop.for %m = 0 to 1 {
    %s = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %a = loop.load %x[%k] : memref<4xf32>
      %p = arith.mulf %a, %a {deplodock.precision = "tf32"} : f32
      loop.yield %p : f32
    }
    loop.store %s, %out[%m] : memref<1xf32>
  }
  func.return
}
