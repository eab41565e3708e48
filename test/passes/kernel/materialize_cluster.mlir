// RUN: deplodock-opt %s -p materialize,verify-barriers --check-semantics | filecheck %s

// A combine over a cluster: each CTA adds the parts of some threads in the order of the ranks, and goes on for those.
// CHECK-LABEL: kernel.func @cluster(%x: memref<8x32xf32>, %out: memref<2x8xf32>) blocks(%block = 8) threads(%thread = 8) cluster 4 {
// CHECK:         %[[PART:.*]] = kernel.alloc : memref<8xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.store %{{.*}}, %[[PART]][%thread]
// CHECK-NEXT:    kernel.cluster_barrier
// CHECK:         loop.guard where (%thread < %[[S:.*]] * 2 + 2, %[[S]] * 2 < %thread + 1) {
// CHECK:           loop.for %[[RANK:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        kernel.cluster_load %[[PART]][%thread] of %[[RANK]]
// CHECK:         kernel.cluster_barrier
// CHECK:         loop.guard where (%thread < %[[S]] * 2 + 2, %[[S]] * 2 < %thread + 1) {
// CHECK-NEXT:      loop.store %{{.*}}, %out[%{{.*}}, %{{.*}}] : memref<2x8xf32>
func.func @cluster(%x: memref<8x32xf32>, %out: memref<2x8xf32>) {
  tile.launch (%m = 2 : block, %s = 4 : cluster, %t = 8 : thread) {
    %v = loop.load %x[%m * 4 + %s, %t] : memref<8x32xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%m, %t] : memref<2x8xf32>
  }
  func.return
}

// CTAs that hold no active point reach the combine, too, and what it gives is written wherever it is.
// CHECK-LABEL: kernel.func @some_ranks
// CHECK-NOT:     loop.guard where (%s < 3)
// CHECK:         loop.inside where (%s < 3)
func.func @some_ranks(%x: memref<4x8xf32>, %out: memref<8xf32>) {
  tile.launch (%s = 4 : cluster, %t = 8 : thread) {
    loop.where %s < 3
    %v = loop.load %x[%s, %t] : memref<4x8xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%t] : memref<8xf32>
  }
  func.return
}
