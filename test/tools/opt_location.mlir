// Ops know where they were read; a location given in the text wins.
// RUN: deplodock-opt %s --print-debuginfo | filecheck %s

// CHECK: %a = arith.addi %x, %x : i32 loc("{{.*}}opt_location.mlir":7:3)
// CHECK: %b = arith.muli %a, %x : i32 loc("model.py":3:4)
func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.muli %a, %x : i32 loc("model.py":3:4)
  func.return %b : i32
}
