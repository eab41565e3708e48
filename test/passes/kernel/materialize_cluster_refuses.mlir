// RUN: deplodock-opt %s -p materialize --split-input-file --verify-diagnostics | filecheck %s

// CHECK: tile.combine: a combine over a cluster folds all its axes, and no block axes besides
func.func @some(%x: memref<2x4xf32>, %out: memref<4xf32>) {
  tile.launch (%s = 2 : cluster, %r = 4 : cluster) {
    %v = loop.load %x[%s, %r] : memref<2x4xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%r] : memref<4xf32>
  }
  func.return
}

// -----

// CHECK: tile.combine: only one combine of a launch can fold CTAs, as most of them end there
func.func @twice(%x: memref<4xf32>, %out: memref<2xf32>) {
  tile.launch (%s = 4 : block) {
    %v = loop.load %x[%s] : memref<4xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    %q = tile.combine {arith.maximumf} %v over (%s) : f32
    loop.store %p, %out[0] : memref<2xf32>
    loop.store %q, %out[1] : memref<2xf32>
  }
  func.return
}

// -----

// What follows runs for a share of the threads in each CTA, or in the last CTA only.
// CHECK: tile.combine: it folds threads, but a combine over the cluster has left a share of them to each CTA
func.func @then_threads(%x: memref<2x64xf32>, %out: memref<1xf32>) {
  tile.launch (%s = 2 : cluster, %t = 64 : thread) {
    %v = loop.load %x[%s, %t] : memref<2x64xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    %q = tile.combine {arith.maximumf} %p over (%t) : f32
    loop.store %q, %out[0] : memref<1xf32>
  }
  func.return
}

// -----

// CHECK: loop.store: it writes along %s, whose CTAs a combine has folded; write before the combine
func.func @along(%x: memref<2x64xf32>, %out: memref<2x64xf32>) {
  tile.launch (%s = 2 : block, %t = 64 : thread) {
    %v = loop.load %x[%s, %t] : memref<2x64xf32>
    %p = tile.combine {arith.addf} %v over (%s) : f32
    loop.store %p, %out[%s, %t] : memref<2x64xf32>
  }
  func.return
}
