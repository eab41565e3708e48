// A value that is used further up than it is defined is an error at its use, whatever tool reads the text.
// RUN: not deplodock-opt %s 2>&1 | filecheck %s
// RUN: not deplodock run --device sim %s 2>&1 | filecheck %s

// CHECK: late_use.mlir:[[# @LINE + 4]]:29: error: value %late is used here, but defined further down: move its definition up
func.func @late(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    %early = arith.mulf %v, %late : f32
    %late = arith.addf %v, %v : f32
  }
  func.return
}
