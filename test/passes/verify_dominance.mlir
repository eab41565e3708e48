// Uses of values that are defined before, in the same block or around it, are fine; in text others are errors where
// they are read.
// RUN: deplodock-opt %s -p verify-dominance | filecheck %s
// RUN: deplodock-opt %s -p cse --verify-each | filecheck %s

// CHECK-LABEL: func.func @early
func.func @early(%x: memref<4xf32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    %early = arith.mulf %v, %one : f32
    // CHECK: loop.store
    loop.store %early, %x[%i] : memref<4xf32>
  }
  func.return
}
