// RUN: not deplodock-opt %s 2>&1 | filecheck %s
// RUN: deplodock-opt %s --split-input-file --parsing-diagnostics | filecheck %s --check-prefix=ALL

func.func @unknown_op() {
  loop.nope
}

// CHECK:      opt_parse_position.mlir:5:3: error: operation loop.nope is not registered
// CHECK-NEXT:   loop.nope
// CHECK-NEXT:   ^
// CHECK-NOT:  {{.}}

// ALL:      opt_parse_position.mlir:5:3
// ALL:      operation loop.nope is not registered

// -----

// ALL:      opt_parse_position.mlir:22:15
// ALL-NEXT:   func.return %undefined : i32
// ALL-NEXT:               ^^^^^^^^^^
func.func @undefined_value() -> i32 {
  func.return %undefined : i32
}

// -----

// ALL:      opt_parse_position.mlir:29:3
// ALL:      Integer value 3 is out of range for type i1
  %three = "arith.constant"() <{value = 3 : i1}> : () -> i1

// -----

// ALL:      opt_parse_position.mlir:{{[0-9]+}}:1
// ALL:      cannot read this operation: Invalid Block name format `0`. Make sure names
"loop.for"() <{bound = affine_map<() -> (4)>}> ({^0(%i: index): }) : () -> ()

// -----

// ALL:      opt_parse_position.mlir:{{[0-9]+}}:3
// ALL:      cannot read this operation: integer modulo by zero
func.func @zero_divisor(%x: tensor<4xf32>) {
  %0 = tensor_ext.index_map %x affine_map<(d0) -> (0 mod 0)> : tensor<4xf32> -> tensor<4xf32>
  func.return
}
