// RUN: deplodock-opt %s -p outline --verify-diagnostics | filecheck %s

// CHECK: outline_refuses.mlir:[[# @LINE + 2]]:3: error: tile.launch: it is not expanded; run expand-launch first
func.func @f(%x: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %a = loop.load %x[%t] : memref<8xf32>
    loop.store %a, %x[%t] : memref<8xf32>
  }
  func.return
}
