// RUN: deplodock-opt %s -p 'chunk-matmul-k{bk=16 kv=1}' --split-input-file --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'chunk-matmul-k{bk=16 kv=1}' --split-input-file -o %t.once.mlir 2>/dev/null
// RUN: not deplodock-opt %t.once.mlir -p 'chunk-matmul-k{bk=16 kv=1}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'chunk-matmul-k{bk=16 kv=4}' --split-input-file 2>/dev/null | filecheck %s --check-prefix KV
// RUN: not deplodock-opt %s -p 'chunk-matmul-k{bk=0}' --split-input-file 2>&1 | filecheck %s --check-prefix ZERO
// RUN: not deplodock-opt %s -p 'chunk-matmul-k{bk=16 kv=3}' --split-input-file 2>&1 | filecheck %s --check-prefix VECTOR

// TWICE: applies to no kernel: @divides: the contraction runs in chunks, or over several axes, already
// ZERO: the option bk must be a positive integer, got 0
// VECTOR: chunk-matmul-k{bk=16 kv=3} applies to no kernel: @divides: vectors of 3 do not divide chunks of 16

// The chunks share the accumulator of the reduction.
// CHECK-LABEL: func.func @divides
// CHECK:       tile.launch (%[[M:.*]] = 8 : thread, %[[N:.*]] = 4 : thread) {
// CHECK-NEXT:    %[[ACC:.*]] = loop.reduce {arith.addf} %[[KO:.*]] = 0 to 2 : f32 {
// CHECK-NEXT:      %[[PART:.*]] = loop.reduce {arith.addf} %[[KI:.*]] = 0 to 16 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[KO]] * 16 + %[[KI]]]
// CHECK-NEXT:        loop.load %x[%[[M]], %[[K]]]
// CHECK-NEXT:        loop.load %w[%[[N]], %[[K]]]
// CHECK:           loop.yield %[[PART]] : f32
// CHECK:         loop.store %[[ACC]], %out

// KV-LABEL: func.func @divides
// KV:       loop.reduce {arith.addf} %[[KO:.*]] = 0 to 2 : f32 {
// KV-NEXT:    loop.reduce {arith.addf} %[[KIO:.*]] = 0 to 4 : f32 {
// KV-NEXT:      loop.reduce {arith.addf} %[[KII:.*]] = 0 to 4 unroll : f32 {
// KV-NEXT:        %[[KI:.*]] = loop.index [%[[KIO]] * 4 + %[[KII]]]
// KV-NEXT:        loop.index [%[[KO]] * 16 + %[[KI]]]
func.func @divides(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %out: memref<8x4xf32>) {
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

// -----

// Iterations past the end are inactive.
// CHECK-LABEL: func.func @ragged
// CHECK:         loop.reduce {arith.addf} %[[KO:.*]] = 0 to 3 : f32 {
// CHECK-NEXT:      loop.reduce {arith.addf} %[[KI:.*]] = 0 to 16 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[KO]] * 16 + %[[KI]]]
// CHECK-NEXT:        loop.where %[[K]] < 37
func.func @ragged(%x: memref<8x37xf32>, %w: memref<37x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 37 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x37xf32>
      %b = loop.load %w[%k, %n] : memref<37x4xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// -----

// A sum of differences reads two buffers, and is no contraction; kernels of this module that take no chunks are skipped.
// SKIP: chunk_matmul_k skipped at @distance: no reduction of the launch is a contraction; chunk-reduce splits others
// CHECK-LABEL: func.func @distance
// CHECK:         loop.reduce {arith.addf} %{{.*}} = 0 to 32 : f32 {
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

// SKIP: chunk_matmul_k skipped at @short: k has 16 elements, one chunk of 16 holds them
func.func @short(%x: memref<8x16xf32>, %w: memref<4x16xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x16xf32>
      %b = loop.load %w[%n, %k] : memref<4x16xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// SKIP: chunk_matmul_k skipped at @staged: inputs are staged; chunk-matmul-k runs before stage-inputs
func.func @staged(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<8x32xf32> to memref<8x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%m, %k] : memref<8x32xf32, #tile.memory<shared>>
      %b = loop.load %w[%n, %k] : memref<4x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// Keeps a kernel that takes the option in this module.
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

// -----

// Chunks of which a condition leaves out all do not run; a condition that cuts through a chunk stays.
// CHECK-LABEL: func.func @triangle
// CHECK:       loop.reduce {arith.addf} %{{.*}} = 0 to min(5, %m floordiv 32 * 2 + 2) : f32 {
// CHECK-NEXT:    loop.reduce {arith.addf} %{{.*}} = 0 to 16 : f32 {
// CHECK-NEXT:      %[[K:.*]] = loop.index
// CHECK-NEXT:      loop.where %[[K]] < %m + 3
// CHECK-NEXT:      loop.load
func.func @triangle(%x: memref<96x80xf32>, %w: memref<4x80xf32>, %out: memref<96x4xf32>) {
  tile.launch (%m = 96 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 80 : f32 {
      loop.where %k < %m floordiv 32 * 32 + 32
      loop.where %k < %m + 3
      %a = loop.load %x[%m, %k] : memref<96x80xf32>
      %b = loop.load %w[%n, %k] : memref<4x80xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<96x4xf32>
  }
  func.return
}

// -----

// The registers of a thread run the loop over chunks together: a condition that varies along them stays, too.
// CHECK-LABEL: func.func @registers
// CHECK:       loop.reduce {arith.addf} %{{.*}} = 0 to min(5, %t * 2 + 2) : f32 {
// CHECK-NEXT:    loop.reduce {arith.addf} %{{.*}} = 0 to 16 : f32 {
// CHECK-NEXT:      %[[K:.*]] = loop.index
// CHECK-NEXT:      loop.where %[[K]] < %m floordiv 2 * 16 + 16
func.func @registers(%x: memref<32x80xf32>, %w: memref<4x80xf32>, %out: memref<32x4xf32>) {
  tile.launch (%t = 8 : thread, %n = 4 : thread, %r = 4 : register) {
    %m = loop.index [%t * 4 + %r]
    %acc = loop.reduce {arith.addf} %k = 0 to 80 : f32 {
      loop.where %k < %m floordiv 2 * 16 + 16
      %a = loop.load %x[%m, %k] : memref<32x80xf32>
      %b = loop.load %w[%n, %k] : memref<4x80xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x4xf32>
  }
  func.return
}
