// The three spellings of a pipeline mean the same, from a file as well as from stdin.
// RUN: deplodock-opt %s -p canonicalize,dce | filecheck %s
// RUN: deplodock-opt %s --pass-pipeline=canonicalize,dce | filecheck %s
// RUN: deplodock-opt - --pass-pipeline='builtin.module(canonicalize,dce)' < %s | filecheck %s
// RUN: xdsl-opt %s -p canonicalize,dce | filecheck %s

// CHECK-LABEL: func.func @f(%x: i32) -> i32
// CHECK-NEXT:    func.return %x : i32
func.func @f(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %sum = arith.addi %x, %zero : i32
  func.return %sum : i32
}
