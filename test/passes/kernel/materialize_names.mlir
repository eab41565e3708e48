// RUN: deplodock-opt %s -p materialize | filecheck %s

// A function of two launches gives two kernels, whose names do not collide with a kernel that is there.
// CHECK:         kernel.func @k_0(
// CHECK:         kernel.func @k_1_1(
// CHECK:         func.func @run_k(
// CHECK:         kernel.func @k_1(
func.func @k(%x: memref<4xf32>, %out: memref<8xf32>) {
  tile.launch (%i = 4 : thread) {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i] : memref<8xf32>
  }
  tile.launch (%i = 4 : thread) {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i + 4] : memref<8xf32>
  }
  func.return
}
func.func @k_1(%x: memref<4xf32>, %out: memref<4xf32>) {
  tile.launch (%i = 4 : thread) {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i] : memref<4xf32>
  }
  func.return
}

// The names of host functions, too, and what a kernel's function returns is what it was called with.
// CHECK:         func.func @run_k_1(
// CHECK:         func.func @main(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
// CHECK-NEXT:      kernel.launch @returns(%x, %out)
// CHECK-NEXT:      func.return %out : memref<4xf32>
func.func @run_k_1() {
  func.return
}
func.func @main(%x: memref<4xf32>, %out: memref<4xf32>) -> memref<4xf32> {
  %same = func.call @returns(%x, %out) : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return %same : memref<4xf32>
}
func.func @returns(%x: memref<4xf32>, %y: memref<4xf32>) -> memref<4xf32> {
  tile.launch (%i = 4 : thread) {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %y[%i] : memref<4xf32>
  }
  func.return %y : memref<4xf32>
}
