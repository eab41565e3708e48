// RUN: deplodock-opt %s -p lower-copies --verify-diagnostics | filecheck %s

// CHECK: lower_copies_refuses.mlir:[[# @LINE + 2]]:3: error: tile.launch: it is not expanded; run expand-launch first
func.func @k(%x: memref<8x32xf32>) {
  tile.launch (%t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<8x32xf32> to memref<4x32xf32, #tile.memory<shared>>
    %v = loop.load %xs[3, %t] : memref<4x32xf32, #tile.memory<shared>>
    loop.store %v, %x[0, %t] : memref<8x32xf32>
  }
  func.return
}
