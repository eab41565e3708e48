// In regions of several blocks a definition may stand further down and run earlier; names are those of a function.
// RUN: deplodock-opt %s | filecheck %s

// CHECK: arith.addi
func.func @jump(%c: i32) {
  cf.br ^define
^use:
  %sum = arith.addi %later, %c : i32
  func.return
^define:
  %later = arith.addi %c, %c : i32
  cf.br ^use
}
