// RUN: deplodock-opt %s -p materialize,verify-barriers --check-semantics | filecheck %s

// A combine over a cluster: each CTA adds the parts of some warps in the order of the ranks, and goes on for those.
// CHECK-LABEL: kernel.func @cluster(%x: memref<8x128xf32>, %out: memref<2x128xf32>) blocks(%block = 8) threads(%thread = 128) cluster 4 {
// CHECK:         %[[PART:.*]] = kernel.alloc : memref<128xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.store %{{.*}}, %[[PART]][%thread]
// CHECK-NEXT:    kernel.cluster_barrier
// CHECK:         loop.guard where (%thread < %[[S:.*]] * 32 + 32, %[[S]] * 32 < %thread + 1) {
// CHECK:           loop.for %[[RANK:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        %[[TO:.*]] = kernel.alloc : memref<1xf32, #tile.memory<register>>
// CHECK-NEXT:        kernel.cluster_move 1 %[[PART]][%thread] of %[[RANK]] to %[[TO]][0]
// CHECK:         kernel.cluster_barrier
// CHECK:         loop.guard where (%thread < %[[S]] * 32 + 32, %[[S]] * 32 < %thread + 1) {
// CHECK-NEXT:      loop.store %{{.*}}, %out[%{{.*}}, %{{.*}}] : memref<2x128xf32>
func.func @cluster(%x: memref<8x128xf32>, %out: memref<2x128xf32>) {
  tile.launch (%m = 2 : block, %s = 4 : cluster, %t = 128 : thread) {
    %v = loop.load %x[%m * 4 + %s, %t] : memref<8x128xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%m, %t] : memref<2x128xf32>
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

// Each CTA folds its share of a register axis, the outermost, and goes on with that alone, in all of its threads.
// CHECK-LABEL: kernel.func @shares(%x: memref<4x8x32xf32>, %out: memref<8x32xf32>) blocks(%block = 4) threads(%thread = 8) cluster 4 {
// CHECK:         %[[PART:.*]] = kernel.alloc : memref<8x8x4xf32, #tile.memory<shared>>
// CHECK:         kernel.move 4 %{{.*}}[0] to %[[PART]][%{{.*}}, %thread, 0]
// CHECK:         kernel.cluster_barrier
// CHECK-NEXT:    %[[ACC:.*]] = kernel.alloc : memref<2x2x2xf32, #tile.memory<register>>
// CHECK-NOT:     loop.guard
// CHECK:         loop.for %[[RANK:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      loop.for %[[I:.*]] = 0 to 2 unroll {
// CHECK-NEXT:        %[[TO:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:        kernel.cluster_move 4 %[[PART]][%s * 2 + %[[I]], %thread, 0] of %[[RANK]] to %[[TO]][0]
// CHECK:         kernel.cluster_barrier
// CHECK-NOT:     loop.guard
// CHECK:         %out[%t, %s * 8 + %{{.*}} * 4
func.func @shares(%x: memref<4x8x32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%s = 4 : cluster, %t = 8 : thread, %i = 8 : register, %j = 2 : register, %r = 2 : register) {
    %n = loop.index [%i * 4 + %j * 2 + %r]
    %v = loop.load %x[%s, %t, %n] : memref<4x8x32xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%t, %n] : memref<8x32xf32>
  }
  func.return
}

// Conditions are those of the shares.
// CHECK-LABEL: kernel.func @ragged
// CHECK:         loop.guard where (%s * 8 + %{{.*}} < 30) {
func.func @ragged(%x: memref<4x8x32xf32>, %out: memref<8x30xf32>) {
  tile.launch (%s = 4 : cluster, %t = 8 : thread, %i = 8 : register, %r = 4 : register) {
    %n = loop.index [%i * 4 + %r]
    loop.where %n < 30
    %v = loop.load %x[%s, %t, %n] : memref<4x8x32xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%t, %n] : memref<8x30xf32>
  }
  func.return
}

// What was read before, at all coordinates, and what does not lie along the axis, leave no axis to share.
// CHECK-LABEL: kernel.func @before
// CHECK:         loop.guard where (%thread < %s * 32 + 32, %s * 32 < %thread + 1) {
func.func @before(%x: memref<4x128x8xf32>, %b: memref<128x8xf32>, %out: memref<128x8xf32>) {
  tile.launch (%s = 4 : cluster, %t = 128 : thread, %i = 8 : register) {
    %a = loop.load %b[%t, %i] : memref<128x8xf32>
    %v = loop.load %x[%s, %t, %i] : memref<4x128x8xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    %y = arith.addf %p, %a : f32
    loop.store %y, %out[%t, %i] : memref<128x8xf32>
  }
  func.return
}

// A CTA gathers behind the combine what it adds to its share, where that is active.
// CHECK-LABEL: kernel.func @gathers
// CHECK:         kernel.cluster_barrier
// CHECK:         kernel.cluster_barrier
// CHECK:         loop.load %at[%t]
// CHECK:         kernel.move 4 %y[%{{.*}}, %s * 8 + %{{.*}} * 4] to %{{.*}} where (%s * 8 + %{{.*}} * 4 < 28)
func.func @gathers(%x: memref<4x8x32xf32>, %y: memref<8x32xf32>, %at: memref<8xi64>, %out: memref<8x28xf32>) {
  %last = arith.constant 7 : i64
  tile.launch (%s = 4 : cluster, %t = 8 : thread, %i = 8 : register, %r = 4 : register) {
    %n = loop.index [%i * 4 + %r]
    loop.where %n < 28
    %v = loop.load %x[%s, %t, %n] : memref<4x8x32xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    %row = loop.load %at[%t] : memref<8xi64>
    %known = arith.andi %row, %last : i64
    %j = arith.index_cast %known : i64 to index
    %g = loop.load %y[%j, %n] : memref<8x32xf32>
    %z = arith.addf %p, %g : f32
    loop.store %z, %out[%t, %n] : memref<8x28xf32>
  }
  func.return
}
