// Two warpgroups that compute the parts of a factor and add up sums multiply in turns: a role each, and a phase for each.
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma m=32 n=64 rows=n},split-factors,double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer{distance=producer},materialize,place-barriers' -o %t.kernel
// RUN: deplodock-opt %t.kernel -p take-turns -o %t.turns && filecheck %s --input-file %t.turns
// RUN: deplodock-opt %t.kernel -p 'take-turns,verify-barriers' --check-semantics -o /dev/null
// RUN: deplodock-opt %t.turns -p take-turns | diff %t.turns -
// RUN: sed '/arrive warp .turns.0./d' %t.turns | not deplodock-opt -p verify-barriers 2>&1 | filecheck %s --check-prefix STUCK

// CHECK:      %empty = kernel.mbarrier 2 arrivals 8
// CHECK-NEXT: %turns = kernel.mbarrier 2 arrivals 4
// CHECK:      kernel.role consumers_0(%reader = 128) registers 240 {
// CHECK:        kernel.wait_phase %turns[0], (%ko_1 + 1) mod 2
// CHECK-NEXT:   kernel.wgmma_fence
// CHECK:        kernel.wgmma_commit
// CHECK-NEXT:   kernel.arrive warp %turns[1]
// CHECK-NEXT:   kernel.wgmma_wait 0
// CHECK:      kernel.role consumers_1(%reader_1 = 128) registers 240 {
// CHECK-NEXT:   %reader_2 = loop.index [%reader_1 + 128]
// CHECK:        kernel.wait_phase %turns[1], %ko_2 mod 2
// CHECK-NEXT:   kernel.wgmma_fence
// CHECK:        kernel.arrive warp %turns[0]

// STUCK: waits forever for phase 0 of its barrier
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @main(%x: memref<64x128xf32>, %w: memref<128x128xf32>) -> memref<64x128xf32> {
    %xl = memref.alloc() : memref<64x128xf32>
    func.call @low(%x, %xl) : (memref<64x128xf32>, memref<64x128xf32>) -> ()
    %out = memref.alloc() : memref<64x128xf32>
    func.call @linear(%x, %xl, %w, %out) : (memref<64x128xf32>, memref<64x128xf32>, memref<128x128xf32>, memref<64x128xf32>) -> ()
    func.return %out : memref<64x128xf32>
  }
  func.func @low(%x: memref<64x128xf32>, %out: memref<64x128xf32>) {
    tile.launch (%m = 64 : block, %k = 128 : thread) {
      %a = loop.load %x[%m, %k] : memref<64x128xf32>
      %l = math_ext.low_part %a : f32
      loop.store %l, %out[%m, %k] : memref<64x128xf32>
    }
    func.return
  }
  func.func @linear(%x: memref<64x128xf32>, %xl: memref<64x128xf32>, %w: memref<128x128xf32>, %out: memref<64x128xf32>) {
    tile.launch (%m_b = 2 : block, %m_t = 32 : thread, %n_t = 128 : thread) {
      %m = loop.index [%m_b * 32 + %m_t]
      %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
        %xs = tile.stage %x[%m_b * 32 + d0, %ko * 32 + d1] : memref<64x128xf32> to memref<32x32xf32, #tile.memory<shared>>
        %xls = tile.stage %xl[%m_b * 32 + d0, %ko * 32 + d1] : memref<64x128xf32> to memref<32x32xf32, #tile.memory<shared>>
        %ws = tile.stage %w[d0, %ko * 32 + d1] : memref<128x128xf32> to memref<128x32xf32, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<32x32xf32, #tile.memory<shared>>
          %al = loop.load %xls[%m_t, %ki] : memref<32x32xf32, #tile.memory<shared>>
          %aj = math_ext.with_low_part %a, %al : f32
          %b = loop.load %ws[%n_t, %ki] : memref<128x32xf32, #tile.memory<shared>>
          %p = arith.mulf %aj, %b {deplodock.precision = "high"} : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m, %n_t] : memref<64x128xf32>
    }
    func.return
  }
}
