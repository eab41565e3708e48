// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p materialize,place-barriers,verify-barriers,verify-resources --split-input-file --check-semantics

// A contract that a sum yields adds to its accumulators; factors are loaded as wide as any other values.
// CHECK-LABEL: kernel.func @in_place
// CHECK:         %acc = kernel.alloc : memref<2x2x2x2xf32, #tile.memory<register>>
// CHECK:         loop.for %k_s = 0 to 2 unroll {
// CHECK:           kernel.move 8 %x[%m_i_1 * 16 + %m_h_1 * 8 + %m_g, %n_t * 16 + %k_s * 8] to %a[%m_i_1, %m_h_1, 0]
// CHECK:           kernel.move 8 %w[%n_j_1 * 8 + %m_g, %n_t * 16 + %k_s * 8] to %b[%n_j_1, 0]
// CHECK:           loop.for %step = 0 to 2 unroll {
// CHECK-NEXT:        loop.for %m_i_2 = 0 to 2 unroll {
// CHECK-NEXT:          loop.for %n_j_2 = 0 to 2 unroll {
// CHECK-NEXT:            kernel.mma m16n8k16 %a[%m_i_2, d0, %step * 4 + d1] * %b[%n_j_2, %step * 4 + d0] into %acc[%m_i_2, %n_j_2, d0, d1]
// CHECK:         kernel.move 2 %acc[%m_i_3, %n_j_3, %m_h_2, 0] to %out
func.func @in_place(%x: memref<32x64xbf16>, %w: memref<16x64xbf16>, %out: memref<32x16xf32>) {
  tile.launch (%m_g = 8 : thread, %n_t = 4 : thread, %m_i = 2 : register, %n_j = 2 : register, %m_h = 2 : register, %n_r = 2 : register, %k_v = 8 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %acc = loop.reduce {arith.addf} %k_s = 0 to 2 unroll : f32 {
      %a = loop.load %x[%m_i * 16 + %m_h * 8 + %m_g, %k_t * 16 + %k_s * 8 + %k_v] : memref<32x64xbf16>
      %b = loop.load %w[%n_j * 8 + %n_g, %k_t * 16 + %k_s * 8 + %k_v] : memref<16x64xbf16>
      %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %c : f32
    }
    loop.store %acc, %out[%m_i * 16 + %m_h * 8 + %m_g, %n_j * 8 + %n_t * 2 + %n_r] : memref<32x16xf32>
  }
  func.return
}

// -----

// Any other contract has sums of its own; here the sum of k is doubled, and the k of a lane spans two axes.
// CHECK-LABEL: kernel.func @apart
// CHECK:         %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
// CHECK:         loop.store {{.*}}, %c[%m_h_1, %n_r]
// CHECK:         kernel.mma m16n8k16 %a[d0, d1 floordiv 2, d1 mod 2] * %b[d0 floordiv 2, d0 mod 2] into %c[d0, d1]
// CHECK:         arith.addf
func.func @apart(%x: memref<16x16xf16>, %w: memref<8x16xf16>, %out: memref<16x8xf32>) {
  tile.launch (%m_g = 8 : thread, %n_t = 4 : thread, %m_h = 2 : register, %n_r = 2 : register, %k_u = 2 : register, %k_v = 2 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %a = loop.load %x[%m_h * 8 + %m_g, %k_u * 8 + %k_t * 2 + %k_v] : memref<16x16xf16>
    %b = loop.load %w[%n_g, %k_u * 8 + %k_t * 2 + %k_v] : memref<8x16xf16>
    %c = tile.contract mma %a * %b over (%k_t, %k_u, %k_v) at (%n_g = %n_t * 2 + %n_r) : f16, f16 -> f32
    %d = arith.addf %c, %c : f32
    loop.store %d, %out[%m_h * 8 + %m_g, %n_t * 2 + %n_r] : memref<16x8xf32>
  }
  func.return
}

// -----

// Pairs are products one after the other.
// CHECK-LABEL: kernel.func @pairs
// CHECK:         kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
// CHECK:         kernel.mma m16n8k16 %e[d0, d1] * %b[d0] into %c[d0, d1]
func.func @pairs(%x: memref<16x16xf16>, %y: memref<16x16xf16>, %w: memref<8x16xf16>, %out: memref<16x8xf32>) {
  tile.launch (%m_g = 8 : thread, %n_t = 4 : thread, %m_h = 2 : register, %n_r = 2 : register, %k_v = 4 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %a = loop.load %x[%m_h * 8 + %m_g, %k_t * 4 + %k_v] : memref<16x16xf16>
    %e = loop.load %y[%m_h * 8 + %m_g, %k_t * 4 + %k_v] : memref<16x16xf16>
    %b = loop.load %w[%n_g, %k_t * 4 + %k_v] : memref<8x16xf16>
    %c = tile.contract mma %a * %b + %e * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : f16, f16 -> f32
    loop.store %c, %out[%m_h * 8 + %m_g, %n_t * 2 + %n_r] : memref<16x8xf32>
  }
  func.return
}
