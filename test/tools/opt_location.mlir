// Ops know where they were read; a location given in the text wins.
// RUN: deplodock-opt %s --print-debuginfo | filecheck %s
// RUN: deplodock-opt %s -o %t.plain
// RUN: deplodock-opt %s --print-debuginfo | deplodock-opt | diff - %t.plain

// CHECK: %a = arith.addi %x, %x : i32 loc("{{.*}}opt_location.mlir":9:3)
// CHECK: %b = arith.muli %a, %x : i32 loc("model.py":3:4)
func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.muli %a, %x : i32 loc("model.py":3:4)
  func.return %b : i32
}

// Arguments are printed without a place, as none is read.
// CHECK: kernel.func @k(%x: memref<4xf32>) blocks
kernel.func @k(%x: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
}
func.func @e(%x: tensor<4xf32>) -> tensor<f32> {
  // CHECK: (%a: f32) {
  %e = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f32) {
    %s = arith.addf %a, %a : f32
    %y = arith.mulf %s, %s : f32
    tensor_ext.yield %y : f32
  }
  // CHECK: combine (%c: f32, %d: f32)
  %r = tensor_ext.reduce %e dims [0] : tensor<4xf32> -> tensor<f32> combine (%c: f32, %d: f32) identity [1.0 : f32] {
    %p = arith.mulf %d, %c : f32
    tensor_ext.yield %p : f32
  }
  func.return %r : tensor<f32>
}
