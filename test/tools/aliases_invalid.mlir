// RUN: deplodock-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK:      aliases_invalid.mlir:6:32
// CHECK-NEXT: func.func @f() attributes {a = #nowhere} { func.return }
// CHECK-NEXT:                                ^^^^^^^^
func.func @f() attributes {a = #nowhere} { func.return }
// CHECK: no line defines the alias #nowhere

// -----

func.func @f() attributes {a = #a} { func.return }
#a = [#b]
// CHECK: #b = [1, #a]
// CHECK: the alias #a is defined by itself
#b = [1, #a]

// -----

func.func @f() attributes {a = #a} { func.return }
#a = 1
// CHECK: re-declaration of alias '#a'
#a = 2
