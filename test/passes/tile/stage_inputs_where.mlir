// RUN: deplodock-opt %s -p stage-inputs --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p materialize | filecheck %s --check-prefix KERNEL

// A register slab is not copied where no reader counts, and what only says that the source has the element is no reason.
// CHECK-LABEL: func.func @rows
// CHECK:         %[[S:.*]] = tile.stage %x[%q, d0 * 32 + %t * 4 + d1] where (d0 * 32 + %t * 4 + d1 < %q floordiv 8 * 8 + 8) : memref<96x96xf32> to memref<3x4xf32, #tile.memory<register>>
// CHECK:           loop.load %[[S]][%{{.*}}, %v]
// CHECK:           loop.load %[[S]][%{{.*}}, %v]
// KERNEL:        kernel.move 4 %x[%q, %[[D:.*]] * 32 + %t * 4] to %{{.*}} where (%[[D]] * 32 + %t * 4 < %q floordiv 8 * 8 + 8)
func.func @rows(%x: memref<96x96xf32>, %out: memref<96xf32>) {
  tile.launch (%q = 96 : block, %t = 8 : thread, %v = 4 : register) {
    %max = loop.reduce {arith.maximumf} %i = 0 to 3 : f32 {
      %n = loop.index [%i * 32 + %t * 4 + %v]
      loop.where %n < 96
      loop.where %n < %q floordiv 8 * 8 + 8
      %a = loop.load %x[%q, %n] : memref<96x96xf32>
      loop.yield %a : f32
    }
    %m = tile.combine {arith.maximumf} %max over (%t, %v) : f32
    %sum = loop.reduce {arith.addf} %j = 0 to 3 : f32 {
      %n = loop.index [%j * 32 + %t * 4 + %v]
      loop.where %n < 96
      loop.where %n < %q floordiv 8 * 8 + 8
      loop.where %n < 90
      %a = loop.load %x[%q, %n] : memref<96x96xf32>
      %b = arith.subf %a, %m : f32
      loop.yield %b : f32
    }
    %s = tile.combine {arith.addf} %sum over (%t, %v) : f32
    loop.store %s, %out[%q] : memref<96xf32>
  }
  func.return
}
