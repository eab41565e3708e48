// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=2},verify-rings' --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=2},materialize,place-barriers,verify-barriers' 2>/dev/null | filecheck %s --check-prefix KERNEL

// SKIP: pipeline_k_outer skipped at @once: the loop over %ko has 1 steps, copies cannot run 2 ahead

// Copies end where the loop of a CTA ends.
// CHECK-LABEL: func.func @triangle
// CHECK:         loop.reduce {arith.addf} %ko = 0 to min(7, %b * 2 + 3) : f32 {
// CHECK:           tile.copy %{{.*}} at %{{.*}}[%ko + 2] async where (%ko + 2 < 7, %ko + 2 < %b * 2 + 3)
// KERNEL:        loop.for %ko = 0 to min(7, %b * 2 + 3) {
// KERNEL-NEXT:     kernel.wait_group 1
// KERNEL-NEXT:     kernel.barrier
// KERNEL-NEXT:     loop.guard where (%ko < 5, %ko < %b * 2 + 1) {
func.func @triangle(%x: memref<20x56xf32>, %out: memref<4x20x8xf32>) {
  tile.launch (%b = 4 : block, %m = 20 : thread, %n = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to min(7, %b * 2 + 3) : f32 {
      %xs = tile.stage %x[d0, %ko * 8 + d1] buffers 3 async : memref<20x56xf32> to memref<20x8xf32, #tile.memory<shared>>
      %a = loop.load %xs[%m, %n] : memref<20x8xf32, #tile.memory<shared>>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%b, %m, %n] : memref<4x20x8xf32>
  }
  func.return
}
func.func @once(%x: memref<20x56xf32>, %out: memref<4x20x8xf32>) {
  tile.launch (%b = 4 : block, %m = 20 : thread, %n = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to %b * 2 + 1 : f32 {
      %xs = tile.stage %x[d0, %ko * 8 + d1] buffers 3 async : memref<20x56xf32> to memref<20x8xf32, #tile.memory<shared>>
      %a = loop.load %xs[%m, %n] : memref<20x8xf32, #tile.memory<shared>>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%b, %m, %n] : memref<4x20x8xf32>
  }
  func.return
}
