// Contracts that one step adds to its sums: one fence before, one group and one wait behind all of them.
// RUN: deplodock-opt %s -p verify-contract,materialize,canonicalize,cse,place-barriers,verify-barriers | filecheck %s

// CHECK:      kernel.wgmma_fence
// CHECK-NOT:  kernel.wgmma_commit
// CHECK:      kernel.wgmma m64n64k16 %x_smem[{{.*}}] * %g_smem[{{.*}}] into %g[0, 0, 0]
// CHECK-NOT:  kernel.wgmma_
// CHECK:      kernel.wgmma m64n64k16 %x_smem[{{.*}}] * %u_smem[{{.*}}] into %u[0, 0, 0]
// CHECK-NEXT: }
// CHECK-NEXT: kernel.wgmma_commit
// CHECK-NEXT: kernel.wgmma_wait 0
func.func @k(%x: memref<64x192xbf16>, %wg: memref<64x192xbf16>, %wu: memref<64x192xbf16>, %out: memref<64x64xf32>) {
  tile.launch (%m_q = 4 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %n_j = 8 : register, %m_h = 2 : register, %n_r = 2 : register, %k_e = 64 : engine, %n_e = 64 : engine) {
    %m_c = loop.index [%m_q * 16 + %m_h * 8 + %m_g]
    %n_c = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
    %g, %u = loop.reduce {arith.addf, arith.addf} %ko = 0 to 3 : f32, f32 {
      %x_smem = tile.stage %x[d0, %ko * 64 + d1] : memref<64x192xbf16> to memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %g_smem = tile.stage %wg[d0, %ko * 64 + d1] : memref<64x192xbf16> to memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %u_smem = tile.stage %wu[d0, %ko * 64 + d1] : memref<64x192xbf16> to memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %a = loop.load %x_smem[%m_c, %k_e] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %b = loop.load %g_smem[%n_e, %k_e] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %c = loop.load %u_smem[%n_e, %k_e] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
      %p = tile.contract wgmma %a * %b over (%k_e) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
      %q = tile.contract wgmma %a * %c over (%k_e) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %p, %q : f32, f32
    }
    %y = arith.mulf %g, %u : f32
    loop.store %y, %out[%m_c, %n_c] : memref<64x64xf32>
  }
  func.return
}
