// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// A register slab is filled by its thread, in vectors.
// CHECK-LABEL: kernel.func @registers(%x: memref<512xf32>, %out: memref<512xf32>) blocks(%block = 1) threads(%thread = 64) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[R:.*]] = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[D0:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      kernel.move 4 %x[%[[D0]] * 256 + %[[T]] * 4] to %[[R]][%[[D0]], 0] : memref<512xf32> to memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %[[I:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        %[[A:.*]] = loop.load %[[R]][%[[I]], %[[J]] * -1 + 3] : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:        loop.store %[[A]], %out[%[[I]] * 256 + %[[T]] * 4 + %[[J]]] : memref<512xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_registers(%x: memref<512xf32>, %out: memref<512xf32>) {
// CHECK-NEXT:    kernel.launch @registers(%x, %out) : memref<512xf32>, memref<512xf32>
func.func @registers(%x: memref<512xf32>, %out: memref<512xf32>) {
  tile.launch (%t = 64 : thread) {
    %r = tile.stage %x[d0 * 256 + %t * 4 + d1] : memref<512xf32> to memref<2x4xf32, #tile.memory<register>>
    loop.for %i = 0 to 2 unroll {
      loop.for %j = 0 to 4 unroll {
        %a = loop.load %r[%i, -%j + 3] : memref<2x4xf32, #tile.memory<register>>
        loop.store %a, %out[%i * 256 + %t * 4 + %j] : memref<512xf32>
      }
    }
  }
  func.return
}

// -----

// A shared slab is filled by all threads in turn; the last turn is guarded, and so is what lies outside the source.
// CHECK-LABEL: kernel.func @shared(%x: memref<30x40xf32>, %out: memref<64x4xf32>) blocks(%block = 4) threads(%thread = 64) {
// CHECK-NEXT:    %[[B:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<8x40xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.for %[[C:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      loop.guard where (%[[C]] * 64 + %thread < 80) {
// CHECK-NEXT:        kernel.move 4 %x[%[[B]] * 8 + (%[[C]] * 64 + %thread) floordiv 10, (%[[C]] * 64 + %thread) mod 10 * 4] to %[[S]][(%[[C]] * 64 + %thread) floordiv 10, (%[[C]] * 64 + %thread) mod 10 * 4] where (%[[B]] * 8 + (%[[C]] * 64 + %thread) floordiv 10 < 30) : memref<30x40xf32> to memref<8x40xf32, #tile.memory<shared>>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[A:.*]] = loop.load %[[S]][%[[T]] floordiv 8, %[[T]] mod 8] : memref<8x40xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.store %[[A]], %out[%[[T]], %[[B]]] : memref<64x4xf32>
// CHECK-LABEL: func.func @run_shared(%x: memref<30x40xf32>, %out: memref<64x4xf32>) {
// CHECK-NEXT:    kernel.launch @shared(%x, %out) : memref<30x40xf32>, memref<64x4xf32>
func.func @shared(%x: memref<30x40xf32>, %out: memref<64x4xf32>) {
  tile.launch (%b = 4 : block, %t = 64 : thread) {
    %s = tile.stage %x[%b * 8 + d0, d1] : memref<30x40xf32> to memref<8x40xf32, #tile.memory<shared>>
    %a = loop.load %s[%t floordiv 8, %t mod 8] : memref<8x40xf32, #tile.memory<shared>>
    loop.store %a, %out[%t, %b] : memref<64x4xf32>
  }
  func.return
}

// -----

// A transposed slab is filled along the source's contiguous dimension.
// CHECK-LABEL: kernel.func @transposed(%x: memref<8x32xf32>, %out: memref<32x8xf32>) blocks(%block = 1) threads(%thread = 256) {
// CHECK-NEXT:    %[[I:.*]] = loop.index [%thread floordiv 8]
// CHECK-NEXT:    %[[J:.*]] = loop.index [%thread mod 8]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<32x8xf32, #tile.memory<shared>>
// CHECK-NEXT:    kernel.move 1 %x[%thread floordiv 32 mod 2 * 4 + %thread floordiv 8 mod 4, %thread floordiv 64 * 8 + %thread mod 8] to %[[S]][%thread floordiv 64 * 8 + %thread mod 8, %thread floordiv 32 mod 2 * 4 + %thread floordiv 8 mod 4] : memref<8x32xf32> to memref<32x8xf32, #tile.memory<shared>>
// CHECK-NEXT:    %[[A:.*]] = loop.load %[[S]][%[[I]], %[[J]]] : memref<32x8xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.store %[[A]], %out[%[[I]], %[[J]]] : memref<32x8xf32>
// CHECK-LABEL: func.func @run_transposed(%x: memref<8x32xf32>, %out: memref<32x8xf32>) {
// CHECK-NEXT:    kernel.launch @transposed(%x, %out) : memref<8x32xf32>, memref<32x8xf32>
func.func @transposed(%x: memref<8x32xf32>, %out: memref<32x8xf32>) {
  tile.launch (%i = 32 : thread, %j = 8 : thread) {
    %s = tile.stage %x[d1, d0] : memref<8x32xf32> to memref<32x8xf32, #tile.memory<shared>>
    %a = loop.load %s[%i, %j] : memref<32x8xf32, #tile.memory<shared>>
    loop.store %a, %out[%i, %j] : memref<32x8xf32>
  }
  func.return
}

// -----

// A copy ahead that the bound of the loop keeps inside of the source checks nothing more, though the bound varies.
// CHECK-LABEL: kernel.func @ahead(
// CHECK:         loop.for %[[K:.*]] = 0 to %[[B:.*]] + 2 {
// CHECK:           loop.guard where (%[[K]] < %[[B]] + 1) {
// CHECK-NEXT:        loop.guard where (%thread < 8) {
// CHECK-NEXT:          kernel.move 4 async %x[%[[B]], %[[K]] * 32 + %thread * 4 + 32] to %{{.*}}[(%[[K]] + 1) mod 2, %thread * 4] : memref
func.func @ahead(%x: memref<3x128xf32>, %out: memref<3x32xf32>) {
  tile.launch (%b = 3 : block, %t = 32 : thread) {
    %ring = tile.ring 2
    %s = tile.alloc : memref<2x32xf32, #tile.memory<shared>>
    loop.for %p = 0 to 1 unroll {
      tile.copy %x[%b, %p * 32 + d0] to %s at %ring[%p] async : memref<3x128xf32> to memref<2x32xf32, #tile.memory<shared>>
    }
    %sum = loop.reduce {arith.addf} %k = 0 to %b + 2 : f32 {
      tile.wait %ring[%k]
      tile.copy %x[%b, %k * 32 + 32 + d0] to %s at %ring[%k + 1] async where (%k + 1 < %b + 2) : memref<3x128xf32> to memref<2x32xf32, #tile.memory<shared>>
      %a = loop.load %s[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
      tile.release %ring[%k]
      loop.yield %a : f32
    }
    loop.store %sum, %out[%b, %t] : memref<3x32xf32>
  }
  func.return
}
