// Dumps go to stderr and follow the order of the pipeline; the output stays on stdout.
// RUN: deplodock-opt %s -p canonicalize,cse --print-ir-before=cse --print-ir-after=cse -o %t.mlir 2>&1 | filecheck %s
// RUN: deplodock-opt %s -p canonicalize,cse --print-ir-before-all -o %t.mlir 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: deplodock-opt %s -p canonicalize,cse --print-ir-after-all --print-op-generic -o %t.mlir 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: deplodock-opt %s -p canonicalize,cse --print-ir-after-all 2> %t.err | filecheck %s --check-prefix=OUT

// CHECK-NOT:  canonicalize
// CHECK:      // -----// IR Dump Before cse //----- //
// CHECK-NEXT: builtin.module {
// CHECK:        arith.addi
// CHECK-NEXT:   arith.addi
// CHECK:      // -----// IR Dump After cse //----- //
// CHECK:        arith.addi
// CHECK-NOT:    arith.addi

// BEFORE:     IR Dump Before canonicalize
// BEFORE:     IR Dump Before cse
// BEFORE-NOT: IR Dump

// AFTER:     IR Dump After canonicalize
// AFTER:     "arith.addi"
// AFTER:     IR Dump After cse
// AFTER-NOT: IR Dump

// OUT-NOT: IR Dump
// OUT:     func.func @f
func.func @f(%x: i32) -> (i32, i32) {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  func.return %a, %b : i32, i32
}
