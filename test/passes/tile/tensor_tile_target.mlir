// RUN: not deplodock-opt %s -p 'tensor-tile{m=32}' 2>&1 | filecheck %s

// CHECK: tensor-tile{m=32} applies to no kernel: @k: sm_75 has no products of matrices by warps
builtin.module attributes {kernel.target = #kernel.target<sm_75, sms = 40, threads_per_block = 1024, threads_per_sm = 1024, blocks_per_sm = 16, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 65536, shared_per_sm = 65536, l2_bytes = 4194304, dram_gbps = 320, fp32_lanes = 64, fp32_gflops = 8141, launch_ns = 2000>} {
  func.func @k(%x: memref<64x64xbf16>, %w: memref<64x32xbf16>, %out: memref<64x32xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
      %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
      %ws = tile.stage %w[d0, d1] : memref<64x32xbf16> to memref<64x32xbf16, #tile.memory<shared>>
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
        %af = arith.extf %a : bf16 to f32
        %b = loop.load %ws[%k, %n_t] : memref<64x32xbf16, #tile.memory<shared>>
        %bf = arith.extf %b : bf16 to f32
        %p = arith.mulf %af, %bf : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
    }
    func.return
  }
}
