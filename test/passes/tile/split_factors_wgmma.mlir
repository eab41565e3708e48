// Threads hold the left factor and compute its parts; the low part of the right one comes from a slab of its own.
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma rows=n}' -o %t.tiled && filecheck %s --input-file %t.tiled --check-prefix TILED
// RUN: deplodock-opt %t.tiled -p 'verify-contract,split-factors,verify-contract' --check-semantics | filecheck %s
// RUN: deplodock-opt %t.tiled -p 'split-factors,double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer{distance=producer},materialize,place-barriers,verify-barriers' --check-semantics | filecheck %s --check-prefix KERNEL
// RUN: sed -e '/%al = /d' -e '/%aj = /d' -e 's/%aj, %b/%a, %b/' %s | not deplodock-opt -p 'tensor-tile{engine=wgmma rows=n}' 2>&1 | filecheck %s --check-prefix LACKS

// RUN: sed 's/k_q \* 4 + %%k_t)/k_t * 8 + %%k_q)/' %t.tiled | not deplodock-opt -p verify-contract 2>&1 | filecheck %s --check-prefix WORDS

// WORDS: %k_e must be taken at `block * 4 + thread`, block a register
// LACKS: %xs: wgmma reads the low parts of its right factor, and none are stored

// TILED:      %b = loop.load %ws[%n_c, %k_q * 4 + %k_t]
// TILED-NEXT: %a = loop.load %xs[%m_e, %k_e]
// TILED-NEXT: %al = loop.load %xls[%m_e, %k_e]
// TILED-NEXT: %[[BOTH:.*]] = math_ext.with_low_part %a, %al : f32
// TILED-NEXT: tile.contract wgmma %b * %[[BOTH]] over (%k_q, %k_t) at (%m_e = %m_j * 8 + %m_t * 2 + %m_r, %k_e = %k_q * 4 + %k_t) {deplodock.precision = "high"} : f32, f32 -> f32

// CHECK:      loop.reduce {arith.addf} %ko = 0 to 4 apart : f32 {
// CHECK:      %b_low = math_ext.low_part %b : f32
// CHECK-NEXT: %b_high = math_ext.high_part %b : f32
// CHECK-NOT:  with_low_part
// CHECK:      tile.contract wgmma %b_low * %a + %b_high * %al + %b_high * %a over (%k_q, %k_t)

// KERNEL:      kernel.wgmma_fence
// KERNEL-NEXT: kernel.wgmma m64n32k8 %b_low[0, 0] * %xs[%{{.*}} mod 2, d0, d1] into %[[SUMS:.*]][0, 0, 0] anew
// KERNEL-NEXT: loop.for %step = 0 to 3 unroll {
// KERNEL-NEXT:   kernel.wgmma m64n32k8 %b_low[%step * 2 + 2, 0]
// KERNEL:      loop.for %step_1 = 0 to 4 unroll {
// KERNEL-NEXT:   kernel.wgmma m64n32k8 %b_high[%step_1 * 2, 0] * %xls[
// KERNEL:      loop.for %step_2 = 0 to 4 unroll {
// KERNEL-NEXT:   kernel.wgmma m64n32k8 %b_high[%step_2 * 2, 0] * %xs[
// KERNEL:      kernel.wgmma_commit
// KERNEL-NEXT: kernel.wgmma_wait 0
// KERNEL:      arith.addf
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @main(%x: memref<64x128xf32>, %w: memref<64x128xf32>) -> memref<64x64xf32> {
    %xl = memref.alloc() : memref<64x128xf32>
    func.call @low(%x, %xl) : (memref<64x128xf32>, memref<64x128xf32>) -> ()
    %out = memref.alloc() : memref<64x64xf32>
    func.call @linear(%x, %xl, %w, %out) : (memref<64x128xf32>, memref<64x128xf32>, memref<64x128xf32>, memref<64x64xf32>) -> ()
    func.return %out : memref<64x64xf32>
  }
  func.func @low(%x: memref<64x128xf32>, %out: memref<64x128xf32>) {
    tile.launch (%m = 64 : block, %k = 128 : thread) {
      %a = loop.load %x[%m, %k] : memref<64x128xf32>
      %l = math_ext.low_part %a : f32
      loop.store %l, %out[%m, %k] : memref<64x128xf32>
    }
    func.return
  }
  func.func @linear(%x: memref<64x128xf32>, %xl: memref<64x128xf32>, %w: memref<64x128xf32>, %out: memref<64x64xf32>) {
    tile.launch (%m_b = 2 : block, %m_t = 32 : thread, %n_t = 64 : thread) {
      %m = loop.index [%m_b * 32 + %m_t]
      %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
        %xs = tile.stage %x[%m_b * 32 + d0, %ko * 32 + d1] : memref<64x128xf32> to memref<32x32xf32, #tile.memory<shared>>
        %xls = tile.stage %xl[%m_b * 32 + d0, %ko * 32 + d1] : memref<64x128xf32> to memref<32x32xf32, #tile.memory<shared>>
        %ws = tile.stage %w[d0, %ko * 32 + d1] : memref<64x128xf32> to memref<64x32xf32, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<32x32xf32, #tile.memory<shared>>
          %al = loop.load %xls[%m_t, %ki] : memref<32x32xf32, #tile.memory<shared>>
          %aj = math_ext.with_low_part %a, %al : f32
          %b = loop.load %ws[%n_t, %ki] : memref<64x32xf32, #tile.memory<shared>>
          %p = arith.mulf %aj, %b {deplodock.precision = "high"} : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m, %n_t] : memref<64x64xf32>
    }
    func.return
  }
}
