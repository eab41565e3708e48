// A launch whose CTAs are to share steps that they cannot share is refused.
// RUN: deplodock-opt %s -p expand-launch --split-input-file --verify-diagnostics | filecheck %s

// CHECK: its CTAs cannot share the steps of one contraction; see stream-matmul-k
func.func @no_contraction(%x: memref<8x32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%m = 8 : block, %n = 32 : thread) stream 4 {
    %v = loop.load %x[%m, %n] : memref<8x32xf32>
    loop.store %v, %out[%m, %n] : memref<8x32xf32>
  }
  func.return
}

// -----

// CHECK: some tiles may be inactive, and its CTAs share the steps of all
func.func @inactive_tiles(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) stream 2 {
    loop.where %n_b < 2
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
