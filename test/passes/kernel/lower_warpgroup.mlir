// A contract of a warpgroup: its factors stay in their slabs, its sums are accumulators; the loads are the engine's.
// RUN: deplodock-opt %s -p verify-contract,materialize,canonicalize,cse,place-barriers,verify-barriers | filecheck %s

// CHECK:      %x_smem = kernel.alloc : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
// CHECK-NOT:  loop.load %x_smem
// CHECK:      kernel.fence_proxy_async
// CHECK:      kernel.wgmma_fence
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: loop.for %step = 0 to 4 unroll {
// CHECK-NEXT:   kernel.wgmma m64n64k16 %x_smem[%m_w * 64 + d0, %step * 16 + d1] * %w_smem[d0, %step * 16 + d1] into %acc[0, 0, 0] : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<8x2x2xf32, #tile.memory<register>>
// CHECK-NEXT: }
// CHECK-NEXT: kernel.wgmma_commit
// CHECK-NEXT: kernel.wgmma_wait 0
func.func @k(%x: memref<256x192xbf16>, %w: memref<128x192xbf16>, %out: memref<256x128xf32>) {
  tile.launch (%m_b = 2 : block, %n_b = 2 : block, %m_w = 2 : thread, %m_q = 4 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %n_j = 8 : register, %m_h = 2 : register, %n_r = 2 : register, %k_e = 64 : engine, %n_e = 64 : engine) {
    %m_c = loop.index [%m_w * 64 + %m_q * 16 + %m_h * 8 + %m_g]
    %n_c = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
    %acc = loop.reduce {arith.addf} %ko = 0 to 3 : f32 {
      %x_smem = tile.stage %x[%m_b * 128 + d0, %ko * 64 + d1] : memref<256x192xbf16> to memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %w_smem = tile.stage %w[%n_b * 64 + d0, %ko * 64 + d1] : memref<128x192xbf16> to memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %a = loop.load %x_smem[%m_c, %k_e] : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %b = loop.load %w_smem[%n_e, %k_e] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %c = tile.contract wgmma %a * %b over (%k_e) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %c : f32
    }
    loop.store %acc, %out[%m_b * 128 + %m_c, %n_b * 64 + %n_c] : memref<256x128xf32>
  }
  func.return
}
