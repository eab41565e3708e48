// RUN: deplodock-opt %s -p 'register-tile{vector=4}' --split-input-file --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP

// Neighbours along the contiguous dimension of the output belong to one thread, whichever axis walks it.
// CHECK-LABEL: func.func @transpose
// CHECK:       tile.launch (%j_t = 2 : thread, %i = 6 : thread, %j_r = 4 : register) {
// CHECK-NEXT:    %[[J:.*]] = loop.index [%j_t * 4 + %j_r]
// CHECK-NEXT:    loop.load %x[%[[J]], %i]
func.func @transpose(%x: memref<8x6xf32>, %out: memref<6x8xf32>) {
  tile.launch (%j = 8 : thread, %i = 6 : thread) {
    %v = loop.load %x[%j, %i] : memref<8x6xf32>
    loop.store %v, %out[%i, %j] : memref<6x8xf32>
  }
  func.return
}

// -----

// Columns of a sum over rows are wide accesses too.
// CHECK-LABEL: func.func @column_sum
// CHECK:       tile.launch (%j_t = 3 : thread, %j_r = 4 : register) {
// CHECK-NEXT:    %[[J:.*]] = loop.index [%j_t * 4 + %j_r]
// CHECK-NEXT:    loop.where %[[J]] < 10
// CHECK-NEXT:    loop.reduce
func.func @column_sum(%x: memref<32x10xf32>, %out: memref<10xf32>) {
  tile.launch (%j = 10 : thread) {
    %acc = loop.reduce {arith.addf} %i = 0 to 32 : f32 {
      %v = loop.load %x[%i, %j] : memref<32x10xf32>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%j] : memref<10xf32>
  }
  func.return
}

// -----

// SKIP: register_tile skipped at @strided: no thread axis walks contiguous memory in every store
func.func @strided(%x: memref<8xf32>, %out: memref<8x2xf32>) {
  tile.launch (%i = 8 : thread) {
    %v = loop.load %x[%i] : memref<8xf32>
    loop.store %v, %out[%i, 0] : memref<8x2xf32>
    loop.store %v, %out[%i, 1] : memref<8x2xf32>
  }
  func.return
}

func.func @taken(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%i = 8 : thread) {
    %v = loop.load %x[%i] : memref<8xf32>
    loop.store %v, %out[%i] : memref<8xf32>
  }
  func.return
}

// -----

// Neighbouring rows belong to one thread beside the vectors of their elements that threads fold.
// CHECK-LABEL: func.func @rows
// CHECK:       tile.launch (%i_t = 2 : thread, %t = 32 : thread, %i_r = 4 : register, %v = 2 : register) {
// CHECK-NEXT:    %[[I:.*]] = loop.index [%i_t * 4 + %i_r]
func.func @rows(%x: memref<8x128xf32>, %y: memref<128x1xf32>, %out: memref<8x1xf32>) {
  tile.launch (%i = 8 : thread, %t = 32 : thread, %v = 2 : register) {
    %part = loop.reduce {arith.addf} %j = 0 to 2 : f32 {
      %k = loop.index [%j * 64 + %t * 2 + %v]
      %a = loop.load %x[%i, %k] : memref<8x128xf32>
      %b = loop.load %y[%k, 0] : memref<128x1xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    %sum = tile.combine {arith.addf} %part over (%t, %v) : f32
    loop.store %sum, %out[%i, 0] : memref<8x1xf32>
  }
  func.return
}
