// kernel.ldmatrix survives custom -> generic -> custom, transposed or not.
// RUN: %roundtrip

// CHECK-LABEL: kernel.func @k
kernel.func @k(%out: memref<1xf32>) blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<16x64xbf16, #tile.memory<shared>>
  %a = kernel.alloc : memref<2x2x2xbf16, #tile.memory<register>>
  loop.for %s = 0 to 4 unroll {
    // CHECK: kernel.ldmatrix 4 %xs[%thread mod 16, %s * 16 + %thread floordiv 16 * 8] to %a[d0 mod 2, d0 floordiv 2, d1] : memref<16x64xbf16, #tile.memory<shared>> to memref<2x2x2xbf16, #tile.memory<register>>
    kernel.ldmatrix 4 %xs[%thread mod 16, %s * 16 + %thread floordiv 16 * 8] to %a[d0 mod 2, d0 floordiv 2, d1]
      : memref<16x64xbf16, #tile.memory<shared>> to memref<2x2x2xbf16, #tile.memory<register>>
    // CHECK-NEXT: kernel.ldmatrix 2 trans %xs[%thread mod 16, %s * 8] to %a[d0, 1, d1] {tag = "kept"} : memref<16x64xbf16, #tile.memory<shared>> to memref<2x2x2xbf16, #tile.memory<register>>
    kernel.ldmatrix 2 trans %xs[%thread mod 16, %s * 8] to %a[d0, 1, d1] {tag = "kept"}
      : memref<16x64xbf16, #tile.memory<shared>> to memref<2x2x2xbf16, #tile.memory<register>>
  }
}
