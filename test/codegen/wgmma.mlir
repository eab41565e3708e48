// Products of a warpgroup print as PTX: descriptors from the layouts of their tiles, transposed where rows walk memory.
// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// CHECK:      unsigned long long tile_descriptor(const void* tile, int leading, int stride, int mode) {
// A left factor in registers has four of a thread, of two elements each.
// CHECK:      void wgmma_m64n8k16_bf16_held_right_transposed(float* sums, const void* left, unsigned long long right) {
// CHECK-NEXT: const unsigned* const held = reinterpret_cast<const unsigned*>(left);
// CHECK:      "}, {%4, %5, %6, %7}, %8, 1, 1, 1, 1;"
// CHECK-NEXT: : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
// CHECK-NEXT: : "r"(held[0]), "r"(held[1]), "r"(held[2]), "r"(held[3]), "l"(right));
// CHECK:      void wgmma_m64n32k16_bf16(float* sums, unsigned long long left, unsigned long long right) {
// CHECK:      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
// CHECK-NEXT: "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
// CHECK-NEXT: "}, %16, %17, 1, 1, 1, 0, 0;"
// CHECK-NEXT: : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]),
// CHECK:      void wgmma_m64n128k16_bf16_right_transposed(
// CHECK:      "}, %64, %65, 1, 1, 1, 0, 1;"

// CHECK:      __shared__ __align__(1024) __nv_bfloat16 xs[16384];
// CHECK-NEXT: __shared__ __align__(1024) __nv_bfloat16 ws[8192];
// CHECK:      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
// CHECK:      wgmma_m64n32k16_bf16(&acc[1][0][0][0], tile_descriptor(&xs[k % 2 * 8192 + thread / 128 * 4096 + s * 16], 16, 1024, 1), tile_descriptor(&xs[k % 2 * 8192 + s * 16], 16, 1024, 1));
// CHECK-NEXT: wgmma_m64n128k16_bf16_right_transposed(&acc[0][0][0][0], tile_descriptor(&xs[s * 16], 16, 1024, 1), tile_descriptor(&ws[s * 1024], 8192, 1024, 1));
// CHECK:      wgmma_m64n8k16_bf16_left_transposed(&acc[0][0][0][0], tile_descriptor(&ws[5120], 16, 1024, 1), tile_descriptor(&xs[0], 16, 1024, 1));
// CHECK-NEXT: wgmma_m64n8k16_bf16_held_right_transposed(&acc[0][0][0][0], &held[1][0][0][0], tile_descriptor(&ws[0], 16, 1024, 1));
// CHECK-NEXT: asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
// CHECK-NEXT: asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
kernel.func @k_wgmma() blocks(%block = 3) threads(%thread = 256) {
  %xs = kernel.alloc : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %ws = kernel.alloc : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %held = kernel.alloc : memref<4x2x2x2xbf16, #tile.memory<register>>
  %acc = kernel.alloc : memref<2x16x2x2xf32, #tile.memory<register>>
  loop.for %k = 0 to 4 {
    kernel.wgmma_fence
    loop.for %s = 0 to 4 unroll {
      kernel.wgmma m64n32k16 %xs[%k mod 2, %thread floordiv 128 * 64 + d0, %s * 16 + d1] * %xs[%k mod 2, d0, %s * 16 + d1] into %acc[1, 0, 0, 0] : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<2x16x2x2xf32, #tile.memory<register>>
      kernel.wgmma m64n128k16 %xs[0, d0, %s * 16 + d1] * %ws[d0 floordiv 64, %s * 16 + d1, d0 mod 64] into %acc[0, 0, 0, 0] : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<2x16x2x2xf32, #tile.memory<register>>
    }
    kernel.wgmma m64n8k16 %ws[1, d1 + 16, d0] * %xs[0, d0, d1] into %acc[0, 0, 0, 0] : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<2x16x2x2xf32, #tile.memory<register>>
    kernel.wgmma m64n8k16 %held[1, 0, 0, 0] * %ws[0, d1, d0] into %acc[0, 0, 0, 0] : memref<4x2x2x2xbf16, #tile.memory<register>> * memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<2x16x2x2xf32, #tile.memory<register>>
    kernel.wgmma_commit
    kernel.wgmma_wait 1
  }
}

// -----

// Products of bytes have neither signs nor transposed tiles, and their sums are integers.
// CHECK:      void wgmma_m64n24k32_i8(int* sums, unsigned long long left, unsigned long long right) {
// CHECK:      "wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.s8 {"
// CHECK-NEXT: "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
// CHECK-NEXT: "}, %12, %13, 1;"
// CHECK-NEXT: : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]),
// CHECK:      wgmma_m64n24k32_i8(&acc[0], tile_descriptor(&xs[s * 32], 16, 1024, 1), tile_descriptor(&xs[s * 32], 16, 1024, 1));
kernel.func @k_bytes_by_warpgroups() blocks(%block = 3) threads(%thread = 128) {
  %xs = kernel.alloc : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<12xi32, #tile.memory<register>>
  kernel.wgmma_fence
  loop.for %s = 0 to 4 unroll {
    kernel.wgmma m64n24k32 %xs[d0, %s * 32 + d1] * %xs[d0, %s * 32 + d1] into %acc[0] : memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x128xi8, #tile.swizzle<128>, #tile.memory<shared>> into memref<12xi32, #tile.memory<register>>
  }
  kernel.wgmma_commit
  kernel.wgmma_wait 0
}
