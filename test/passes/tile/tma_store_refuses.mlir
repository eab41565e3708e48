// Each launch whose results no box can store is left as it is, for its reason.
// RUN: deplodock-opt %s -p tma-store 2>&1 | filecheck %s

// CHECK-DAG: tma_store skipped at @pitch: %out: the rows of a buffer with a tensor map are multiples of 16 bytes, got 33 f32; copy without it
// CHECK-DAG: tma_store skipped at @narrow: %out: rows of 16 bytes are no multiple of 128, 64 or 32
// CHECK-DAG: tma_store skipped at @condition: %out: it is stored under a condition that is not the end of the buffer
// CHECK-DAG: tma_store skipped at @strided: %out: the tile of a CTA is no box of it
// CHECK-DAG: tma_store skipped at @same: %out: several CTAs write to the same elements
// CHECK-DAG: tma_store skipped at @large: %out: with its slab a CTA takes 262144 bytes of shared memory, and it has 232448
// CHECK-DAG: tma_store skipped at @cluster: several CTAs add the sums of a tile
// CHECK-DAG: tma_store skipped at @inside: the launch stores nothing behind its reduction
// CHECK-DAG: tma_store skipped at @pointwise: no reduction of the launch is a contraction

func.func @pitch(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x33xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x33xf32>
  }
  func.return
}

func.func @narrow(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x4xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 4 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x4xf32>
  }
  func.return
}

func.func @condition(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x32xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    loop.where %n < %m + 1
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x32xf32>
  }
  func.return
}

func.func @strided(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x64xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n * 2] : memref<32x64xf32>
  }
  func.return
}

func.func @same(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x32xf32>) {
  tile.launch (%z = 2 : block, %m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x32xf32>
  }
  func.return
}

func.func @cluster(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x32xf32>) {
  tile.launch (%z = 2 : cluster, %m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x32xf32>
  }
  func.return
}

func.func @inside(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x32xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.for %again = 0 to 2 {
      loop.store %acc, %out[%m, %n] : memref<32x32xf32>
    }
  }
  func.return
}

func.func @large(%x: memref<512x8xf32>, %w: memref<256x8xf32>, %out: memref<512x256xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 256 : register, %n = 256 : thread) {
    %m = loop.index [%m_b * 256 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<512x8xf32>
      %b = loop.load %w[%n, %k] : memref<256x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<512x256xf32>
  }
  func.return
}

func.func @pointwise(%x: memref<64xf32>, %out: memref<64xf32>) {
  tile.launch (%b = 2 : block, %t = 32 : thread) {
    %i = loop.index [%b * 32 + %t]
    %v = loop.load %x[%i] : memref<64xf32>
    loop.store %v, %out[%i] : memref<64xf32>
  }
  func.return
}
