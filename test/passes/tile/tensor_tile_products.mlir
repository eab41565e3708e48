// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},verify-contract' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma},verify-contract' --check-semantics | filecheck %s --check-prefix WGMMA

// A contract for each of two products of one loop; they share the left factor and all axes.
// CHECK:      %g, %u = loop.reduce {arith.addf, arith.addf} %ko = 0 to 2 : f32, f32 {
// CHECK:        %[[P:.*]], %[[Q:.*]] = loop.reduce {arith.addf, arith.addf} %ks = 0 to 2 unroll : f32, f32 {
// CHECK-NEXT:     %k = loop.index [%k_t * 16 + %ks * 8 + %k_v]
// CHECK-NEXT:     %a = loop.load %xs[%m_c, %k]
// CHECK-NEXT:     %b = loop.load %gs[%n_o, %k]
// CHECK-NEXT:     %d = loop.load %us[%n_o, %k]
// CHECK-NEXT:     %[[G:.*]] = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
// CHECK-NEXT:     %[[U:.*]] = tile.contract mma %a * %d over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
// CHECK-NEXT:     loop.yield %[[G]], %[[U]] : f32, f32
// CHECK:        loop.yield %[[P]], %[[Q]] : f32, f32

// WGMMA:      %a = loop.load %xs[%m_c, %k_e]
// WGMMA-NEXT: %b = loop.load %gs[%n_e, %k_e]
// WGMMA-NEXT: %d = loop.load %us[%n_e, %k_e]
// WGMMA-NEXT: %[[G:.*]] = tile.contract wgmma %a * %b over (%k_e)
// WGMMA-NEXT: %[[U:.*]] = tile.contract wgmma %a * %d over (%k_e)
// WGMMA-NEXT: loop.yield %[[G]], %[[U]] : f32, f32
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @gate(%x: memref<64x128xbf16>, %wg: memref<32x128xbf16>, %wu: memref<32x128xbf16>, %out: memref<64x32xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
      %g, %u = loop.reduce {arith.addf, arith.addf} %ko = 0 to 2 : f32, f32 {
        %xs = tile.stage %x[d0, %ko * 64 + d1] : memref<64x128xbf16> to memref<64x64xbf16, #tile.memory<shared>>
        %gs = tile.stage %wg[d0, %ko * 64 + d1] : memref<32x128xbf16> to memref<32x64xbf16, #tile.memory<shared>>
        %us = tile.stage %wu[d0, %ko * 64 + d1] : memref<32x128xbf16> to memref<32x64xbf16, #tile.memory<shared>>
        %0, %1 = loop.reduce {arith.addf, arith.addf} %ki = 0 to 64 : f32, f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x64xbf16, #tile.memory<shared>>
          %af = arith.extf %a : bf16 to f32
          %b = loop.load %gs[%n_t, %ki] : memref<32x64xbf16, #tile.memory<shared>>
          %bf = arith.extf %b : bf16 to f32
          %p = arith.mulf %af, %bf : f32
          %d = loop.load %us[%n_t, %ki] : memref<32x64xbf16, #tile.memory<shared>>
          %df = arith.extf %d : bf16 to f32
          %q = arith.mulf %af, %df : f32
          loop.yield %p, %q : f32, f32
        }
        loop.yield %0, %1 : f32, f32
      }
      %y = arith.mulf %g, %u : f32
      loop.store %y, %out[%m_t, %n_t] : memref<64x32xf32>
    }
    func.return
  }
}
