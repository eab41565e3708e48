// RUN: deplodock-opt %s --split-input-file --verify-diagnostics -p tileify
// RUN: not deplodock-opt %s --split-input-file --verify-diagnostics -p cse 2>&1 | filecheck %s

// Errors of the parser, of verifiers and of passes, and remarks of passes, are as the comments expect them.

func.func @parser() {
  loop.nope // expected-error {{operation loop.nope is not registered}}
}

// -----

// expected-error@+1 {{Expected arguments to have the same types as the function output types}}
func.func @verifier(%x: i32) { func.return %x : i32 }

// -----

func.func @above(%x: i32) { func.return %x : i32 }
// expected-error-re@above {{func.return: {{[A-Z]}}xpected arguments}}

// -----

// A remark is about the kernel that a pass leaves alone; without the pass it does not come.
// CHECK: verify_diagnostics.mlir:[[# @LINE + 1]]: error: expected remark "skipped at @done" was not produced
// expected-remark@below {{skipped at @done}}
func.func @done(%x: memref<4xf32>, %c: f32) {
  tile.launch (%t = 4 : thread) {
    loop.store %c, %x[%t] : memref<4xf32>
  }
  func.return
}
