// Malformed kernel operations: each message says where and what to write.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: invalid.mlir:[[# @LINE + 2]]:18
// CHECK: Expected 'blocks'
kernel.func @k() threads(%t = 32) blocks(%b = 1) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: a grid needs 0 or more blocks and 1 or more threads, got -1 and 32
kernel.func @k() blocks(%b = -1) threads(%t = 32) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: a grid needs 0 or more blocks and 1 or more threads, got 1 and 0
kernel.func @k() blocks(%b = 1) threads(%t = 0) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:46
// CHECK: Expected integer literal
kernel.func @k() blocks(%b = 1) threads(%t = true) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:46
// CHECK: 99999999999999999999 does not fit i64
kernel.func @k() blocks(%b = 1) threads(%t = 99999999999999999999) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: occupancy, the CTAs per SM, must be at least 1
kernel.func @k() blocks(%b = 1) threads(%t = 32) occupancy 0 {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:18
// CHECK: Expected ':' after block argument name!
kernel.func @k(%x) blocks(%b = 1) threads(%t = 32) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:13
// CHECK: expect symbol name
kernel.func k() blocks(%b = 1) threads(%t = 32) {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: the body must take the function's arguments, then the block and thread ids of type index
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: the body must take the function's arguments, then the block and thread ids of type index
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%b: i32, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: Region 'body' at position 0 expected a single block, but got 0 blocks
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: a kernel returns nothing; it writes to its memref arguments
"kernel.func"() <{sym_name = "k", function_type = () -> (f32), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: the body must take the function's arguments, then the block and thread ids of type index
"kernel.func"() <{sym_name = "k", function_type = (f32) -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: Expected attribute i64 but got i32
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i32, threads = 32 : i64}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: property 'threads' expected in operation 'kernel.func'
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: f32 should be of base attribute fun
"kernel.func"() <{sym_name = "k", function_type = f32, blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: Expected attribute i64 but got index
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64, occupancy = 1 : index}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: kernel.func: 3 : i64 should be a string
"kernel.func"() <{sym_name = 3, function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%b: index, %t: index):
}) : () -> ()

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3: error: kernel.launch: @missing is not a kernel.func of this module
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  kernel.launch @missing(%x) : memref<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3: error: kernel.launch: the arguments do not match the signature of @k: (memref<4xf32>) -> ()
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  kernel.launch @k(%y) : memref<8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3: error: kernel.launch: the arguments do not match the signature of @k: (memref<4xf32>) -> ()
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  kernel.launch @k()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3: error: kernel.launch: @main is not a kernel.func of this module
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  kernel.launch @main(%x, %y) : memref<4xf32>, memref<8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 5]]:17
// CHECK: attribute expected
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  kernel.launch k(%x) : memref<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 6]]:3
// CHECK: expected 1 operand types but had 2
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  kernel.launch @k(%x, %x) : memref<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:3: error: kernel.launch: Expected SymbolRefAttr with no nested symbols.
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 32) {
}
func.func @main(%x: memref<4xf32>, %y: memref<8xf32>) {
  "kernel.launch"(%x) <{callee = @k::@inner}> : (memref<4xf32>) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.alloc: kernel.alloc needs #tile.memory<shared> or #tile.memory<register>, got memref<4xf32>
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %p = kernel.alloc : memref<4xf32>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.alloc: an on-chip buffer needs a static shape, got memref<?xf32, #tile.memory<shared>>
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %p = kernel.alloc : memref<?xf32, #tile.memory<shared>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3
// CHECK: f32 should be of base attribute memref
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %p = kernel.alloc : f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.alloc: kernel.alloc needs #tile.memory<shared> or #tile.memory<register>, got memref<4xf32, 3 : i64>
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %p = kernel.alloc : memref<4xf32, 3 : i64>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: the width must be 1, 2, 4, 8 or 16 elements, got 3
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 3 %x[0, 0] to %r[0] : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: the last dimension of memref<4xf32, #tile.memory<register>> has no 8 elements to move
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 8 %x[0, 0] to %r[0] : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: memref<4x8xf32> needs 2 subscripts, got 1
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[0] to %r[0] : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: memref<4xf32, #tile.memory<register>> needs 1 subscripts, got 0
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[0, 0] to %r[] : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: a move to global memory is guarded by loop.guard; `where` fills an on-chip destination
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %r[0] to %x[0, 0] where (%t < 4) : memref<4xf32, #tile.memory<register>> to memref<4x8xf32>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:44
// CHECK: Expected '<' between the sides of a condition
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[0, 0] to %r[0] where (%t) : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: the conditions of the move must hold pairs of sides `lhs < rhs`, got 0 sides
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[0, 0] to %r[0] where () : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:15
// CHECK: Expected integer literal
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move %x[0, 0] to %r[0] : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:25
// CHECK: Expected 'to'
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[0, 0], %r[0] : memref<4x8xf32> to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:33
// CHECK: expected a memref type, got f32
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 1 %v[] to %r[0] : f32 to memref<4xf32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: a move keeps the element type, got memref<4x8xf32> and memref<4xf64, #tile.memory<register>>
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf64, #tile.memory<register>>
  kernel.move 4 %x[0, 0] to %r[0] : memref<4x8xf32> to memref<4xf64, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: the last dimension of memref<f32, #tile.memory<register>> has no 4 elements to move
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<f32, #tile.memory<register>>
  kernel.move 4 %x[0, 0] to %r[] : memref<4x8xf32> to memref<f32, #tile.memory<register>>
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: the conditions of the move must hold pairs of sides `lhs < rhs`, got 1 sides
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  "kernel.move"(%x, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, width = 1 : i64, source_map = affine_map<() -> (0, 0)>, destination_map = affine_map<() -> (0)>, where = affine_map<() -> (0)>}> : (memref<4x8xf32>, memref<4xf32, #tile.memory<register>>) -> ()
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: expected 5 values in operandSegmentSizes, but got 4
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  "kernel.move"(%x, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, width = 1 : i64, source_map = affine_map<() -> (0, 0)>, destination_map = affine_map<() -> (0)>}> : (memref<4x8xf32>, memref<4xf32, #tile.memory<register>>) -> ()
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: Expected attribute i64 but got index
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  "kernel.move"(%x, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, width = 1 : index, source_map = affine_map<() -> (0, 0)>, destination_map = affine_map<() -> (0)>}> : (memref<4x8xf32>, memref<4xf32, #tile.memory<register>>) -> ()
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:3: error: kernel.move: operands of conditions need the property `where` that says the conditions
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  "kernel.move"(%x, %r, %t) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>, width = 1 : i64, source_map = affine_map<() -> (0, 0)>, destination_map = affine_map<() -> (0)>}> : (memref<4x8xf32>, memref<4xf32, #tile.memory<register>>, index) -> ()
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.shuffle_xor: the mask of a shuffle is between 1 and 31, got 32
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = kernel.shuffle_xor %v, 32 : f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.shuffle_xor: the mask of a shuffle is between 1 and 31, got 0
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = kernel.shuffle_xor %v, 0 : f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:30
// CHECK: Expected ','
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = kernel.shuffle_xor %v : f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:27
// CHECK: operand is used with type f64, but has been previously used or defined with type f32
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = kernel.shuffle_xor %v, 1 : f64
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.shuffle_xor: a shuffle keeps the type, got f32 and f64
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = "kernel.shuffle_xor"(%v) <{mask = 1 : i64}> : (f32) -> f64
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.shuffle_xor: 1.000000e+00 : f32 should be of base attribute integer
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = "kernel.shuffle_xor"(%v) <{mask = 1.0 : f32}> : (f32) -> f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:23
// CHECK: Expected SSA value tuple size
kernel.func @k(%x: memref<4x8xf32>, %v: f32) blocks(%b = 1) threads(%t = 32) {
  kernel.barrier %v : f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:77
// CHECK: 'sms' is given twice
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, sms = 133>} {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:72
// CHECK: Expected integer literal
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 1.5>} {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:59
// CHECK: identifier expected: the target's architecture, such as sm_90
builtin.module attributes {kernel.target = #kernel.target<90>} {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:69
// CHECK: Expected '='
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms>} {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:66
// CHECK: identifier expected: the name of a fact of the target
builtin.module attributes {kernel.target = #kernel.target<sm_90, 3>} {}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:1
// CHECK: the target states sms = 0 : i64; it must be a positive integer
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 0>} {
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.shuffle_up: the delta of a shuffle is between 1 and 31, got 32
kernel.func @k(%v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = kernel.shuffle_up %v, 32 : f32
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: kernel.shuffle_last: the width of a shuffle is 2, 4, 8, 16 or 32, got 12
kernel.func @k(%v: f32) blocks(%b = 1) threads(%t = 32) {
  %w = kernel.shuffle_last %v, 12 : f32
}
