// Malformed reads of matrices: each message says what fits.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: ldmatrix_invalid.mlir:[[# @LINE + 4]]:3: error: kernel.ldmatrix: it reads 1, 2 or 4 matrices, got 3
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<8x64xbf16, #tile.memory<shared>>
  %a = kernel.alloc : memref<1x2xbf16, #tile.memory<register>>
  kernel.ldmatrix 3 %xs[%thread mod 8, 0] to %a[d0, d1] : memref<8x64xbf16, #tile.memory<shared>> to memref<1x2xbf16, #tile.memory<register>>
}

// -----

// CHECK: ldmatrix_invalid.mlir:[[# @LINE + 4]]:3: error: kernel.ldmatrix: it reads shared memory to registers, got memref<8x64xbf16, #tile.memory<register>> to memref<1x2xbf16, #tile.memory<register>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<8x64xbf16, #tile.memory<register>>
  %a = kernel.alloc : memref<1x2xbf16, #tile.memory<register>>
  kernel.ldmatrix 1 %xs[%thread mod 8, 0] to %a[d0, d1] : memref<8x64xbf16, #tile.memory<register>> to memref<1x2xbf16, #tile.memory<register>>
}

// -----

// CHECK: ldmatrix_invalid.mlir:[[# @LINE + 4]]:3: error: kernel.ldmatrix: it reads elements of 16 bits, got f32
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<8x64xf32, #tile.memory<shared>>
  %a = kernel.alloc : memref<1x2xf32, #tile.memory<register>>
  kernel.ldmatrix 1 %xs[%thread mod 8, 0] to %a[d0, d1] : memref<8x64xf32, #tile.memory<shared>> to memref<1x2xf32, #tile.memory<register>>
}

// -----

// CHECK: ldmatrix_invalid.mlir:[[# @LINE + 4]]:3: error: kernel.ldmatrix: it keeps the element type, got memref<8x64xbf16, #tile.memory<shared>> and memref<1x2xf16, #tile.memory<register>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<8x64xbf16, #tile.memory<shared>>
  %a = kernel.alloc : memref<1x2xf16, #tile.memory<register>>
  kernel.ldmatrix 1 %xs[%thread mod 8, 0] to %a[d0, d1] : memref<8x64xbf16, #tile.memory<shared>> to memref<1x2xf16, #tile.memory<register>>
}

// -----

// CHECK: ldmatrix_invalid.mlir:[[# @LINE + 4]]:3: error: kernel.ldmatrix: memref<1x2xbf16, #tile.memory<register>> needs 2 subscripts, got 1
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<8x64xbf16, #tile.memory<shared>>
  %a = kernel.alloc : memref<1x2xbf16, #tile.memory<register>>
  kernel.ldmatrix 1 %xs[%thread mod 8, 0] to %a[d0] : memref<8x64xbf16, #tile.memory<shared>> to memref<1x2xbf16, #tile.memory<register>>
}

// -----

// CHECK: ldmatrix_invalid.mlir:[[# @LINE + 4]]:3: error: kernel.ldmatrix: a row of memref<8x4xbf16, #tile.memory<shared>> has no 8 elements
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<8x4xbf16, #tile.memory<shared>>
  %a = kernel.alloc : memref<1x2xbf16, #tile.memory<register>>
  kernel.ldmatrix 1 %xs[%thread mod 8, 0] to %a[d0, d1] : memref<8x4xbf16, #tile.memory<shared>> to memref<1x2xbf16, #tile.memory<register>>
}

// -----

// CHECK: error: kernel.ldmatrix: the divisor of 'floordiv' in the subscripts of the destination must be a positive constant: (d0, d1) -> ((d0 floordiv 0), d1)
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%block: index, %thread: index):
  %a = "kernel.alloc"() : () -> memref<8x8xbf16, #tile.memory<shared>>
  %b = "kernel.alloc"() : () -> memref<1x2xbf16, #tile.memory<register>>
  "kernel.ldmatrix"(%a, %b) <{count = 1 : i64, source_map = affine_map<() -> (0, 0)>, destination_map = affine_map<(d0, d1) -> (d0 floordiv 0, d1)>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (memref<8x8xbf16, #tile.memory<shared>>, memref<1x2xbf16, #tile.memory<register>>) -> ()
}) : () -> ()
