// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: the shape of a product is m64nNk16, k8 of f32 or k32 of bytes, N its columns; got m32n64k16
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m32n64k16 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: the columns of a product are a multiple of 8 up to 256, got 60
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n60k16 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: d2 is not one of the coordinates, of which there are 2
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %xs[d0, d2] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: both factors of a product are bf16, f16, f32 or i8, got bf16 and f16
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %xs[d0, d1] * %hs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: a product of f32 sums over k8, got k16
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %fs[d0, d1] * %fs[d0, d1] into %acc[0] : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: a factor of a product lies in #tile.memory<shared>, got memref<64x64xbf16>
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %g[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: needs 2 subscripts, got 1
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %xs[d0] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: sums are f32 in #tile.memory<register>, got memref<32xf32, #tile.memory<shared>>
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %xs[d0, d1] * %xs[d0, d1] into %sums[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<shared>>
}

// -----

// CHECK: a thread has 64 sums of this product, and memref<32xf32, #tile.memory<register>> holds 32
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n128k16 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: 0 to 7 groups of products may stay pending, got 8
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma_wait 8
}

// -----

// CHECK: the subscripts of a factor are over d0, d1 and 0 operands
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  "kernel.wgmma"(%xs, %xs, %acc) <{columns = 64 : i64, depth = 16 : i64, left_map = affine_map<(d0) -> (d0, 0)>, right_map = affine_map<(d0, d1) -> (d0, d1)>, map = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>}> : (memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>, memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>, memref<32xf32, #tile.memory<register>>) -> ()
}

// -----

// CHECK: sums are neighbours in row-major order, got memref<32xf32, strided<[2]>, #tile.memory<register>>
kernel.func @k(%g: memref<64x64xbf16>) blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %hs = kernel.alloc : memref<64x64xf16, #tile.swizzle<128>, #tile.memory<shared>>
  %fs = kernel.alloc : memref<64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, strided<[2]>, #tile.memory<register>>
  %sums = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.wgmma m64n64k16 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, strided<[2]>, #tile.memory<register>>
}

// -----

// CHECK: wgmma: the right factor of a product lies in #tile.memory<shared>
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x2xbf16, #tile.memory<register>>
  %few = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %xs[d0, d1] * %held[0, 0, 0] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<2x2x2xbf16, #tile.memory<register>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: the subscripts of a factor in registers have no d0 and d1, got (d0, d1) -> (d1, 0, 0)
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x2xbf16, #tile.memory<register>>
  %few = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %held[d1, 0, 0] * %xs[d0, d1] into %acc[0] : memref<2x2x2xbf16, #tile.memory<register>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: a factor in registers is 8 neighbours in row-major order, got memref<4xbf16, #tile.memory<register>>
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x2xbf16, #tile.memory<register>>
  %few = kernel.alloc : memref<4xbf16, #tile.memory<register>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %few[0] * %xs[d0, d1] into %acc[0] : memref<4xbf16, #tile.memory<register>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: a product of i8 sums over k32, got k16
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x4xi8, #tile.memory<register>>
  %acc = kernel.alloc : memref<32xi32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xi32, #tile.memory<register>>
}

// -----

// CHECK: sums are i32 in #tile.memory<register>, got memref<32xf32, #tile.memory<register>>
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x4xi8, #tile.memory<register>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k32 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
}

// -----

// CHECK: the columns of a product are a multiple of 8 up to 24, or of 16 up to 256, got 40
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x4xi8, #tile.memory<register>>
  %acc = kernel.alloc : memref<20xi32, #tile.memory<register>>
  kernel.wgmma m64n40k32 %xs[d0, d1] * %xs[d0, d1] into %acc[0] : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> into memref<20xi32, #tile.memory<register>>
}

// -----

// CHECK: the left factor of a product of bytes lies in #tile.memory<shared>
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x4xi8, #tile.memory<register>>
  %acc = kernel.alloc : memref<32xi32, #tile.memory<register>>
  kernel.wgmma m64n64k32 %held[0, 0, 0] * %xs[d0, d1] into %acc[0] : memref<2x2x4xi8, #tile.memory<register>> * memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xi32, #tile.memory<register>>
}
