// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=producer}' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=producer},verify-rings' --check-semantics
// RUN: not deplodock-opt %t.once -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=consumer}' 2>&1 | filecheck %s --check-prefix WORD
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=producer barrier=cta}' 2>&1 | filecheck %s --check-prefix CTA
// RUN: sed 's/ tma : memref/ : memref/' %s | not deplodock-opt -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix BOXES
// RUN: sed 's/= 0 to 5 :/= 0 to min(%n_b + 3, 5) :/' %s | not deplodock-opt -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix VARIES
// RUN: sed 's/%m_q = 4/%m_q = 3/' %s | not deplodock-opt -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix WHOLE
// RUN: sed 's/threads_per_block = 1024/threads_per_block = 200/' %s | not deplodock-opt -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix MANY
// RUN: sed 's/%n_e = 32 : engine) {/%n_e = 32 : engine) occupancy 6 {/' %s | not deplodock-opt -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix REGISTERS
// RUN: sed 's/^      %n_c = /      loop.where %n_b < 1\n&/' %s | not deplodock-opt -p 'pipeline-k-outer{distance=producer}' 2>&1 | filecheck %s --check-prefix MASK

// TWICE: @linear: the slabs are on a ring already
// WORD: the option distance must be a positive integer or producer, got consumer
// CTA: @linear: %xs comes in boxes, which arrive at phases; take barrier=mbarrier
// BOXES: @linear: %xs does not come in boxes, and a producer copies nothing else
// VARIES: @linear: the bound of the loop over %ko varies; a producer's loop has a constant one
// MASK: @linear: a mask leaves out tiles, which a producer and its readers would have to agree on
// WHOLE: @linear: a producer is a warpgroup beside others, and the 96 threads are no whole warpgroups
// MANY: @linear: with a producer a CTA has 256 threads, sm_90 allows fewer
// REGISTERS: @linear: 6 CTAs of 256 threads, with a producer, start with 40 registers each, and a product takes 42; lower the occupancy

// The loop copies the step that it is at, and no step comes before it.
// CHECK:      %ring = tile.ring 3 mbarrier producer
// CHECK-NEXT: %xs = tile.alloc
// CHECK-NEXT: %ws = tile.alloc
// CHECK-NEXT: loop.reduce {arith.addf} %ko = 0 to 5 : f32 {
// CHECK-NEXT:   tile.copy %x[d0, %ko * 64 + d1] to %xs at %ring[%ko] tma : memref
// CHECK-NEXT:   tile.copy %w[%n_b * 32 + d0, %ko * 64 + d1] to %ws at %ring[%ko] tma : memref
// CHECK-NEXT:   tile.wait %ring[%ko]
// CHECK:        tile.contract wgmma
// CHECK-NEXT:   tile.release %ring[%ko]
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: memref<64x320xbf16>, %w: memref<64x320xbf16>, %out: memref<64x64xf32>) {
    tile.launch (%n_b = 2 : block, %m_q = 4 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %n_j = 4 : register, %m_h = 2 : register, %n_r = 2 : register, %k_e = 64 : engine, %n_e = 32 : engine) {
      %n_c = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
      %m_c = loop.index [%m_q * 16 + %m_h * 8 + %m_g]
      %acc = loop.reduce {arith.addf} %ko = 0 to 5 : f32 {
        %xs = tile.stage %x[d0, %ko * 64 + d1] buffers 3 tma : memref<64x320xbf16> to memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        %ws = tile.stage %w[%n_b * 32 + d0, %ko * 64 + d1] buffers 3 tma : memref<64x320xbf16> to memref<32x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        %a = loop.load %xs[%m_c, %k_e] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        %b = loop.load %ws[%n_e, %k_e] : memref<32x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        %part = tile.contract wgmma %a * %b over (%k_e) at (%n_e = %n_j * 8 + %n_t * 2 + %n_r) : bf16, bf16 -> f32
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_c, %n_b * 32 + %n_c] : memref<64x64xf32>
    }
    func.return
  }
}
