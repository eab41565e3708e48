// RUN: not deplodock-opt %s -p verify-rings 2>&1 | filecheck %s
// RUN: sed 's/%i mod 2/%i mod 3/' %s > %t.right.mlir
// RUN: deplodock-opt %t.right.mlir -p verify-rings --check-semantics

// CHECK: verify_rings.mlir:[[# @LINE + 12]]:{{[0-9]+}}: error: loop.load: it must read the slot of the step that is waited for, step mod 3
func.func @k(%x: memref<80xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %ring = tile.ring 3
    %xs = tile.alloc : memref<3x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[%p * 8 + d0] to %xs at %ring[%p] async : memref<80xf32> to memref<3x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %i = 0 to 10 : f32 {
      tile.wait %ring[%i]
      tile.copy %x[%i * 8 + 16 + d0] to %xs at %ring[%i + 2] async where (%i + 2 < 10)
        : memref<80xf32> to memref<3x8xf32, #tile.memory<shared>>
      %v = loop.load %xs[%i mod 2, 7 - %t] : memref<3x8xf32, #tile.memory<shared>>
      tile.release %ring[%i]
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<8xf32>
  }
  func.return
}
