// RUN: deplodock-opt %s -p materialize --check-semantics | filecheck %s

// A combine over a block axis: CTAs leave their parts in memory, the last one of a tile adds them in order and goes on.
// CHECK-LABEL: kernel.func @tickets(%x: memref<8x32xf32>, %out: memref<2x8xf32>, %p_part: memref<2x4x8xf32>, %turns: memref<2xi32>) blocks(%block = 8) threads(%thread = 8) {
// CHECK:         loop.store %{{.*}}, %p_part[%[[TILE:.*]], %[[S:.*]], %thread] : memref<2x4x8xf32>
// CHECK-NEXT:    kernel.fence
// CHECK-NEXT:    %[[LAST:.*]] = kernel.ticket %turns[%[[TILE]]] of 4 : memref<2xi32>
// CHECK-NEXT:    loop.guard where (0 < %[[LAST]]) {
// CHECK-NEXT:      kernel.fence
// CHECK:           loop.for %[[PART:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        %[[TO:.*]] = kernel.alloc : memref<1xf32, #tile.memory<register>>
// CHECK-NEXT:        kernel.move 1 %p_part[%[[TILE]], %[[PART]], %thread] to %[[TO]][0]
// CHECK:           loop.store %{{.*}}, %out[%[[TILE]], %{{.*}}] : memref<2x8xf32>
// CHECK:       func.func @run_tickets
// CHECK-NEXT:    %{{.*}} = memref.alloc() : memref<2x4x8xf32>
// CHECK-NEXT:    %{{.*}} = kernel.counters : memref<2xi32>
func.func @tickets(%x: memref<8x32xf32>, %out: memref<2x8xf32>) {
  tile.launch (%m = 2 : block, %s = 4 : block, %t = 8 : thread) {
    %v = loop.load %x[%m * 4 + %s, %t] : memref<8x32xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%m, %t] : memref<2x8xf32>
  }
  func.return
}

// CTAs that hold no active point reach the combine, too, and what it gives is written wherever it is.
// CHECK-LABEL: kernel.func @some_parts
// CHECK-NOT:     loop.guard where (%s < 3)
// CHECK:         loop.inside where (%s < 3)
func.func @some_parts(%x: memref<4x8xf32>, %out: memref<8xf32>) {
  tile.launch (%s = 4 : block, %t = 8 : thread) {
    loop.where %s < 3
    %v = loop.load %x[%s, %t] : memref<4x8xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%t] : memref<8xf32>
  }
  func.return
}

// The values of a thread that make 16 bytes lie side by side, in swapped pairs, the threads' behind each other.
// CHECK-LABEL: kernel.func @wide_parts(%x: memref<4x8x12xf32>, %out: memref<8x12xf32>, %p_part: memref<1x4x3x8x4xf32>, %turns: memref<1xi32>)
// CHECK:           %[[FROM:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[V00:.*]] = loop.load %[[P:.*]][%[[I:.*]], 0, 0]
// CHECK-NEXT:      loop.store %[[V00]], %[[FROM]][1]
// CHECK-NEXT:      %[[V01:.*]] = loop.load %[[P]][%[[I]], 0, 1]
// CHECK-NEXT:      loop.store %[[V01]], %[[FROM]][0]
// CHECK:           kernel.move 4 %[[FROM]][0] to %p_part[0, %[[S:.*]], %[[I]], %thread, 0]
// CHECK:         kernel.ticket
// CHECK:         loop.for %[[PART:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 3 unroll {
// CHECK-NEXT:        %[[TO:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:        kernel.move 4 %p_part[0, %[[PART]], %[[J]], %thread, 0] to %[[TO]][0]
// CHECK-NEXT:        %[[A:.*]] = loop.load %[[TO]][1]
// CHECK-NEXT:        %[[SUM:.*]] = loop.load %[[ACC:.*]][%[[J]], 0, 0]
// CHECK-NEXT:        arith.addf %[[SUM]], %[[A]] : f32
func.func @wide_parts(%x: memref<4x8x12xf32>, %out: memref<8x12xf32>) {
  tile.launch (%s = 4 : block, %t = 8 : thread, %i = 3 : register, %j = 2 : register, %r = 2 : register) {
    %v = loop.load %x[%s, %t, %i * 4 + %j * 2 + %r] : memref<4x8x12xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%t, %i * 4 + %j * 2 + %r] : memref<8x12xf32>
  }
  func.return
}
