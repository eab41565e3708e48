// Indices that leave 64 bits for some value of their loops or dimensions are refused where text is read.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: index_overflow.mlir:[[# @LINE + 3]]:3
// CHECK: tensor_ext.index_map: (d0 * 9223372036854775807) leaves the 64 bits of an index
func.func @map(%x: tensor<4xf32>) -> tensor<3xf32> {
  %y = tensor_ext.index_map %x affine_map<(d0) -> (d0 * 9223372036854775807 mod 4)> : tensor<4xf32> -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK: loop.store: (d0 * 4611686018427387904) leaves the 64 bits of an index
func.func @loop(%x: memref<4xf32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 3 {
    loop.store %one, %x[%i * 4611686018427387904 mod 4] : memref<4xf32>
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @fits
func.func @fits(%x: memref<4xf32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 2 {
    loop.store %one, %x[%i * 4611686018427387904 mod 4] : memref<4xf32>
  }
  func.return
}
