// Malformed products of matrices: each message says what fits.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: mma_invalid.mlir:[[# @LINE + 5]]:3: error: kernel.mma: there is no instruction m8n8k4; there are m16n8k16
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xbf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.mma m8n8k4 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>> -> memref<2x2xf32, #tile.memory<register>>
}

// -----

// CHECK: mma_invalid.mlir:[[# @LINE + 5]]:3: error: kernel.mma: m16n8k16 multiplies two of bf16 or f16 to f32, got f32, bf16 and f32
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  %b = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xf32, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>> -> memref<2x2xf32, #tile.memory<register>>
}

// -----

// CHECK: mma_invalid.mlir:[[# @LINE + 5]]:3: error: kernel.mma: m16n8k16 multiplies two of bf16 or f16 to f32, got f16, bf16 and f32
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>> -> memref<2x2xf32, #tile.memory<register>>
}

// -----

// CHECK: mma_invalid.mlir:[[# @LINE + 5]]:3: error: kernel.mma: m16n8k16 multiplies two of bf16 or f16 to f32, got f16, f16 and f16
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf16, #tile.memory<register>>
  kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xf16, #tile.memory<register>>, memref<4xf16, #tile.memory<register>> -> memref<2x2xf16, #tile.memory<register>>
}

// -----

// CHECK: mma_invalid.mlir:[[# @LINE + 5]]:3: error: kernel.mma: a fragment lies in #tile.memory<register>, got memref<4xbf16, #tile.memory<shared>>
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xbf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xbf16, #tile.memory<shared>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<shared>> -> memref<2x2xf32, #tile.memory<register>>
}

// -----

// CHECK: mma_invalid.mlir:[[# @LINE + 5]]:3: error: kernel.mma: memref<2x4xbf16, #tile.memory<register>> needs 2 subscripts, got 1
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xbf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.mma m16n8k16 %a[d0 * 4 + d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>> -> memref<2x2xf32, #tile.memory<register>>
}

// -----

// CHECK: d1 is not one of the coordinates, of which there are 1
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xbf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.mma m16n8k16 %a[d0, d1] * %b[d1] into %c[d0, d1]
    : memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>> -> memref<2x2xf32, #tile.memory<register>>
}

// -----

// CHECK: error: kernel.mma: the subscripts of a fragment are over 1 coordinates and 0 operands, got (d0, d1) -> (d0)
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%block: index, %thread: index):
  %a = "kernel.alloc"() : () -> memref<2x4xbf16, #tile.memory<register>>
  %b = "kernel.alloc"() : () -> memref<4xbf16, #tile.memory<register>>
  %c = "kernel.alloc"() : () -> memref<2x2xf32, #tile.memory<register>>
  "kernel.mma"(%a, %b, %c) <{instruction = "m16n8k16", left_map = affine_map<(d0, d1) -> (d0, d1)>, right_map = affine_map<(d0, d1) -> (d0)>, sums_map = affine_map<(d0, d1) -> (d0, d1)>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}> : (memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>>, memref<2x2xf32, #tile.memory<register>>) -> ()
}) : () -> ()

// -----

// CHECK: error: kernel.mma: the divisor of 'floordiv' in the subscripts of a fragment must be a positive constant: (d0) -> ((d0 floordiv 0))
"kernel.func"() <{sym_name = "k", function_type = () -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%block: index, %thread: index):
  %a = "kernel.alloc"() : () -> memref<2x4xbf16, #tile.memory<register>>
  %b = "kernel.alloc"() : () -> memref<4xbf16, #tile.memory<register>>
  %c = "kernel.alloc"() : () -> memref<2x2xf32, #tile.memory<register>>
  "kernel.mma"(%a, %b, %c) <{instruction = "m16n8k16", left_map = affine_map<(d0, d1) -> (d0, d1)>, right_map = affine_map<(d0) -> (d0 floordiv 0)>, sums_map = affine_map<(d0, d1) -> (d0, d1)>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}> : (memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>>, memref<2x2xf32, #tile.memory<register>>) -> ()
}) : () -> ()
