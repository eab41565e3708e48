// Matrix products of a warpgroup survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      kernel.wgmma_fence {tag = "kept"}
// CHECK-NEXT: kernel.wgmma m64n16k16 %xs[%k mod 2, %thread floordiv 128 * 64 + d0, d1] * %ws[d1, d0] into %acc[1, 0] {tag = "kept"} : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x16xbf16, #tile.swizzle<32>, #tile.memory<shared>> into memref<2x8xf32, #tile.memory<register>>
// CHECK-NEXT: kernel.wgmma m64n16k16 %held[%k, 0, 0, 0] * %ws[d1, d0] into %acc[1, 0] {tag = "kept"} : memref<2x2x2x2xbf16, #tile.memory<register>> * memref<64x16xbf16, #tile.swizzle<32>, #tile.memory<shared>> into memref<2x8xf32, #tile.memory<register>>
// CHECK-NEXT: kernel.wgmma_commit {tag = "kept"}
// CHECK-NEXT: kernel.wgmma_wait 1 {tag = "kept"}
kernel.func @k() blocks(%block = 3) threads(%thread = 256) {
  %xs = kernel.alloc : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %ws = kernel.alloc : memref<64x16xbf16, #tile.swizzle<32>, #tile.memory<shared>>
  %held = kernel.alloc : memref<2x2x2x2xbf16, #tile.memory<register>>
  %acc = kernel.alloc : memref<2x8xf32, #tile.memory<register>>
  loop.for %k = 0 to 2 {
    kernel.wgmma_fence {tag = "kept"}
    kernel.wgmma m64n16k16 %xs[%k mod 2, %thread floordiv 128 * 64 + d0, d1] * %ws[d1, d0] into %acc[1, 0] {tag = "kept"} : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x16xbf16, #tile.swizzle<32>, #tile.memory<shared>> into memref<2x8xf32, #tile.memory<register>>
    kernel.wgmma m64n16k16 %held[%k, 0, 0, 0] * %ws[d1, d0] into %acc[1, 0] {tag = "kept"} : memref<2x2x2x2xbf16, #tile.memory<register>> * memref<64x16xbf16, #tile.swizzle<32>, #tile.memory<shared>> into memref<2x8xf32, #tile.memory<register>>
    kernel.wgmma_commit {tag = "kept"}
    kernel.wgmma_wait 1 {tag = "kept"}
  }
}
