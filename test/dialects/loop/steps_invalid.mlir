// Messages of the verifier say what does not fit.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: a row of memref<9x3xf32> is no multiple of 16 bytes
func.func @unaligned(%x: memref<9x3xf32>) {
  %0 = loop.part %x[1] : memref<9x3xf32> -> memref<3xf32>
  func.return
}

// -----

// CHECK: the part from row 8 on is not inside of memref<9x4xf32>
func.func @outside(%x: memref<9x4xf32>) {
  %0 = loop.part %x[8] : memref<9x4xf32> -> memref<5xf32>
  func.return
}

// -----

// CHECK: a part of memref<9x4xf32> has its element type, and starts with a row, got memref<4xi32>
func.func @element(%x: memref<9x4xf32>) {
  %0 = loop.part %x[8] : memref<9x4xf32> -> memref<4xi32>
  func.return
}

// -----

// CHECK: loop.repeat runs 0 times or more, not -1
func.func @backwards() {
  loop.repeat %t = 0 to -1 {
  }
  func.return
}

// -----

// CHECK: the body of loop.repeat takes one argument, the induction variable of type index
func.func @argument() {
  "loop.repeat"() <{count = 3 : index}> ({
  ^bb0:
  }) : () -> ()
  func.return
}

// -----

// CHECK: parts are of buffers of static shapes in global memory, got memref<?x4xf32>
func.func @dynamic(%x: memref<?x4xf32>) {
  %0 = loop.part %x[0] : memref<?x4xf32> -> memref<4xf32>
  func.return
}
