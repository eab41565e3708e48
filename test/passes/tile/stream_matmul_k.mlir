// RUN: deplodock-opt %s -p 'stream-matmul-k{ctas=2}' --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'stream-matmul-k{ctas=2}' -o %t.once.mlir 2>/dev/null
// RUN: not deplodock-opt %t.once.mlir -p 'stream-matmul-k{ctas=2}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'stream-matmul-k{ctas=3}' 2>/dev/null | filecheck %s --check-prefix THREE
// RUN: not deplodock-opt %s -p 'stream-matmul-k{ctas=7}' 2>&1 | filecheck %s --check-prefix MANY
// RUN: deplodock-opt %s -p stream-matmul-k 2>&1 | filecheck %s --check-prefix WHOLE
// RUN: not deplodock-opt %s -p 'stream-matmul-k{ctas=0}' 2>&1 | filecheck %s --check-prefix ZERO
// RUN: deplodock-opt %t.once.mlir -p 'materialize,canonicalize,cse' | filecheck %s --check-prefix KERNEL
// RUN: deplodock-opt %s -p 'stream-matmul-k{ctas=3},materialize,canonicalize,cse' 2>/dev/null | filecheck %s --check-prefix TILES

// RUN: deplodock-opt %s -p 'stream-matmul-k{ctas=2 unit=tile},materialize,canonicalize,cse,place-barriers,verify-barriers' --check-semantics 2>/dev/null | filecheck %s --check-prefix PERSISTENT
// RUN: deplodock-opt %s -p 'stream-matmul-k{ctas=2 unit=tile}' --check-semantics 2>/dev/null | filecheck %s --check-prefix WHOLE-TILES
// RUN: not deplodock-opt %s -p 'stream-matmul-k{ctas=2 unit=row}' 2>&1 | filecheck %s --check-prefix UNIT

// UNIT: the option unit must be step or tile, got row
// ZERO: the option ctas must be a positive integer, got 0
// TWICE: stream-matmul-k{ctas=2} applies to no kernel: @tiles: CTAs share the steps of all tiles already
// WHOLE: stream_matmul_k skipped at @tiles: each CTA runs a tile
// MANY: @tiles: 7 CTAs would run 2 steps each, and the ring has 3 slots; take fewer

// Three tiles of four steps: two CTAs run six steps each, three a tile each. The body stays that of a tile.
// CHECK-LABEL: func.func @tiles
// CHECK-NEXT:    tile.launch (%{{.*}} = 3 : block, %{{.*}} = 8 : thread, %{{.*}} = 8 : thread) stream 2 {
// CHECK:           loop.reduce {arith.addf} %{{.*}} = 0 to 4 : f32 {
// THREE-LABEL: func.func @tiles
// THREE-NEXT:    tile.launch (%{{.*}} = 3 : block, %{{.*}} = 8 : thread, %{{.*}} = 8 : thread) stream 3 {

// A CTA has two parts at most, of the tile that it starts within and of the one that it ends within. There is a counter
// for each tile. Copies ahead are of the tile that their step belongs to; the ring goes on from tile to tile.
// KERNEL-LABEL: kernel.func @tiles
// KERNEL-SAME:    %[[PART:[^:]*]]: memref<2x2x1x64x1xf32>, %[[TURNS:[^:]*]]: memref<3xi32>) blocks(%{{.*}} = 2) threads(%[[T:.*]] = 64)
// KERNEL:         kernel.move 4 async %w[%[[CTA:.*]] * 3 floordiv 2 * 8 + {{.*}}, %[[CTA]] * 3 mod 2 * 16 + %[[P:.*]] * 8 + {{.*}}] to %w_smem[%[[P]], {{.*}}]
// KERNEL:         loop.for %[[STEP:.*]] = 0 to 6 {
// KERNEL-NEXT:      %[[TILE:.*]] = loop.index [(%[[CTA]] * 6 + %[[STEP]]) floordiv 4]
// KERNEL-NEXT:      %[[N:.*]] = loop.index [%[[TILE]] mod 3]
// KERNEL-NEXT:      %[[K:.*]] = loop.index [(%[[CTA]] * 6 + %[[STEP]]) mod 4]
// KERNEL-NEXT:      loop.guard where (%[[K]] < 1) {
// KERNEL-NEXT:        loop.store %{{.*}}, %[[ACC:.*]][] : memref<f32, #tile.memory<register>>
// KERNEL-NEXT:      }
// KERNEL:           loop.guard where (%[[STEP]] < 4) {
// KERNEL:             kernel.move 4 async %w[(%[[CTA]] * 6 + %[[STEP]] + 2) floordiv 4 mod 3 * 8 + {{.*}}, (%[[CTA]] * 6 + %[[STEP]] + 2) mod 4 * 8 + {{.*}}] to %w_smem[(%[[STEP]] + 2) mod 3, {{.*}}]

// Behind the last step of a tile, or of the CTA, its part is left, and the last CTA of the tile goes on.
// KERNEL:           loop.guard where (0 < ((%[[CTA]] * 6 + %[[STEP]]) mod 4 + 1) floordiv 4 + (%[[STEP]] + 1) floordiv 6) {
// KERNEL:             loop.store %{{.*}}, %[[PART]][%[[CTA]], {{.*}}, %[[T]], 0]
// KERNEL-NEXT:        kernel.fence
// KERNEL-NEXT:        %[[PARTS:.*]] = loop.index
// KERNEL-NEXT:        %[[LAST:.*]] = kernel.ticket %[[TURNS]][%[[TILE]]] of %[[PARTS]]
// KERNEL-NEXT:        loop.guard where (0 < %[[LAST]]) {
// KERNEL-NEXT:          kernel.fence
// KERNEL-NEXT:          %[[SUM:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// KERNEL-NEXT:          loop.store %{{.*}}, %[[SUM]][]
// KERNEL-NEXT:          loop.for %[[S:.*]] = 0 to 2 {
// KERNEL-NEXT:            loop.guard where (%[[S]] < %[[PARTS]]) {
// KERNEL:                   loop.load %[[PART]]
// KERNEL:               loop.store %{{.*}}, %out[%{{.*}}, %[[N]] * 8 + %{{.*}}]

// Without parts there are neither memory for them nor tickets.
// TILES-LABEL: kernel.func @tiles
// TILES-SAME:    %out: memref<8x24xf32>) blocks
// TILES-NOT:     kernel.ticket

// CTAs that take whole tiles take every second one: the loop over the steps is inside of that over the tiles. A step
// behind the last tile is one of a tile again, whose result nobody stores.
// WHOLE-TILES: tile.launch (%{{.*}} = 3 : block, %{{.*}} = 8 : thread, %{{.*}} = 8 : thread) stream 2 tiles {
// PERSISTENT-LABEL: kernel.func @tiles
// PERSISTENT:         loop.for %[[TURN:.*]] = 0 to 2 {
// PERSISTENT-NEXT:      %[[TILE:.*]] = loop.index [%[[TURN]] * 2 + %[[CTA:.*]]]
// PERSISTENT-NEXT:      %[[N:.*]] = loop.index [%[[TILE]] mod 3]
// PERSISTENT:           loop.for %[[K:.*]] = 0 to 4 {
// PERSISTENT:             loop.guard where (%[[TURN]] * 4 + %[[K]] < 6) {
// PERSISTENT:               kernel.move 4 async %w[(%[[TURN]] * 2 + (%[[K]] + 2) floordiv 4 * 2 + %[[CTA]]) mod 3 * 8 + {{.*}}, (%[[K]] + 2) mod 4 * 8 + {{.*}}] to %w_smem[(%[[TURN]] * 4 + %[[K]] + 2) mod 3, {{.*}}]
// PERSISTENT:             loop.load %w_smem[(%[[TURN]] * 4 + %[[K]]) mod 3, {{.*}}]
// PERSISTENT:           loop.guard where (%[[TILE]] < 3) {
// PERSISTENT:             loop.store %{{.*}}, %out[%{{.*}}, %[[N]] * 8 + %{{.*}}]
func.func @tiles(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// SKIP: stream_matmul_k skipped at @no_ring: no ring holds the slabs of the contraction; run pipeline-k-outer first
func.func @no_ring(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %u = loop.load %x[%m, %k] : memref<8x32xf32>
      %v = loop.load %w[%n, %k] : memref<24x32xf32>
      %p = arith.mulf %u, %v : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// SKIP: stream_matmul_k skipped at @no_blocks: the launch has no block axes; run blockify-launch first
func.func @no_blocks(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%m = 8 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %u = loop.load %x[%m, %k] : memref<8x32xf32>
      %v = loop.load %w[%n, %k] : memref<24x32xf32>
      %p = arith.mulf %u, %v : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// SKIP: stream_matmul_k skipped at @row_sums: no reduction of the launch is a contraction
func.func @row_sums(%x: memref<8x32xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : block) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %u = loop.load %x[%m, %k] : memref<8x32xf32>
      loop.yield %u : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}
