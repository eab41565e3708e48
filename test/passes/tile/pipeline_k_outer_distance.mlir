// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=0}' 2>&1 | filecheck %s --check-prefix ZERO
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=3}' 2>&1 | filecheck %s --check-prefix FAR
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=7}' 2>&1 | filecheck %s --check-prefix LONG
// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=1},verify-rings' --check-semantics 2>/dev/null | filecheck %s --check-prefix NEAR
// RUN: deplodock-opt %s -p 'async-copy{bytes=4},pipeline-k-outer{distance=1 barrier=mbarrier},verify-rings' --check-semantics 2>/dev/null | filecheck %s --check-prefix PHASES
// RUN: deplodock-opt %s -p 'async-copy{bytes=4},pipeline-k-outer{distance=1 barrier=mbarrier},materialize,place-barriers,verify-barriers' 2>/dev/null | filecheck %s --check-prefix KERNEL
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=1 barrier=mbarrier}' 2>&1 | filecheck %s --check-prefix SYNC
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{barrier=all}' 2>&1 | filecheck %s --check-prefix WORD

// SYNC: @matmul: %ws is not copied asynchronously, so its copies arrive at no phase
// WORD: pass 'pipeline-k-outer{barrier="all"}': the option barrier must be cta or mbarrier, got all

// PHASES-LABEL: func.func @matmul
// PHASES:         %ring = tile.ring 3 mbarrier
// PHASES:         loop.reduce
// PHASES-NOT:     tile.wait
// PHASES:         tile.copy {{.*}} at %ring[%ko + 1] async where (%ko + 1 < 7)
// PHASES-NEXT:    tile.copy {{.*}} at %ring[%ko + 1] async where (%ko + 1 < 7)
// PHASES-NEXT:    tile.wait %ring[%ko]
// PHASES:         tile.release %ring[%ko]

// One CTA barrier publishes the barriers; phases order the loop.
// KERNEL:       %[[FULL:.*]] = kernel.mbarrier 3 arrivals 480
// KERNEL-NEXT:  %[[EMPTY:.*]] = kernel.mbarrier 3 arrivals 15
// KERNEL:       kernel.barrier
// KERNEL:       kernel.arrive_copies %[[FULL]][%p]
// KERNEL:       loop.for %ko = 0 to 7 {
// KERNEL-NOT:     kernel.barrier
// KERNEL:         kernel.wait_phase %[[EMPTY]][(%ko + 1) mod 3], ((%ko + 1) floordiv 3 + 1) mod 2
// KERNEL:         kernel.arrive_copies %[[FULL]][(%ko + 1) mod 3]
// KERNEL:         kernel.wait_phase %[[FULL]][%ko mod 3], %ko floordiv 3 mod 2
// KERNEL:         kernel.arrive warp %[[EMPTY]][%ko mod 3]
// KERNEL-NOT:     kernel.barrier
// KERNEL:       loop.store %{{.*}}, %out

// ZERO: the option distance must be a positive integer or producer, got 0
// LONG: @matmul: the loop over %ko has 7 steps, copies cannot run 7 ahead
// FAR: @matmul: copies 3 steps ahead need more than 3 buffers: one is being read
// NEAR-LABEL:  func.func @matmul
// NEAR:        loop.for %{{.*}} = 0 to 1 unroll
// NEAR:        at %ring[%ko + 1] async where (%ko + 1 < 7)
func.func @matmul(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] buffers 3 async : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] buffers 3 : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<20x8xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x24xf32>
  }
  func.return
}
