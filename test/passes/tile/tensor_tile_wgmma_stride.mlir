// Factors that k walks with a stride: their rows or columns fill the lines of slabs, which the engine reads transposed.
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma n=128},verify-contract' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma n=128},double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer,materialize,place-barriers,verify-barriers' | filecheck %s --check-prefix KERNEL

// CHECK:      %a = loop.load %xs[%k_e, %m_c]
// CHECK-NEXT: %b = loop.load %ws[%k_e, %n_e]
// CHECK-NEXT: tile.contract wgmma %a * %b over (%k_e)

// KERNEL: kernel.wgmma m64n128k16 %xs[%ko, %step * 16 + d1, d0] * %ws[%ko, d0 floordiv 64, %step * 16 + d1, d0 mod 64] into %acc
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: memref<120x64xbf16>, %w: memref<120x200xbf16>, %out: memref<64x200xf32>) {
    tile.launch (%n_b = 2 : block, %m_t = 64 : thread, %n_t = 128 : thread) {
      %n = loop.index [%n_b * 128 + %n_t]
      loop.where %n < 200
      %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
        %xs = tile.stage %x[%ko * 64 + d0, d1] : memref<120x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
        %ws = tile.stage %w[%ko * 64 + d0, %n_b * 128 + d1] : memref<120x200xbf16> to memref<64x128xbf16, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 64 : f32 {
          %k = loop.index [%ko * 64 + %ki]
          loop.where %k < 120
          %a = loop.load %xs[%ki, %m_t] : memref<64x64xbf16, #tile.memory<shared>>
          %af = arith.extf %a : bf16 to f32
          %b = loop.load %ws[%ki, %n_t] : memref<64x128xbf16, #tile.memory<shared>>
          %bf = arith.extf %b : bf16 to f32
          %p = arith.mulf %af, %bf : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n] : memref<64x200xf32>
    }
    func.return
  }
}
