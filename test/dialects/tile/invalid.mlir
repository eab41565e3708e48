// Malformed tile operations: each message says where and what to write.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: invalid.mlir:[[# @LINE + 3]]:25
// CHECK: Expected `block`, `cluster`, `thread`, `register`, `lane`, or `engine`.
func.func @f() {
  tile.launch (%t = 8 : warp) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:22
// CHECK: Expected ':'
func.func @f() {
  tile.launch (%t = 8) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:21
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f() {
  tile.launch (%t = min(8, 4) : thread) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:21
// CHECK: expected an SSA value or an integer in an affine expression
func.func @f() {
  tile.launch (%t = d0 : thread) {
  }
  func.return
}

// -----

// CHECK: an expanded launch says with kernel.await_launches that it is early
func.func @early_once_expanded() {
  tile.launch (%b = 8 : block, %t = 8 : thread) early attributes {expanded} {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: stream, the CTAs that share the steps of all tiles, is at least 1, and no more once a launch is expanded
func.func @f() {
  tile.launch (%t = 8 : thread) stream 0 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: stream, the CTAs that share the steps of all tiles, is at least 1, and no more once a launch is expanded
func.func @f() {
  tile.launch (%b = 8 : block, %t = 8 : thread) stream 4 attributes {expanded} {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: tiles says how the CTAs of a stream share the steps of all tiles, and there is none
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (8)>], bindings = [#tile.binding<block>], tiles}> ({
  ^bb0(%b: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: occupancy, the wanted CTAs per SM, must be at least 1
func.func @f() {
  tile.launch (%t = 8 : thread) occupancy 0 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:43
// CHECK: Expected integer literal
func.func @f() {
  tile.launch (%t = 8 : thread) occupancy true {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:43
// CHECK: 99999999999999999999 does not fit i64
func.func @f() {
  tile.launch (%t = 8 : thread) occupancy 99999999999999999999 {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:15
// CHECK: '(' expected
func.func @f() {
  tile.launch %t = 8 : thread {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:21
// CHECK: operand is used with type index, but has been previously used or defined with type i64
func.func @f(%n: i64) {
  tile.launch (%t = %n : thread) {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: a launch needs one extent and one binding for each of its 1 axes, got 1 and 0
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (8)>], bindings = []}> ({
  ^bb0(%t: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: launch axes are of type index
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (8)>], bindings = [#tile.binding<block>]}> ({
  ^bb0(%t: i32):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: the extent of an axis must have 1 results, got 2: () -> (8, 4)
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (8, 4)>], bindings = [#tile.binding<block>]}> ({
  ^bb0(%t: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: the extent of an axis must be an affine map over 0 dimensions, one for each operand, and no symbols; got (d0) -> (d0)
func.func @f() {
  "tile.launch"() <{extents = [affine_map<(d0) -> (d0)>], bindings = [#tile.binding<block>]}> ({
  ^bb0(%t: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: the divisor of 'floordiv' in the extent of an axis must be a positive constant: (d0) -> ((d0 floordiv 0))
func.func @f(%n: index) {
  "tile.launch"(%n) <{extents = [affine_map<(d0) -> (d0 floordiv 0)>], bindings = [#tile.binding<block>]}> ({
  ^bb0(%t: index):
  }) : (index) -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: 8 : i64 should be of base attribute affine_map
func.func @f() {
  "tile.launch"() <{extents = [8], bindings = [#tile.binding<block>]}> ({
  ^bb0(%t: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: "block" should be of base attribute tile.binding
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (8)>], bindings = ["block"]}> ({
  ^bb0(%t: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: Expected attribute i64 but got i32
func.func @f() {
  "tile.launch"() <{extents = [], bindings = [], occupancy = 1 : i32}> ({
  ^bb0:
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: Region 'body' at position 0 expected a single block, but got 0 blocks
func.func @f() {
  "tile.launch"() <{extents = [], bindings = []}> ({
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:61
// CHECK: Expected `block`, `cluster`, `thread`, `register`, `lane`, or `engine`.
func.func @f() {
  "tile.launch"() <{extents = [], bindings = [#tile.binding<warp>]}> ({
  }) : () -> ()
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:24
// CHECK: math.exp on (f32, f32) has no short form (Expected 1 operand, but got 2); write `combine (..) identity [..] {..}`
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {math.exp} %v over (%t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:24
// CHECK: no identity is known for {arith.subf} on (f32); write `combine (..) identity [..] {..}`
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.subf} %v over (%t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:24
// CHECK: 2 combining operations for 1 values; name one for each value
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf, arith.addf} %v over (%t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:41
// CHECK: Expected 'combine': a reduction without {op} needs its combiner spelled out
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine %v over (%t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:36
// CHECK: expected 1 operand types but had 2
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf} %v, %v over (%t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: combine folds over one or more distinct axes
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf} %v over () : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: combine folds over one or more distinct axes
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf} %v over (%t, %t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:45
// CHECK: operand is used with type index, but has been previously used or defined with type f32
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf} %v over (%v) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:7: error: tile.combine: combine folds over axes of the enclosing tile.launch only
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    loop.for %i = 0 to 4 {
      %0 = tile.combine {arith.addf} %v over (%i) : f32
    }
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: combine folds over axes of the enclosing tile.launch only
func.func @f(%x: memref<8x8xf32>, %v: f32, %i: index) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf} %v over (%i) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 4]]:36
// CHECK: operand expected
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine {arith.addf} over (%t) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: the combiner must end with loop.yield of values of the types (f32)
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = tile.combine %v over (%t) : f32 combine (%a: f32, %b: f32) identity [0.0 : f32] {
      tensor_ext.yield %a : f32
    }
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: combine gives one result for each value, of the value's type
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    "tile.combine"(%v, %t) <{identities = [0.0 : f32], operandSegmentSizes = array<i32: 1, 1, 0, 0>}> ({
    ^bb0(%a: f32, %b: f32):
      loop.yield %a : f32
    }) : (f32, index) -> ()
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: operand count (2) does not match with the total size (3) specified in attribute 'operandSegmentSizes'
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = "tile.combine"(%v, %t) <{identities = [0.0 : f32], operandSegmentSizes = array<i32: 2, 1, 0, 0>}> ({
    ^bb0(%a: f32, %b: f32):
      loop.yield %a : f32
    }) : (f32, index) -> f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: Expected operandSegmentSizes property in tile.combine operation.
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = "tile.combine"(%v, %t) <{identities = [0.0 : f32]}> ({
    ^bb0(%a: f32, %b: f32):
      loop.yield %a : f32
    }) : (f32, index) -> f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: 0.000000e+00 : f32 should be of base attribute array
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  tile.launch (%t = 8 : thread) {
    %0 = "tile.combine"(%v, %t) <{identities = 0.0 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> ({
    ^bb0(%a: f32, %b: f32):
      loop.yield %a : f32
    }) : (f32, index) -> f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:50
// CHECK: d1 is not one of the coordinates, of which there are 1
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d1] : memref<8x8xf32> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:25
// CHECK: expected an SSA value, an integer or a slab coordinate such as d0
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, e0] : memref<8x8xf32> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:28
// CHECK: a product in an affine expression needs a constant factor
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d0 * d0] : memref<8x8xf32> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: memref<8x8xf32> needs 2 subscripts, got 1
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[d0] : memref<8x8xf32> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: a slab lives in #tile.memory<shared> or #tile.memory<register>, got memref<4xf32>
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d0] : memref<8x8xf32> to memref<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: stage keeps the element type, got memref<8x8xf32> and memref<4xf64, #tile.memory<register>>
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d0] : memref<8x8xf32> to memref<4xf64, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:50
// CHECK: expected a memref type, got tensor<4xf32>
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d0] : memref<8x8xf32> to tensor<4xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: stage copies from global memory, got memref<4xf32, #tile.memory<register>>
func.func @f(%r: memref<4xf32, #tile.memory<register>>) {
  %0 = tile.stage %r[d0] : memref<4xf32, #tile.memory<register>> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:46
// CHECK: Expected 'to'
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d0] : memref<8x8xf32>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:26
// CHECK: expected a memref type, got f32
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %v[] : f32 to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: the map must be over 1 slab coordinates and 0 operands, got () -> (0, 0)
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = "tile.stage"(%x) <{map = affine_map<() -> (0, 0)>}> : (memref<8x8xf32>) -> memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: the map must be over 1 slab coordinates and 0 operands, got (d0)[s0] -> (s0, d0)
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = "tile.stage"(%x) <{map = affine_map<(d0)[s0] -> (s0, d0)>}> : (memref<8x8xf32>) -> memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: the divisor of 'ceildiv' in the subscripts must be a positive constant: (d0) -> (0, (d0 ceildiv 0))
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = "tile.stage"(%x) <{map = affine_map<(d0) -> (0, d0 ceildiv 0)>}> : (memref<8x8xf32>) -> memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: result 'slab' at position 0 does not verify:
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = "tile.stage"(%x) <{map = affine_map<(d0) -> (0, d0)>}> : (memref<8x8xf32>) -> f32
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: a slab needs a static shape, got memref<?xf32, #tile.memory<shared>>
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = "tile.stage"(%x) <{map = affine_map<(d0) -> (0, d0)>}> : (memref<8x8xf32>) -> memref<?xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:77
// CHECK: Expected `shared`, or `register`.
func.func @f(%x: memref<8x8xf32>, %v: f32) {
  %0 = tile.stage %x[0, d0] : memref<8x8xf32> to memref<4xf32, #tile.memory<global>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: conditions are for register slabs
func.func @f(%x: memref<8x8xf32>) {
  %0 = tile.stage %x[0, d0] where (d0 < 3) : memref<8x8xf32> to memref<4xf32, #tile.memory<shared>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: the conditions must be pairs of sides `lhs < rhs`, got 1 sides
func.func @f(%x: memref<8x8xf32>) {
  %0 = "tile.stage"(%x) <{map = affine_map<(d0) -> (0, d0)>, where = affine_map<(d0) -> (d0)>}> : (memref<8x8xf32>) -> memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 2]]:3: error: tile.stage: the conditions must be over 1 slab coordinates and 0 operands
func.func @f(%x: memref<8x8xf32>) {
  %0 = "tile.stage"(%x) <{map = affine_map<(d0) -> (0, d0)>, where = affine_map<(d0, d1) -> (d0, d1)>}> : (memref<8x8xf32>) -> memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:65
// CHECK: d1 is not one of the coordinates, of which there are 1
func.func @f(%x: memref<8x8xf32>) {
  %0 = tile.stage %x[0, d0] where (d1 < 3) : memref<8x8xf32> to memref<4xf32, #tile.memory<register>>
  func.return
}

// -----

// CHECK: an expanded launch has one thread axis, and axes of CTAs besides
func.func @f() {
  tile.launch (%i = 4 : thread, %j = 8 : thread) attributes {expanded} {
  }
  func.return
}

// -----

// CHECK: an expanded launch has one thread axis, and axes of CTAs besides
func.func @f() {
  tile.launch (%i = 4 : thread, %j = 8 : register) attributes {expanded} {
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: combine folds axes and moves others, each named once
func.func @f(%v: f32) {
  tile.launch (%t = 8 : thread, %l = 8 : lane %t) {
    %0 = tile.combine {arith.addf} %v over (%t) at (%t = %l) : f32
  }
  func.return
}

// -----

// CHECK: invalid.mlir:[[# @LINE + 3]]:5: error: tile.combine: the places of a combine are forms over other axes than it folds and moves
func.func @f(%v: f32) {
  tile.launch (%t = 8 : thread, %r = 8 : register) {
    %0 = tile.combine {arith.addf} %v over (%t) at (%r = %t) : f32
  }
  func.return
}
