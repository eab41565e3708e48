// An FP32 factor that lies along the output: threads hold what the engine reads of it, and boxes round both.
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma n=64 rows=n},verify-contract' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'tensor-tile{engine=wgmma n=64 rows=n},double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer' -o %t.boxes
// RUN: deplodock-opt %t.boxes -p 'round-factors,round-factors,verify-rings,verify-contract' --check-semantics -o %t.rounded
// RUN: filecheck %s --input-file %t.rounded --check-prefix BOXES
// RUN: deplodock-opt %t.rounded -p 'materialize,place-barriers,verify-barriers' | filecheck %s --check-prefix KERNEL
// RUN: not deplodock-opt %s -p 'tensor-tile{engine=wgmma n=64}' 2>&1 | filecheck %s --check-prefix RIGHT

// Rows lie so that 16 threads read 8 bytes of all banks at once, and store 8 bytes.
// CHECK:      %n_c = loop.index [%n_q floordiv 2 * 32 + %n_g floordiv 2 mod 2 * 16 + %n_q mod 2 * 8 + %n_g floordiv 4 * 4 + %n_g mod 2 * 2 + %n_h]
// CHECK:      %b = loop.load %ws[%k_q * 4 + %k_t, %n_c]
// CHECK-NEXT: %a = loop.load %xs[%m_e, %k_e]
// CHECK-NEXT: %b_high = math_ext.high_part %b : f32
// CHECK-NEXT: %part = tile.contract wgmma %b_high * %a over (%k_q, %k_t) at (%m_e = {{.*}}, %k_e = %k_q * 4 + %k_t)

// BOXES-COUNT-4: tma tf32
// BOXES-NOT:     round_tf32

// KERNEL: kernel.move 2 %ws[
// KERNEL: math_ext.high_part
// KERNEL: kernel.wgmma m64n64k8 %{{.*}}[%step * 2, 0] * %xs[%ko mod 2, d0, %step * 8 + d1]
// KERNEL: kernel.move 2 %vector[0] to %out[

// RIGHT: %ws: wgmma reads f32 along k, and the rows of its slab run along another axis
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: memref<64x128xf32>, %w: memref<128x64xf32>, %out: memref<64x64xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 64 : thread) {
      %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x128xf32> to memref<64x32xf32, #tile.memory<shared>>
        %ws = tile.stage %w[%ko * 32 + d0, d1] : memref<128x64xf32> to memref<32x64xf32, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x32xf32, #tile.memory<shared>>
          %b = loop.load %ws[%ki, %n_t] : memref<32x64xf32, #tile.memory<shared>>
          %p = arith.mulf %a, %b {deplodock.precision = "medium"} : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x64xf32>
    }
    func.return
  }
}
