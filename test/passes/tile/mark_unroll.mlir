// RUN: deplodock-opt %s -p 'mark-unroll{limit=100}' --split-input-file --check-semantics 2>%t.skips -o %t.once.mlir
// RUN: filecheck %s --input-file %t.once.mlir
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: not deplodock-opt %t.once.mlir -p 'mark-unroll{limit=100}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'mark-unroll{limit=0}' --split-input-file 2>&1 | filecheck %s --check-prefix ZERO

// TWICE: applies to no kernel: @chunk: no loop takes at most 100 instructions unrolled
// ZERO: the option limit must be a positive integer, got 0

// A chunk of 16 steps of 8 multiply-adds and 2 wide reads is too long; 8 steps fit. Both parts share the accumulators.
// CHECK-LABEL: func.func @chunk
// CHECK:         loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK:           %[[CHUNK:.*]] = loop.reduce {arith.addf} %[[O:.*]] = 0 to 2 : f32 {
// CHECK-NEXT:        %[[PART:.*]] = loop.reduce {arith.addf} %[[I:.*]] = 0 to 8 unroll : f32 {
// CHECK-NEXT:          %ki = loop.index [%[[O]] * 8 + %[[I]]]
// CHECK-NEXT:          loop.index [%ko * 16 + %ki]
// CHECK:             loop.yield %[[PART]] : f32
// CHECK:           loop.yield %[[CHUNK]] : f32
func.func @chunk(%x: memref<32x8xf32>, %w: memref<32x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 2 : thread, %m_r = 4 : register, %n_r = 2 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 2 + %n_r]
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %part = loop.reduce {arith.addf} %ki = 0 to 16 : f32 {
        %k = loop.index [%ko * 16 + %ki]
        %a = loop.load %x[%k, %m] : memref<32x8xf32>
        %b = loop.load %w[%k, %n] : memref<32x4xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// -----

// So does a contraction in one chunk.
// CHECK-LABEL: func.func @whole
// CHECK:         loop.reduce {arith.addf} %{{.*}} = 0 to 2 : f32 {
// CHECK-NEXT:      loop.reduce {arith.addf} %{{.*}} = 0 to 8 unroll : f32 {
func.func @whole(%x: memref<16x8xf32>, %w: memref<16x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 2 : thread, %m_r = 4 : register, %n_r = 2 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 2 + %n_r]
    %acc = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
      %a = loop.load %x[%k, %m] : memref<16x8xf32>
      %b = loop.load %w[%k, %n] : memref<16x4xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// -----

// The budget is of nested loops together, and other loops are not split.
// CHECK-LABEL: func.func @nested
// CHECK:         loop.for %i = 0 to 9 {
// CHECK-NEXT:      loop.for %j = 0 to 4 unroll {
// CHECK-NEXT:        loop.for %l = 0 to 3 unroll {
func.func @nested(%x: memref<8x9x4x3xf32>, %out: memref<8x9x4x3xf32>) {
  tile.launch (%m = 8 : thread) {
    loop.for %i = 0 to 9 {
      loop.for %j = 0 to 4 {
        loop.for %l = 0 to 3 {
          %a = loop.load %x[%m, %i, %j, %l] : memref<8x9x4x3xf32>
          loop.store %a, %out[%m, %i, %j, %l] : memref<8x9x4x3xf32>
        }
      }
    }
  }
  func.return
}

// -----

// A loop that fills slabs stays as it is.
// CHECK-LABEL: func.func @staged
// CHECK:         loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK:           loop.reduce {arith.addf} %ki = 0 to 4 unroll : f32 {
func.func @staged(%x: memref<8x8xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %xs = tile.stage %x[d0, %ko * 4 + d1] : memref<8x8xf32> to memref<8x4xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 4 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<8x4xf32, #tile.memory<shared>>
        loop.yield %a : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// SKIP: mark_unroll skipped at @long: no loop takes at most 100 instructions unrolled
func.func @long(%x: memref<8x1000xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 1000 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x1000xf32>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}

// A product that no accumulator takes in is an instruction beside its sum.
// SKIP: mark_unroll skipped at @affine: no loop takes at most 100 instructions unrolled
func.func @affine(%x: memref<8x30xf32>, %out: memref<8x30xf32>) {
  tile.launch (%m = 8 : thread) {
    loop.for %i = 0 to 30 {
      %a = loop.load %x[%m, %i] : memref<8x30xf32>
      %p = arith.mulf %a, %a : f32
      %s = arith.addf %p, %a : f32
      loop.store %s, %out[%m, %i] : memref<8x30xf32>
    }
  }
  func.return
}

func.func @taken(%x: memref<8x10xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 10 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x10xf32>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}
