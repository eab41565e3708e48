// Malformed lane axes: each message says what carries one.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: lanes_invalid.mlir:[[# @LINE + 3]]:47
// CHECK: the carrier of a lane axis must be an axis of the launch
func.func @f(%u: index) {
  tile.launch (%t = 4 : thread, %k = 4 : lane %u) {
  }
  func.return
}

// -----

// CHECK: lanes_invalid.mlir:[[# @LINE + 3]]:46
// CHECK: operand expected
func.func @f() {
  tile.launch (%t = 4 : thread, %k = 4 : lane) {
  }
  func.return
}

// -----

// CHECK: lanes_invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: a thread or cluster axis carries a lane axis, not a register axis
func.func @f() {
  tile.launch (%v = 4 : register, %k = 4 : lane %v) {
  }
  func.return
}

// -----

// CHECK: lanes_invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: a lane axis and its carrier must have the same extent
func.func @f() {
  tile.launch (%t = 8 : thread, %k = 4 : lane %t) {
  }
  func.return
}

// -----

// CHECK: lanes_invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: 1 lane axes need a carrier each, got 0
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (4)>], bindings = [#tile.binding<lane>]}> ({
  ^bb0(%k: index):
  }) : () -> ()
  func.return
}

// -----

// CHECK: lanes_invalid.mlir:[[# @LINE + 2]]:3: error: tile.launch: the launch has no axis 1 to carry a lane axis
func.func @f() {
  "tile.launch"() <{extents = [affine_map<() -> (4)>], bindings = [#tile.binding<lane>], carriers = [1]}> ({
  ^bb0(%k: index):
  }) : () -> ()
  func.return
}
