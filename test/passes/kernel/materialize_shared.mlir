// RUN: deplodock-opt %s -p materialize | filecheck %s

// A kernel function that is called twice is one kernel, launched twice.
// CHECK-LABEL: func.func @main
// CHECK:         kernel.launch @k(%x, %[[A:.*]]) :
// CHECK:         kernel.launch @k(%[[A]], %[[B:.*]]) :
// CHECK:         func.return %[[B]]
// CHECK:       kernel.func @k(
// CHECK-NOT:   func @
func.func @main(%x: memref<32xf32>) -> memref<32xf32> {
  %a = memref.alloc() : memref<32xf32>
  func.call @k(%x, %a) : (memref<32xf32>, memref<32xf32>) -> ()
  %b = memref.alloc() : memref<32xf32>
  func.call @k(%a, %b) : (memref<32xf32>, memref<32xf32>) -> ()
  func.return %b : memref<32xf32>
}
func.func @k(%x: memref<32xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %v = loop.load %x[%t] : memref<32xf32>
    %e = math.exp %v : f32
    loop.store %e, %out[%t] : memref<32xf32>
  }
  func.return
}
