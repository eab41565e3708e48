// The substitution for round trips works on split files.
// RUN: %roundtrip

// CHECK-LABEL: func.func @f(%x: i32)
// CHECK-NEXT:    %sum = arith.addi %x, %x : i32
func.func @f(%x: i32) -> i32 {
  %sum = arith.addi %x, %x : i32
  func.return %sum : i32
}

// -----

// CHECK-LABEL: func.func @g()
func.func @g() {
  func.return
}
