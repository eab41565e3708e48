// RUN: deplodock-opt %s -p swap-pairs --check-semantics -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %t.once -p swap-pairs 2>%t.twice | diff - %t.once
// RUN: filecheck %s --input-file %t.twice --check-prefix TWICE
// RUN: deplodock-opt %t.once -p expand-launch | filecheck %s --check-prefix WIDE

// SKIP:      swap_pairs skipped at @residual: its outputs are more than sums and values of their rows and columns
// SKIP-NEXT: swap_pairs skipped at @shares: its outputs are more than sums and values of their rows and columns
// SKIP-NEXT: swap_pairs skipped at @rows: %ws: its columns are read one by one, or copied several at a time
// SKIP-NEXT: swap_pairs skipped at @parts: no thread stores neighbouring columns in order
// SKIP-NEXT: swap_pairs skipped at @direct: %w is no slab that threads copy; run stage-inputs before, and pipeline-k-outer behind
// SKIP-NEXT: swap_pairs skipped at @copy: no contraction of single products
// TWICE:     swap_pairs skipped at @sums: %ws: its pairs are swapped already

// The pairs of columns change places in the slab; threads read and store four columns at once.
// CHECK-LABEL: func.func @sums
// CHECK:         tile.stage %x[d1, d0]
// CHECK:         tile.stage %w[d1 floordiv 2 * 2 - d1 mod 2 + 1, d0]
// CHECK:         loop.load %{{.*}}[%k, %m]
// CHECK:         loop.load %{{.*}}[%k, %n floordiv 2 * 2 - %n mod 2 + 1]
// WIDE-LABEL:  func.func @sums
// WIDE:          kernel.move 4 %{{.*}}[%k, %n_t * 4] to %[[VECTOR:.*]][0]
// WIDE-NEXT:     %[[B:.*]] = loop.load %[[VECTOR]][1]
// WIDE-NEXT:     loop.store %[[B]], %{{.*}}[0]
// WIDE:          kernel.move 4 %acc[%{{.*}}, 0] to %out
func.func @sums(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d1, d0] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %ws[%k, %n] : memref<32x32xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

// A bias, a scale and a mask of coordinates are simple.
// CHECK-LABEL: func.func @masked
// CHECK:         tile.stage %w[d1 floordiv 2 * 2 - d1 mod 2 + 1, d0]
// WIDE-LABEL:  func.func @masked
// WIDE:          kernel.move 4 %{{.*}}[%{{.*}}, 0] to %out
func.func @masked(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %bias: memref<32xf32>, %out: memref<16x32xf32>) {
  %scale = arith.constant 0.125 : f32
  %low = arith.constant 0xff800000 : f32
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d1, d0] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %ws[%k, %n] : memref<32x32xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    %c = loop.load %bias[%n] : memref<32xf32>
    %biased = arith.addf %acc, %c : f32
    %scaled = arith.mulf %biased, %scale : f32
    %seen = arith.cmpi sle, %n, %m : index
    %v = arith.select %seen, %scaled, %low : f32
    loop.store %v, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

func.func @residual(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %r: memref<16x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d1, d0] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %ws[%k, %n] : memref<32x32xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    %c = loop.load %r[%m, %n] : memref<16x32xf32>
    %v = arith.addf %acc, %c : f32
    loop.store %v, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

func.func @shares(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  %total = arith.constant 3.0 : f32
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d1, d0] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %ws[%k, %n] : memref<32x32xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    %v = arith.divf %acc, %total : f32
    loop.store %v, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

func.func @rows(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %ws[%k, %n] : memref<32x32xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

// Parts lie in swapped pairs: their columns keep their order.
func.func @parts(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d1, d0] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %ws[%k, %n] : memref<32x32xf32, #tile.memory<shared>>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n floordiv 2 * 2 - %n mod 2 + 1] : memref<16x32xf32>
  }
  func.return
}

func.func @direct(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 4 : thread, %n_t = 8 : thread, %m_r = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<16x32xf32>
      %b = loop.load %w[%n, %k] : memref<32x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

func.func @copy(%x: memref<32xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %v = loop.load %x[%t] : memref<32xf32>
    loop.store %v, %out[%t] : memref<32xf32>
  }
  func.return
}
