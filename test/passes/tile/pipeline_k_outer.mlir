// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=2}' -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=2},verify-rings' --check-semantics
// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=2},materialize,place-barriers,verify-barriers' 2>/dev/null | filecheck %s --check-prefix KERNEL
// RUN: not deplodock-opt %t.once -p 'pipeline-k-outer{distance=2}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=0}' 2>&1 | filecheck %s --check-prefix ZERO
// RUN: not deplodock-opt %s -p 'pipeline-k-outer{distance=3}' 2>&1 | filecheck %s --check-prefix FAR
// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=1},verify-rings' --check-semantics 2>/dev/null | filecheck %s --check-prefix NEAR

// SKIP: pipeline_k_outer skipped at @single: the slabs have one buffer; run double-buffer first
// SKIP: pipeline_k_outer skipped at @uneven: the slabs of one loop have 2 and 3 buffers; a ring has one depth
// SKIP: pipeline_k_outer skipped at @partial: the loop over %ko has a loop.where of its own, so not every step runs
// SKIP: pipeline_k_outer skipped at @plain: no reduction fills a shared slab in each step; run stage-inputs first
// TWICE: @matmul: the slabs are on a ring already
// ZERO: the option distance must be a positive integer or producer, got 0
// FAR: @matmul: copies 3 steps ahead need more than 3 buffers: one is being read

// Wait, copy ahead, compute, release; a slab that is not buffered stays where it is.
// CHECK-LABEL: func.func @matmul
// CHECK:       tile.launch
// CHECK-NEXT:    %[[RING:.*]] = tile.ring 3
// CHECK-NEXT:    %[[XS:.*]] = tile.alloc : memref<3x20x8xf32, #tile.memory<shared>>
// CHECK-NEXT:    %[[WS:.*]] = tile.alloc : memref<3x8x24xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.for %[[P:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      tile.copy %x[d0, %[[P]] * 8 + d1] to %[[XS]] at %[[RING]][%[[P]]] async : memref<20x50xf32> to memref<3x20x8xf32, #tile.memory<shared>>
// CHECK-NEXT:      tile.copy %w[%[[P]] * 8 + d0, d1] to %[[WS]] at %[[RING]][%[[P]]] : memref<50x24xf32> to memref<3x8x24xf32, #tile.memory<shared>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
// CHECK:           tile.wait %[[RING]][%ko]
// CHECK-NEXT:      tile.copy %x[d0, %ko * 8 + 16 + d1] to %[[XS]] at %[[RING]][%ko + 2] async where (%ko + 2 < 7) : memref
// CHECK-NEXT:      tile.copy %w[%ko * 8 + 16 + d0, d1] to %[[WS]] at %[[RING]][%ko + 2] where (%ko + 2 < 7) : memref
// CHECK-NEXT:      loop.reduce
// CHECK-NEXT:        loop.load %[[XS]][%ko mod 3, %m, %ki]
// CHECK-NEXT:        loop.load %[[WS]][%ko mod 3, %ki, %n]
// CHECK:           }
// CHECK-NEXT:      tile.release %[[RING]][%ko]
// CHECK-NEXT:      loop.yield
// NEAR-LABEL:  func.func @matmul
// NEAR:        loop.for %{{.*}} = 0 to 1 unroll
// NEAR:        at %ring[%ko + 1] async where (%ko + 1 < 7)

// The copies of a step are one group, and each step has one barrier.
// KERNEL-LABEL: kernel.func @matmul
// KERNEL:         loop.for %{{.*}} = 0 to 2 unroll {
// KERNEL:           kernel.move 2 async
// KERNEL:           kernel.commit_group
// KERNEL-NOT:     kernel.barrier
// KERNEL:         loop.for %[[KO:.*]] = 0 to 7 {
// KERNEL-NEXT:      kernel.wait_group 1
// KERNEL-NEXT:      kernel.barrier
// KERNEL-NEXT:      loop.guard where (%[[KO]] < 5) {
// KERNEL:             kernel.move 2 async {{.*}} to %{{.*}}[(%[[KO]] + 2) mod 3,
// KERNEL:           kernel.commit_group
// KERNEL-NOT:       kernel.barrier
// KERNEL:           loop.load %{{.*}}[%[[KO]] mod 3,
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

func.func @single(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
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

func.func @uneven(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] buffers 2 : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
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

// Two buffers hold both steps of a loop: they are copied before it.
// CHECK-LABEL: func.func @short
// CHECK:         %[[RING:.*]] = tile.ring 2
// CHECK:         loop.for %[[P:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      tile.copy %x[d0, %[[P]] * 8 + d1] to %[[XS:.*]] at %[[RING]][%[[P]]] : memref
// CHECK:         loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK:           tile.wait %[[RING]][%ko]
// CHECK:           tile.release %[[RING]][%ko]
// CHECK-NEXT:      tile.copy %x[d0, %ko * 8 + 16 + d1] to %[[XS]] at %[[RING]][%ko + 2] where (%ko + 2 < 2) : memref
func.func @short(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] buffers 2 : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] buffers 2 : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
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

func.func @partial(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      loop.where %ko < 5
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] buffers 3 : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
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

func.func @plain(%x: memref<64xf32>, %out: memref<64xf32>) {
  tile.launch (%t = 64 : thread) {
    %v = loop.load %x[%t] : memref<64xf32>
    loop.store %v, %out[%t] : memref<64xf32>
  }
  func.return
}
