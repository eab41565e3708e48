// kernel.mma survives custom -> generic -> custom, with fragments anywhere in their buffers.
// RUN: %roundtrip

// CHECK-LABEL: kernel.func @k
kernel.func @k(%out: memref<1xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<4x2x8xbf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4x8xbf16, #tile.memory<register>>
  %c = kernel.alloc : memref<4x4x2x2xf32, #tile.memory<register>>
  loop.for %i = 0 to 4 unroll {
    // CHECK: kernel.mma m16n8k16 %a[%i, d0, d1 + 4] * %b[2, d0] into %c[%i, 2, d0, d1] : memref<4x2x8xbf16, #tile.memory<register>>, memref<4x8xbf16, #tile.memory<register>> -> memref<4x4x2x2xf32, #tile.memory<register>>
    kernel.mma m16n8k16 %a[%i, d0, d1 + 4] * %b[2, d0] into %c[%i, 2, d0, d1]
      : memref<4x2x8xbf16, #tile.memory<register>>, memref<4x8xbf16, #tile.memory<register>> -> memref<4x4x2x2xf32, #tile.memory<register>>
    // CHECK-NEXT: kernel.mma m16n8k16 %b[d0 * 2 + d1 floordiv 2, d1 mod 2] * %b[%i, d0 + 4] into %c[d1, d0, 0, 1] {tag = "kept"} : memref<4x8xbf16, #tile.memory<register>>, memref<4x8xbf16, #tile.memory<register>> -> memref<4x4x2x2xf32, #tile.memory<register>>
    kernel.mma m16n8k16 %b[d0 * 2 + d1 floordiv 2, d1 mod 2] * %b[%i, d0 + 4] into %c[d1, d0, 0, 1] {tag = "kept"}
      : memref<4x8xbf16, #tile.memory<register>>, memref<4x8xbf16, #tile.memory<register>> -> memref<4x4x2x2xf32, #tile.memory<register>>
  }
}
