// RUN: not deplodock-opt %s -p 'tma-store{span=128}' 2>&1 | filecheck %s

// CHECK: tma-store{span=128} applies to no kernel: @k: sm_80 has no copies of boxes; they need sm_90
builtin.module attributes {kernel.target = #kernel.target<sm_80, sms = 108, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 166912, shared_per_sm = 167936, l2_bytes = 41943040, dram_gbps = 1555, fp32_lanes = 64, fp32_gflops = 19492, launch_ns = 2000>} {
  func.func @k(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x32xf32>) {
    tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
      %m = loop.index [%m_b * 16 + %m_t]
      %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
        %a = loop.load %x[%m, %k] : memref<32x8xf32>
        %b = loop.load %w[%n, %k] : memref<64x8xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<32x32xf32>
    }
    func.return
  }
}
