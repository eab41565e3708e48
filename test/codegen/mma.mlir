// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// A register of a factor is two neighbours along k; the sums are added to in place.
// CHECK:       mma_m16n8k16_f16(float& c0, float& c1, float& c2, float& c3, const __half* a0, const __half* a1, const __half* a2, const __half* a3, const __half* b0, const __half* b1) {
// CHECK-NEXT:    asm volatile(
// CHECK-NEXT:        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
// CHECK:         __align__(16) __half a[2][4];
// CHECK:         mma_m16n8k16_f16(c[0][0], c[0][1], c[1][0], c[1][1], &a[0][0], &a[1][0], &a[0][2], &a[1][2], &b[0], &b[2]);
kernel.func @k_mma(%x: memref<32x2x4xf16>, %w: memref<32x4xf16>, %out: memref<32x2x2xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x4xf16, #tile.memory<register>>
  %b = kernel.alloc : memref<4xf16, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
  kernel.move 4 %w[%thread, 0] to %b[0] : memref<32x4xf16> to memref<4xf16, #tile.memory<register>>
  loop.for %h = 0 to 2 unroll {
    kernel.move 4 %x[%thread, %h, 0] to %a[%h, 0] : memref<32x2x4xf16> to memref<2x4xf16, #tile.memory<register>>
    kernel.move 2 %out[%thread, %h, 0] to %c[%h, 0] : memref<32x2x2xf32> to memref<2x2xf32, #tile.memory<register>>
  }
  kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x4xf16, #tile.memory<register>>, memref<4xf16, #tile.memory<register>> -> memref<2x2xf32, #tile.memory<register>>
  loop.for %h = 0 to 2 unroll {
    kernel.move 2 %c[%h, 0] to %out[%thread, %h, 0] : memref<2x2xf32, #tile.memory<register>> to memref<32x2x2xf32>
  }
}

// -----

// Each lane names a row, and gets a register of each matrix.
// CHECK:       ldmatrix_4_trans(const void* row, void* r0, void* r1, void* r2, void* r3) {
// CHECK-NEXT:    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
// CHECK-NEXT:    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
// CHECK-NEXT:                 : "=r"(*reinterpret_cast<unsigned*>(r0)), "=r"(*reinterpret_cast<unsigned*>(r1)), "=r"(*reinterpret_cast<unsigned*>(r2)), "=r"(*reinterpret_cast<unsigned*>(r3))
// CHECK-NEXT:                 : "r"(address)
// CHECK-NEXT:                 : "memory");
// CHECK:         ldmatrix_4_trans(&xs[thread % 16 * 24 + thread / 16 * 8], &a[0][0], &a[1][0], &a[2][0], &a[3][0]);
kernel.func @k_ldmatrix(%x: memref<16x16xbf16>, %out: memref<32x8xbf16>) blocks(%block = 1) threads(%thread = 32) {
  %xs = kernel.alloc : memref<16x16xbf16, strided<[24, 1]>, #tile.memory<shared>>
  %a = kernel.alloc : memref<4x2xbf16, #tile.memory<register>>
  kernel.move 8 %x[%thread floordiv 2, %thread mod 2 * 8] to %xs[%thread floordiv 2, %thread mod 2 * 8]
    : memref<16x16xbf16> to memref<16x16xbf16, strided<[24, 1]>, #tile.memory<shared>>
  kernel.barrier
  kernel.ldmatrix 4 trans %xs[%thread mod 16, %thread floordiv 16 * 8] to %a[d0, d1]
    : memref<16x16xbf16, strided<[24, 1]>, #tile.memory<shared>> to memref<4x2xbf16, #tile.memory<register>>
  loop.for %i = 0 to 4 unroll {
    kernel.move 2 %a[%i, 0] to %out[%thread, %i * 2] : memref<4x2xbf16, #tile.memory<register>> to memref<32x8xbf16>
  }
}

// -----

// A register of a factor is four bytes along k; sums are integers.
// CHECK:       mma_m16n8k32_i8(int& c0, int& c1, int& c2, int& c3, const signed char* a0, const signed char* a1, const signed char* a2, const signed char* a3, const signed char* b0, const signed char* b1) {
// CHECK-NEXT:    asm volatile(
// CHECK-NEXT:        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
// CHECK-NEXT:        : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)
// CHECK:         mma_m16n8k32_i8(c[0][0], c[0][1], c[1][0], c[1][1], &a[0][0], &a[1][0], &a[0][4], &a[1][4], &b[0], &b[4]);
kernel.func @k_bytes(%x: memref<32x2x8xi8>, %w: memref<32x8xi8>, %out: memref<32x2x2xi32>) blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<2x8xi8, #tile.memory<register>>
  %b = kernel.alloc : memref<8xi8, #tile.memory<register>>
  %c = kernel.alloc : memref<2x2xi32, #tile.memory<register>>
  kernel.move 8 %w[%thread, 0] to %b[0] : memref<32x8xi8> to memref<8xi8, #tile.memory<register>>
  loop.for %h = 0 to 2 unroll {
    kernel.move 8 %x[%thread, %h, 0] to %a[%h, 0] : memref<32x2x8xi8> to memref<2x8xi8, #tile.memory<register>>
    kernel.move 2 %out[%thread, %h, 0] to %c[%h, 0] : memref<32x2x2xi32> to memref<2x2xi32, #tile.memory<register>>
  }
  kernel.mma m16n8k32 %a[d0, d1] * %b[d0] into %c[d0, d1]
    : memref<2x8xi8, #tile.memory<register>>, memref<8xi8, #tile.memory<register>> -> memref<2x2xi32, #tile.memory<register>>
  loop.for %h = 0 to 2 unroll {
    kernel.move 2 %c[%h, 0] to %out[%thread, %h, 0] : memref<2x2xi32, #tile.memory<register>> to memref<32x2x2xi32>
  }
}
