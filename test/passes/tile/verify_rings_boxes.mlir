// Boxes arrive at phases, and every step of a buffer arrives in the same way.
// RUN: deplodock-opt %s -p verify-rings --check-semantics
// RUN: sed 's/tile.ring 3 mbarrier/tile.ring 3/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-rings 2>&1 | filecheck %s --check-prefix CTA
// RUN: sed 's/\(ring\[.p\]\) tma/\1 async/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-rings 2>&1 | filecheck %s --check-prefix MIXED
// RUN: sed 's/mbarrier/mbarrier producer/; s/ tma/ async/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-rings 2>&1 | filecheck %s --check-prefix COPIER

// COPIER: error: tile.copy: a producer copies in boxes, and this comes otherwise
// CTA: error: tile.copy: tma copies arrive at phases, which only an mbarrier ring has
// MIXED: error: tile.copy: its buffer is filled otherwise before; every step arrives in the same way
func.func @k(%x: memref<320xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %ring = tile.ring 3 mbarrier
    %xs = tile.alloc : memref<3x32xf32, #tile.memory<shared>>
    loop.for %p = 0 to 1 unroll {
      tile.copy %x[%p * 32 + d0] to %xs at %ring[%p] tma : memref<320xf32> to memref<3x32xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %i = 0 to 10 : f32 {
      tile.copy %x[%i * 32 + 32 + d0] to %xs at %ring[%i + 1] tma where (%i + 1 < 10)
        : memref<320xf32> to memref<3x32xf32, #tile.memory<shared>>
      tile.wait %ring[%i]
      %v = loop.load %xs[%i mod 3, 31 - %t] : memref<3x32xf32, #tile.memory<shared>>
      tile.release %ring[%i]
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}
