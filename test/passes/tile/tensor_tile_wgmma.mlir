// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma}' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma},verify-contract' --check-semantics
// RUN: deplodock-opt %t.once -p 'double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer,verify-rings' --check-semantics | filecheck %s --check-prefix RING
// RUN: deplodock-opt %t.once -p 'tensor-tile{engine=wgmma}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'tensor-tile{engine=wgmma m=128}' 2>&1 | filecheck %s --check-prefix ROWS
// RUN: not deplodock-opt %s -p 'tensor-tile{engine=wgmma n=16}' 2>&1 | filecheck %s --check-prefix WIDE
// RUN: sed 's/64 : thread, %n_t = 32/64 : thread, %n_t = 20/' %s | not deplodock-opt -p 'tensor-tile{engine=wgmma}' 2>&1 | filecheck %s --check-prefix COLUMNS
// RUN: sed 's/kernel.target<sm_90/kernel.target<sm_120/' %s | not deplodock-opt -p 'tensor-tile{engine=wgmma}' 2>&1 | filecheck %s --check-prefix TARGET

// TWICE: tensor_tile skipped at @linear: the launch has axes of an engine already
// ROWS: the 64 rows of a CTA are no multiple of the 128 of a warpgroup
// COLUMNS: the 20 columns of a CTA are no multiple of 8 up to 256
// WIDE: the 32 columns of a CTA are more than the 16 of a warpgroup
// TARGET: sm_120 has no products of warpgroups

// A warpgroup computes 64 x 32 outputs; the engine reads both slabs, masks of the output reach the store.
// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    tile.launch (%n_b = 2 : block, %m_q = 4 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %n_j = 4 : register, %m_h = 2 : register, %n_r = 2 : register, %k_e = 64 : engine, %n_e = 32 : engine) {
// CHECK-NEXT:      %n_c = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
// CHECK-NEXT:      %m_c = loop.index [%m_q * 16 + %m_h * 8 + %m_g]
// CHECK-NEXT:      %n = loop.index [%n_b * 32 + %n_c]
// CHECK-NEXT:      loop.where %n < 50
// CHECK:           %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK:             %a = loop.load %xs[%m_c, %k_e]
// CHECK-NEXT:        %b = loop.load %ws[%n_e, %k_e]
// CHECK-NEXT:        %part = tile.contract wgmma %a * %b over (%k_e) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
// CHECK-NEXT:        loop.yield %part : f32
// CHECK:           loop.store %y, %out[%m_c, %n]

// A slot is released behind the contract that reads it.
// RING:      tile.wait %ring[%ko]
// RING-NEXT: %a = loop.load %xs[%ko mod 2, %m_c, %k_e] : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
// RING-NEXT: %b = loop.load %ws[%ko mod 2, %n_e, %k_e] : memref<2x32x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
// RING-NEXT: %part = tile.contract wgmma
// RING-NEXT: tile.release %ring[%ko]
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: memref<64x120xbf16>, %w: memref<50x120xbf16>, %v: memref<50xf32>, %out: memref<64x50xbf16>) {
    tile.launch (%n_b = 2 : block, %m_t = 64 : thread, %n_t = 32 : thread) {
      %n = loop.index [%n_b * 32 + %n_t]
      loop.where %n < 50
      %bias = loop.load %v[%n] : memref<50xf32>
      %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
        %xs = tile.stage %x[d0, %ko * 64 + d1] : memref<64x120xbf16> to memref<64x64xbf16, #tile.memory<shared>>
        %ws = tile.stage %w[%n_b * 32 + d0, %ko * 64 + d1] : memref<50x120xbf16> to memref<32x64xbf16, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 64 : f32 {
          %k = loop.index [%ko * 64 + %ki]
          loop.where %k < 120
          %a = loop.load %xs[%m_t, %ki] : memref<64x64xbf16, #tile.memory<shared>>
          %af = arith.extf %a : bf16 to f32
          %b = loop.load %ws[%n_t, %ki] : memref<32x64xbf16, #tile.memory<shared>>
          %bf = arith.extf %b : bf16 to f32
          %p = arith.mulf %bf, %af : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      %sum = arith.addf %acc, %bias : f32
      %y = arith.truncf %sum : f32 to bf16
      loop.store %y, %out[%m_t, %n] : memref<64x50xbf16>
    }
    func.return
  }
}
