// RUN: deplodock-opt %s -p 'split-matmul-k{s=3 over=block}' --split-input-file --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'split-matmul-k{s=3}' --split-input-file -o %t.once.mlir 2>/dev/null
// RUN: not deplodock-opt %t.once.mlir -p 'split-matmul-k{s=3}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'split-matmul-k{s=3 over=ticket}' --split-input-file --check-semantics 2>/dev/null | filecheck %s --check-prefix TICKET
// RUN: deplodock-opt %s -p 'split-matmul-k{s=3 over=ticket}' --split-input-file -o %t.ticket.mlir 2>/dev/null
// RUN: not deplodock-opt %t.ticket.mlir -p 'split-matmul-k{s=3}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'split-matmul-k{s=3 over=ticket},blockify-launch{m=4 n=4}' --split-input-file 2>/dev/null | filecheck %s --check-prefix BLOCKS
// RUN: deplodock-opt %s -p 'split-matmul-k{s=3 over=cluster},blockify-launch{m=4 n=4}' --split-input-file --check-semantics 2>/dev/null | filecheck %s --check-prefix CLUSTER
// RUN: not deplodock-opt %s -p 'split-matmul-k{s=0}' --split-input-file 2>&1 | filecheck %s --check-prefix ZERO
// RUN: not deplodock-opt %s -p 'split-matmul-k{s=2 over=stream}' --split-input-file 2>&1 | filecheck %s --check-prefix STREAM
// RUN: not deplodock-opt %s -p 'split-matmul-k{over=grid}' --split-input-file 2>&1 | filecheck %s --check-prefix OVER
// RUN: deplodock-opt %s -p 'split-matmul-k' --split-input-file 2>&1 | filecheck %s --check-prefix WHOLE

// TWICE: split-matmul-k{s=3} applies to no kernel: @residual: k is shared by CTAs already
// ZERO: the option s must be a positive integer, got 0
// STREAM: the option over must be block, ticket or cluster, got stream
// OVER: pass 'split-matmul-k{over="grid"}': the option over must be block, ticket or cluster, got grid

// The first launch stores the sums of the parts, the second adds them and does the rest. Steps past the end of k run, but
// add nothing.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT:    %[[PART:.*]] = memref.alloc() : memref<3x8x4xf32>
// CHECK-NEXT:    tile.launch (%[[S:.*]] = 3 : thread, %[[M:.*]] = 8 : thread, %[[N:.*]] = 4 : thread) {
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[P:.*]] = 0 to 2 : f32 {
// CHECK-NEXT:        %[[KO:.*]] = loop.index [%[[S]] * 2 + %[[P]]]
// CHECK-NEXT:        loop.reduce {arith.addf} %[[KI:.*]] = 0 to 8 : f32 {
// CHECK-NEXT:          loop.where %[[KO]] < 4
// CHECK-NEXT:          %[[K:.*]] = loop.index [%[[KO]] * 8 + %[[KI]]]
// CHECK-NEXT:          loop.load %x[%[[M]], %[[K]]]
// CHECK-NEXT:          loop.load %w[%[[N]], %[[K]]]
// CHECK:           loop.store %[[SUM]], %[[PART]][%[[S]], %[[M]], %[[N]] floordiv 2 * 2 - %[[N]] mod 2 + 1]
// CHECK-NEXT:    }
// CHECK-NEXT:    tile.launch (%[[M:.*]] = 8 : thread, %[[N:.*]] = 4 : thread) {
// CHECK-NEXT:      %[[ACC:.*]] = loop.reduce {arith.addf} %[[S:.*]] = 0 to 3 : f32 {
// CHECK-NEXT:        %[[V:.*]] = loop.load %[[PART]][%[[S]], %[[M]], %[[N]] floordiv 2 * 2 - %[[N]] mod 2 + 1]
// CHECK-NEXT:        loop.yield %[[V]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[R:.*]] = loop.load %res[%[[M]], %[[N]]]
// CHECK-NEXT:      %[[Y:.*]] = arith.addf %[[ACC]], %[[R]] : f32
// CHECK-NEXT:      loop.store %[[Y]], %out[%[[M]], %[[N]]]

// The parts are a block axis, which a combine folds; the rest uses what it gives. Blocks of one tile are neighbours.
// TICKET-LABEL: func.func @residual
// TICKET-NEXT:    tile.launch (%[[S:.*]] = 3 : block, %[[M:.*]] = 8 : thread, %[[N:.*]] = 4 : thread) {
// TICKET-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[P:.*]] = 0 to 2 : f32 {
// TICKET-NEXT:        %[[KO:.*]] = loop.index [%[[S]] * 2 + %[[P]]]
// TICKET:           %[[ACC:.*]] = tile.combine {arith.addf} %[[SUM]] over (%[[S]]) : f32
// TICKET-NEXT:      %[[R:.*]] = loop.load %res[%[[M]], %[[N]]]
// TICKET-NEXT:      arith.addf %[[ACC]], %[[R]] : f32
// BLOCKS-LABEL: func.func @residual
// BLOCKS-NEXT:    tile.launch (%{{.*}} = 2 : block, %[[S:.*]] = 3 : block, %{{.*}} = 4 : thread, %{{.*}} = 4 : thread)
// CLUSTER-LABEL: func.func @residual
// CLUSTER-NEXT:    tile.launch (%{{.*}} = 2 : block, %[[S:.*]] = 3 : cluster, %{{.*}} = 4 : thread, %{{.*}} = 4 : thread)
// CLUSTER:           tile.combine {arith.addf} %{{.*}} over (%[[S]]) : f32

// WHOLE: split_matmul_k skipped at @residual: the tiles fill the SMs of the target without a split
func.func @residual(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %res: memref<8x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %k = loop.index [%ko * 8 + %ki]
        %a = loop.load %x[%m, %k] : memref<8x32xf32>
        %b = loop.load %w[%n, %k] : memref<4x32xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    %r = loop.load %res[%m, %n] : memref<8x4xf32>
    %y = arith.addf %acc, %r : f32
    loop.store %y, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// -----

// Parts without an element of k add nothing; a factor that is no plain read is computed in the first launch alone.
// CHECK-LABEL: func.func @short
// CHECK:         tile.launch (%[[S:.*]] = 3 : thread, %[[M:.*]] = 1 : thread, %[[N:.*]] = 4 : thread) {
// CHECK-NEXT:      loop.load %scale[%[[M]]]
// CHECK-NEXT:      loop.reduce {arith.addf} %[[P:.*]] = 0 to 1 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[S]] + %[[P]]]
// CHECK-NEXT:        loop.where %[[K]] < 2
// CHECK:         tile.launch (%[[M:.*]] = 1 : thread, %[[N:.*]] = 4 : thread) {
// CHECK-NEXT:      loop.reduce {arith.addf} %{{.*}} = 0 to 3 : f32 {
// CHECK-NOT:     loop.load %scale
// CHECK:         func.return
func.func @short(%x: memref<1x2xf32>, %w: memref<4x2xf32>, %scale: memref<1xf32>, %out: memref<1x4xf32>) {
  tile.launch (%m = 1 : thread, %n = 4 : thread) {
    %c = loop.load %scale[%m] : memref<1xf32>
    %acc = loop.reduce {arith.addf} %k = 0 to 2 : f32 {
      %a = loop.load %x[%m, %k] : memref<1x2xf32>
      %f = arith.mulf %a, %c : f32
      %b = loop.load %w[%n, %k] : memref<4x2xf32>
      %p = arith.mulf %f, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<1x4xf32>
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @taken
// CHECK:         tile.launch (%{{.*}} = 3 : thread, %{{.*}} = 8 : thread, %{{.*}} = 4 : thread) {
func.func @taken(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x32xf32>
      %b = loop.load %w[%n, %k] : memref<4x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// SKIP: split_matmul_k skipped at @distance: no reduction of the launch is a contraction
// CHECK-LABEL: func.func @distance
// CHECK-NEXT:    tile.launch (%{{.*}} = 8 : thread, %{{.*}} = 4 : thread) {
func.func @distance(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x32xf32>
      %b = loop.load %w[%n, %k] : memref<4x32xf32>
      %p = arith.subf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// SKIP: split_matmul_k skipped at @blocks: the launch has blocks, registers or slabs; split-matmul-k runs before what makes them
func.func @blocks(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : block, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x32xf32>
      %b = loop.load %w[%n, %k] : memref<4x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// SKIP: split_matmul_k skipped at @causal: the bound of the loop over %k is not constant
func.func @causal(%x: memref<8x8xf32>, %w: memref<4x8xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to min(%m + 1, 8) : f32 {
      %a = loop.load %x[%m, %k] : memref<8x8xf32>
      %b = loop.load %w[%n, %k] : memref<4x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}
