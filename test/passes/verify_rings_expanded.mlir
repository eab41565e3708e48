// RUN: not deplodock-opt %s -p verify-rings 2>&1 | filecheck %s
// RUN: sed 's/%i mod 2/%i mod 3/' %s > %t.right.mlir
// RUN: deplodock-opt %t.right.mlir -p verify-rings

// Where register axes are loops, a thread reads several elements of a slot at once.
// CHECK: verify_rings_expanded.mlir:[[# @LINE + 11]]:{{[0-9]+}}: error: kernel.move: it must read the slot of the step that is waited for, step mod 3
func.func @k(%x: memref<80xf32>, %out: memref<8xf32>) {
  tile.launch (%thread = 4 : thread) attributes {expanded} {
    %ring = tile.ring 3
    %xs = tile.alloc : memref<3x8xf32, #tile.memory<shared>>
    tile.copy %x[d0] to %xs at %ring[0] async : memref<80xf32> to memref<3x8xf32, #tile.memory<shared>>
    loop.for %i = 0 to 10 {
      tile.copy %x[%i * 8 + 8 + d0] to %xs at %ring[%i + 1] async where (%i + 1 < 10)
        : memref<80xf32> to memref<3x8xf32, #tile.memory<shared>>
      tile.wait %ring[%i]
      %v = kernel.alloc : memref<2xf32, #tile.memory<register>>
      kernel.move 2 %xs[%i mod 2, %thread * 2] to %v[0] : memref<3x8xf32, #tile.memory<shared>> to memref<2xf32, #tile.memory<register>>
      kernel.move 2 %v[0] to %out[%thread * 2] : memref<2xf32, #tile.memory<register>> to memref<8xf32>
      tile.release %ring[%i]
    }
  }
  func.return
}
