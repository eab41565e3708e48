// The heuristics split k of this product over CTAs, and a second launch adds the parts; a schedule that does not split k
// has no second launch, so its threads are not filled in.
// RUN: deplodock-opt %s --pass-pipeline='choose-schedule' | filecheck %s --check-prefix CHOSEN
// RUN: deplodock-opt %s --pass-pipeline='choose-schedule{schedule="tileify,chunk-matmul-k{bk=64 kv=1},blockify-launch{m=64 n=128},stage-inputs,tensor-tile{engine=wgmma m=64 n=128},mark-unroll"}' | filecheck %s

// CHOSEN: split-matmul-k{s=6 over=block},blockify-launch{m=128 n=96 occupancy=1 threads=256}
// CHECK: "tileify,chunk-matmul-k{bk=64 kv=1},blockify-launch{m=64 n=128},stage-inputs{memory=shared transpose=never}
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: memref<128x16384xbf16>, %w: memref<2048x16384xbf16>, %out: memref<128x2048xbf16>) {
    loop.for %m = 0 to 128 {
      loop.for %n = 0 to 2048 {
        %acc = loop.reduce {arith.addf} %k = 0 to 16384 : f32 {
          %a = loop.load %x[%m, %k] : memref<128x16384xbf16>
          %b = loop.load %w[%n, %k] : memref<2048x16384xbf16>
          %af = arith.extf %a : bf16 to f32
          %bf = arith.extf %b : bf16 to f32
          %p = arith.mulf %af, %bf : f32
          loop.yield %p : f32
        }
        %y = arith.truncf %acc : f32 to bf16
        loop.store %y, %out[%m, %n] : memref<128x2048xbf16>
      }
    }
    func.return
  }
}
