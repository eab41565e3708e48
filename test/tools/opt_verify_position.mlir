// An invalid op is reported at its line and column, in split files too.
// RUN: not deplodock-opt %s --split-input-file -o %t.mlir 2>&1 | filecheck %s --match-full-lines

func.func @valid() {
  func.return
}

// -----

func.func @returns_too_much(%x: i32) {
  func.return %x : i32
}

// CHECK:      {{.*}}opt_verify_position.mlir:11:3: error: func.return: Expected arguments to have the same types as the function output types: expected [], got [i32]
// CHECK-NEXT:   func.return %x : i32
// CHECK-NEXT:   ^
