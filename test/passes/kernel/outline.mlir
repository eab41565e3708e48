// RUN: deplodock-opt %s -p outline --split-input-file | filecheck %s

// A launch becomes a kernel of what it uses: tensor maps, then buffers. Its CTAs are digits of the block id.
// CHECK-LABEL: func.func @main(%x: memref<4x64xf32>) {
// CHECK-NEXT:    kernel.launch @k(%x) : memref<4x64xf32>
// CHECK-NEXT:    func.return
// CHECK-LABEL: kernel.func @k(%x: memref<4x64xf32>) blocks(%block = 4) threads(%thread = 32) cluster 2 occupancy 2 {
// CHECK-NEXT:    %one = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    %row = loop.index [%block floordiv 2]
// CHECK-NEXT:    %s = loop.index [%block mod 2]
// CHECK-NEXT:    loop.store %one, %x[%row * 2 + %s, %thread] : memref<4x64xf32>
// CHECK-NEXT:    kernel.cluster_barrier
// CHECK-NEXT:  }
func.func @main(%x: memref<4x64xf32>) {
  func.call @k(%x) : (memref<4x64xf32>) -> ()
  func.return
}
func.func @k(%x: memref<4x64xf32>) {
  tile.launch (%row = 2 : block, %s = 2 : cluster, %thread = 32 : thread) occupancy 2 attributes {expanded} {
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%row * 2 + %s, %thread] : memref<4x64xf32>
    kernel.cluster_barrier
  }
  func.return
}

// -----

// A function that nobody calls stays, as host code; its launches get a number each.
// CHECK-LABEL: kernel.func @two_0(%x: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %one = arith.constant
// CHECK-NEXT:    loop.store %one, %x[%thread] : memref<8xf32>
// CHECK-LABEL: kernel.func @two_1(%x: memref<8xf32>) blocks(%block = 0) threads(%thread = 4) {
// CHECK-LABEL: func.func @run_two(%x: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @two_0(%x) : memref<8xf32>
// CHECK-NEXT:    kernel.launch @two_1(%x) : memref<8xf32>
func.func @two(%x: memref<8xf32>) {
  tile.launch (%thread = 8 : thread) attributes {expanded} {
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%thread] : memref<8xf32>
  }
  tile.launch (%b = 2 : block, %none = 0 : block, %thread = 4 : thread) attributes {expanded} {
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%b * 4 + %thread] : memref<8xf32>
  }
  func.return
}

// -----

// A function of launches may call another one: what it calls is inlined where it is.
// CHECK-LABEL: func.func @main(%x: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @outer(%x) : memref<8xf32>
// CHECK-NEXT:    kernel.launch @inner(%x) : memref<8xf32>
// CHECK-NEXT:    kernel.launch @inner(%x) : memref<8xf32>
// CHECK-NEXT:    func.return
// CHECK-NOT:     func.func
func.func @main(%x: memref<8xf32>) {
  func.call @outer(%x) : (memref<8xf32>) -> ()
  func.call @inner(%x) : (memref<8xf32>) -> ()
  func.return
}
func.func @outer(%x: memref<8xf32>) {
  tile.launch (%thread = 8 : thread) attributes {expanded} {
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%thread] : memref<8xf32>
  }
  func.call @inner(%x) : (memref<8xf32>) -> ()
  func.return
}
func.func @inner(%x: memref<8xf32>) {
  tile.launch (%thread = 8 : thread) attributes {expanded} {
    %two = arith.constant 2.0 : f32
    loop.store %two, %x[%thread] : memref<8xf32>
  }
  func.return
}
