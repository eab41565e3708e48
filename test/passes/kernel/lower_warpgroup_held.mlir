// A left factor that is computed stays in the registers of its threads, as they hold it; k of the right one is an axis of
// the engine, taken at the k of the left one.
// RUN: deplodock-opt %s -p verify-contract,materialize,canonicalize,cse,place-barriers,verify-barriers | filecheck %s

// CHECK:      %z = kernel.alloc : memref<4x2x2xbf16, #tile.memory<register>>
// CHECK:      kernel.wgmma_fence
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: kernel.wgmma m64n64k16 %z[0, 0, 0] * %w_smem[d1, d0] into %{{.*}}[0, 0, 0] anew : memref<4x2x2xbf16, #tile.memory<register>> * memref<32x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<8x2x2xf32, #tile.memory<register>>
// CHECK-NEXT: kernel.wgmma m64n64k16 %z[2, 0, 0] * %w_smem[d1 + 16, d0] into %{{.*}}[0, 0, 0] : memref<4x2x2xbf16, #tile.memory<register>>
// CHECK-NEXT: kernel.wgmma_commit
// CHECK-NEXT: kernel.wgmma_wait 0
func.func @k(%x: memref<64x32xbf16>, %w: memref<32x64xbf16>, %out: memref<64x64xf32>) {
  tile.launch (%m_q = 4 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %n_j = 8 : register, %k_j = 4 : register, %m_h = 2 : register, %n_r = 2 : register, %k_r = 2 : register, %k_t = 4 : lane %n_t, %k_e = 32 : engine, %n_e = 64 : engine) {
    %m_c = loop.index [%m_q * 16 + %m_h * 8 + %m_g]
    %w_smem = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
    %a = loop.load %x[%m_c, %k_j * 8 + %k_t * 2 + %k_r] : memref<64x32xbf16>
    %z = arith.negf %a : bf16
    %b = loop.load %w_smem[%k_e, %n_e] : memref<32x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
    %c = tile.contract wgmma %z * %b over (%k_t, %k_j, %k_r) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r, %k_e = %k_j * 8 + %k_t * 2 + %k_r) : bf16, bf16 -> f32
    loop.store %c, %out[%m_c, %n_j * 8 + %n_t * 2 + %n_r] : memref<64x64xf32>
  }
  func.return
}
