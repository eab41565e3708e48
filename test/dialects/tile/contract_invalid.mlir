// Malformed contracts: each message says what is wrong.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: contract_invalid.mlir:[[# @LINE + 4]]:30
// CHECK: Expected '*'
func.func @f(%a: f16) {
  tile.launch (%v = 4 : register) {
    %c = tile.contract mma %a, %a over (%v) : f16, f16 -> f32
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 3]]:5: error: tile.contract: contract adds products of floats to a float, or of integers to an integer
func.func @f(%a: i8) {
  tile.launch (%v = 4 : register) {
    %c = tile.contract mma %a * %a over (%v) : i8, i8 -> f32
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 3]]:5: error: tile.contract: contract folds axes and moves others, each named once
func.func @f(%a: f16) {
  tile.launch (%v = 4 : register) {
    %c = tile.contract mma %a * %a over (%v) at (%v = 0) : f16, f16 -> f32
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 4]]:7: error: tile.contract: contract works on axes of the enclosing tile.launch only
func.func @f(%a: f16) {
  tile.launch (%v = 4 : register) {
    loop.for %i = 0 to 4 {
      %c = tile.contract mma %a * %a over (%i) : f16, f16 -> f32
    }
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 3]]:5: error: tile.contract: the places of a contract are forms over other axes than it moves
func.func @f(%a: f16) {
  tile.launch (%v = 4 : register, %n = 4 : register) {
    %c = tile.contract mma %a * %a over (%v) at (%n = %n) : f16, f16 -> f32
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 3]]:5: error: tile.contract: contract adds pairs of factors, got 1 left and 2 right
func.func @f(%a: f16) {
  tile.launch (%v = 4 : register) {
    %c = "tile.contract"(%a, %a, %a, %v) <{engine = "mma", places = affine_map<() -> ()>, operandSegmentSizes = array<i32: 1, 2, 1, 0, 0>}> : (f16, f16, f16, index) -> f32
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 3]]:5: error: tile.contract: all left factors of a contract have one type, and all right ones
func.func @f(%a: f16, %b: f32) {
  tile.launch (%v = 4 : register) {
    %c = "tile.contract"(%a, %b, %a, %a, %v) <{engine = "mma", places = affine_map<() -> ()>, operandSegmentSizes = array<i32: 2, 2, 1, 0, 0>}> : (f16, f32, f16, f16, index) -> f32
  }
  func.return
}

// -----

// CHECK: contract_invalid.mlir:[[# @LINE + 3]]:5: error: tile.contract: contract folds one or more axes
func.func @f(%a: f16) {
  tile.launch (%v = 4 : register) {
    %c = tile.contract mma %a * %a over () : f16, f16 -> f32
  }
  func.return
}
