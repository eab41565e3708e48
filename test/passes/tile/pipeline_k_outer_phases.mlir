// RUN: deplodock-opt %s -p 'pipeline-k-outer{distance=1 barrier=mbarrier},verify-rings' --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP

// SKIP: pipeline_k_outer skipped at @threads: the bound of the loop over %ko is not one of block axes alone; threads could end in unlike phases

// A ring kept by phases may end where the block says, as all threads of a CTA end in the same phase.
// CHECK-LABEL: func.func @blocks
// CHECK:         %ring = tile.ring 3 mbarrier
// CHECK:         loop.reduce {arith.addf} %ko = 0 to %b * 2 + 2 : f32 {
// CHECK:           tile.copy %{{.*}} at %ring[%ko + 1] async where (%ko + 1 < %b * 2 + 2)
func.func @blocks(%x: memref<20x64xf32>, %out: memref<4x20x8xf32>) {
  tile.launch (%b = 4 : block, %m = 20 : thread, %n = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to %b * 2 + 2 : f32 {
      %xs = tile.stage %x[d0, %ko * 8 + d1] buffers 3 async : memref<20x64xf32> to memref<20x8xf32, #tile.memory<shared>>
      %a = loop.load %xs[%m, %n] : memref<20x8xf32, #tile.memory<shared>>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%b, %m, %n] : memref<4x20x8xf32>
  }
  func.return
}
func.func @threads(%x: memref<20x64xf32>, %out: memref<4x20x8xf32>) {
  tile.launch (%b = 4 : block, %m = 20 : thread, %n = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to %m floordiv 16 * 2 + 2 : f32 {
      %xs = tile.stage %x[d0, %ko * 8 + d1] buffers 3 async : memref<20x64xf32> to memref<20x8xf32, #tile.memory<shared>>
      %a = loop.load %xs[%m, %n] : memref<20x8xf32, #tile.memory<shared>>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%b, %m, %n] : memref<4x20x8xf32>
  }
  func.return
}
