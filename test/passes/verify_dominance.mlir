// Uses of values that are not defined before, or not in scope, are errors at their position.
// RUN: not deplodock-opt %s -p verify-dominance 2>&1 | filecheck %s
// RUN: not deplodock-opt %s -p cse --verify-each 2>&1 | filecheck %s --check-prefixes=CHECK,EACH

// CHECK: verify_dominance.mlir:[[# @LINE + 5]]:5: error: arith.mulf: %late is not defined before this use; move arith.addf, which defines it, before it
// EACH:  note: found by verify-dominance in the input
func.func @late(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    %early = arith.mulf %v, %late : f32
    %late = arith.addf %v, %v : f32
  }
  func.return
}
