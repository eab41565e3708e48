// RUN: deplodock-opt %s -p outline --split-input-file --verify-diagnostics | filecheck %s

// CHECK: outline_refuses.mlir:[[# @LINE + 2]]:3: error: tile.launch: it is not expanded; run expand-launch first
func.func @f(%x: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %a = loop.load %x[%t] : memref<8xf32>
    loop.store %a, %x[%t] : memref<8xf32>
  }
  func.return
}

// -----

// CHECK: outline_refuses.mlir:[[# @LINE + 3]]:5: error: tile.stage: it cannot stand in a kernel; run lower-copies first
func.func @g(%x: memref<8xf32>) {
  tile.launch (%thread = 8 : thread) attributes {expanded} {
    %xs = tile.stage %x[d0] : memref<8xf32> to memref<8xf32, #tile.memory<shared>>
    %a = loop.load %xs[%thread] : memref<8xf32, #tile.memory<shared>>
    loop.store %a, %x[%thread] : memref<8xf32>
  }
  func.return
}
