// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// Every launch of a kernel becomes a kernel of the buffers that it uses, in order.
// CHECK-LABEL: kernel.func @two_0(%x: memref<8xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = loop.load %x[%[[T]]] : memref<8xf32>
// CHECK-NEXT:    loop.store %[[A]], %out[%[[T]]] : memref<8xf32>
// CHECK-LABEL: kernel.func @two_1(%out: memref<8xf32>, %again: memref<8xf32>) blocks(%block = 8) threads(%thread = 1) {
// CHECK-NEXT:    %[[B:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[A:.*]] = loop.load %out[%[[B]]] : memref<8xf32>
// CHECK-NEXT:    loop.store %[[A]], %again[%[[B]]] : memref<8xf32>
// CHECK-LABEL: func.func @run_two(%x: memref<8xf32>, %out: memref<8xf32>, %again: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @two_0(%x, %out) : memref<8xf32>, memref<8xf32>
// CHECK-NEXT:    kernel.launch @two_1(%out, %again) : memref<8xf32>, memref<8xf32>
func.func @two(%x: memref<8xf32>, %out: memref<8xf32>, %again: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %a = loop.load %x[%t] : memref<8xf32>
    loop.store %a, %out[%t] : memref<8xf32>
  }
  tile.launch (%b = 8 : block) {
    %a = loop.load %out[%b] : memref<8xf32>
    loop.store %a, %again[%b] : memref<8xf32>
  }
  func.return
}

// -----

// The host function that calls a kernel launches it.
// CHECK-LABEL: func.func @main(%x: memref<8xf32>) -> memref<8xf32> {
// CHECK-NEXT:    %[[OUT:.*]] = memref.alloc() : memref<8xf32>
// CHECK-NEXT:    kernel.launch @k(%x, %[[OUT]]) : memref<8xf32>, memref<8xf32>
// CHECK-NEXT:    func.return %[[OUT]] : memref<8xf32>
// CHECK-LABEL: kernel.func @k(%x: memref<8xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = loop.load %x[%[[T]]] : memref<8xf32>
// CHECK-NEXT:    %[[B:.*]] = arith.mulf %[[A]], %[[TWO]] : f32
// CHECK-NEXT:    loop.store %[[B]], %out[%[[T]]] : memref<8xf32>
func.func @main(%x: memref<8xf32>) -> memref<8xf32> {
  %out = memref.alloc() : memref<8xf32>
  func.call @k(%x, %out) : (memref<8xf32>, memref<8xf32>) -> ()
  func.return %out : memref<8xf32>
}
func.func @k(%x: memref<8xf32>, %out: memref<8xf32>) {
  %two = arith.constant 2.0 : f32
  tile.launch (%t = 8 : thread) {
    %a = loop.load %x[%t] : memref<8xf32>
    %b = arith.mulf %a, %two : f32
    loop.store %b, %out[%t] : memref<8xf32>
  }
  func.return
}
