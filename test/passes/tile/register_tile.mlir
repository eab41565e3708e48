// RUN: deplodock-opt %s -p 'register-tile{m=4 n=2}' --split-input-file --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'register-tile{m=4 n=2}' --split-input-file -o %t.once.mlir 2>/dev/null
// RUN: not deplodock-opt %t.once.mlir -p 'register-tile{m=4 n=2}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'register-tile{m=0}' --split-input-file 2>&1 | filecheck %s --check-prefix ZERO
// RUN: not deplodock-opt %s -p 'register-tile{vector=4}' --split-input-file 2>&1 | filecheck %s --check-prefix ROLE

// TWICE: applies to no kernel: @matmul: the launch has register axes already
// ZERO: the option m must be a positive integer, got 0
// ROLE: applies to no kernel: @matmul: vector is for launches without a contraction, and the launch has one; give m, n

// The part of an axis that a CTA has is split; readers and writers keep their coordinates.
// CHECK-LABEL: func.func @matmul
// CHECK:       tile.launch (%m_b = 3 : block, %n_b = 2 : block, %m_t = 2 : thread, %n_t = 2 : thread,
// CHECK-SAME:      %m_r = 4 : register, %n_r = 2 : register) {
// CHECK-NEXT:    %[[N:.*]] = loop.index [%n_t * 2 + %n_r]
// CHECK-NEXT:    %[[M:.*]] = loop.index [%m_t * 4 + %m_r]
// CHECK-NEXT:    %m = loop.index [%m_b * 8 + %[[M]]]
// CHECK-NEXT:    loop.where %m < 20
// CHECK-NEXT:    %n = loop.index [%n_b * 4 + %[[N]]]
// CHECK:           loop.load %x[%m, %k]
func.func @matmul(%x: memref<20x32xf32>, %w: memref<8x32xf32>, %out: memref<20x8xf32>) {
  tile.launch (%m_b = 3 : block, %n_b = 2 : block, %m_t = 8 : thread, %n_t = 4 : thread) {
    %m = loop.index [%m_b * 8 + %m_t]
    loop.where %m < 20
    %n = loop.index [%n_b * 4 + %n_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<20x32xf32>
      %b = loop.load %w[%n, %k] : memref<8x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x8xf32>
  }
  func.return
}

// -----

// Threads that run past the tile are inactive; an axis that one thread has whole is a register axis.
// CHECK-LABEL: func.func @ragged
// CHECK:       tile.launch (%m_t = 3 : thread, %m_r = 4 : register, %n = 2 : register) {
// CHECK-NEXT:    %[[M:.*]] = loop.index [%m_t * 4 + %m_r]
// CHECK-NEXT:    loop.where %[[M]] < 10
func.func @ragged(%x: memref<10x32xf32>, %w: memref<2x32xf32>, %out: memref<10x2xf32>) {
  tile.launch (%m = 10 : thread, %n = 2 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<10x32xf32>
      %b = loop.load %w[%n, %k] : memref<2x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<10x2xf32>
  }
  func.return
}

// -----

// SKIP: register_tile skipped at @pointwise: m, n are for contractions, and the launch has none; give vector
func.func @pointwise(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %a = loop.load %x[%m] : memref<8xf32>
    loop.store %a, %out[%m] : memref<8xf32>
  }
  func.return
}

// SKIP: register_tile skipped at @one: each thread has one output along every axis to tile, or its axes are not constant
func.func @one(%x: memref<1x32xf32>, %w: memref<1x32xf32>, %out: memref<1x1xf32>) {
  tile.launch (%m = 1 : thread, %n = 1 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<1x32xf32>
      %b = loop.load %w[%n, %k] : memref<1x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<1x1xf32>
  }
  func.return
}

func.func @taken(%x: memref<10x32xf32>, %w: memref<2x32xf32>, %out: memref<10x2xf32>) {
  tile.launch (%m = 10 : thread, %n = 2 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<10x32xf32>
      %b = loop.load %w[%n, %k] : memref<2x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<10x2xf32>
  }
  func.return
}
