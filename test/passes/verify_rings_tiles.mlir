// RUN: deplodock-opt %s -p verify-rings
// RUN: sed 's/%i_b \* 3 + %i + 1 < 6/%i_b * 3 + %i + 1 < 5/' %s > %t.left_out.mlir
// RUN: not deplodock-opt %t.left_out.mlir -p verify-rings 2>&1 | filecheck %s --check-prefix LEFT-OUT
// RUN: sed 's/ring\[%i_b \* 3 + %i\]/ring[%i_b * 4 + %i]/' %s > %t.gap.mlir
// RUN: not deplodock-opt %t.gap.mlir -p verify-rings 2>&1 | filecheck %s --check-prefix GAP

// A ring goes on from tile to tile: the steps of a tile are a loop in that over the tiles.
// LEFT-OUT: error: tile.copy: its condition leaves out a step that the loop reads
// GAP: error: tile.wait: it must stand in a loop and wait for the step of the loop's variable
func.func @k(%x: memref<48xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %ring = tile.ring 2
    %xs = tile.alloc : memref<2x8xf32, #tile.memory<shared>>
    tile.copy %x[d0] to %xs at %ring[0] async : memref<48xf32> to memref<2x8xf32, #tile.memory<shared>>
    loop.for %i_b = 0 to 2 {
      loop.for %i = 0 to 3 {
        tile.wait %ring[%i_b * 3 + %i]
        tile.copy %x[%i_b * 24 + %i * 8 + 8 + d0] to %xs at %ring[%i_b * 3 + %i + 1] async
          where (%i_b * 3 + %i + 1 < 6) : memref<48xf32> to memref<2x8xf32, #tile.memory<shared>>
        %v = loop.load %xs[(%i_b * 3 + %i) mod 2, %t] : memref<2x8xf32, #tile.memory<shared>>
        loop.store %v, %out[%t] : memref<8xf32>
        tile.release %ring[%i_b * 3 + %i]
      }
    }
  }
  func.return
}
