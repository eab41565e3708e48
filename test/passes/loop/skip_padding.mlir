// RUN: deplodock-opt %s -p skip-padding,canonicalize,cse --split-input-file --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p skip-padding,canonicalize,cse --split-input-file | diff - %t.once

// What lies in the padding does not count, in the outermost loop that knows it, and reads need no remainder.
// CHECK-LABEL: func.func @max_pool
// CHECK:             loop.reduce {arith.maximumf} %[[K:.*]] = 0 to 3 : f32 {
// CHECK-NEXT:          loop.where %i * 2 + %[[K]] < 17
// CHECK-NEXT:          loop.where 0 < %i * 2 + %[[K]]
// CHECK-NEXT:          loop.reduce {arith.maximumf} %[[L:.*]] = 0 to 3 : f32 {
// CHECK-NEXT:            loop.where 0 < %j * 2 + %[[L]]
// CHECK-NEXT:            %[[E:.*]] = loop.load %x[%i * 2 + %[[K]] - 1, %j * 2 + %[[L]] - 1] : memref<16x16xf32>
// CHECK-NEXT:            loop.yield %[[E]] : f32
func.func @max_pool(%x: memref<16x16xf32>, %out: memref<9x8xf32>) {
  %inf = arith.constant 0xff800000 : f32
  %one = arith.constant 1 : i64
  %last = arith.constant 16 : i64
  loop.for %i = 0 to 9 {
    loop.for %j = 0 to 8 {
      %max = loop.reduce {arith.maximumf} %k = 0 to 3 : f32 {
        %inner = loop.reduce {arith.maximumf} %l = 0 to 3 : f32 {
          %r = loop.index [%i * 2 + %k]
          %ri = arith.index_cast %r : index to i64
          %r0 = arith.cmpi sge, %ri, %one : i64
          %r1 = arith.cmpi sle, %ri, %last : i64
          %c = loop.index [%j * 2 + %l]
          %ci = arith.index_cast %c : index to i64
          %c0 = arith.cmpi sge, %ci, %one : i64
          %c1 = arith.cmpi sle, %ci, %last : i64
          %rows = arith.andi %r0, %r1 : i1
          %columns = arith.andi %c0, %c1 : i1
          %inside = arith.andi %rows, %columns : i1
          %e = loop.load %x[(%r + 15) mod 16, (%c + 15) mod 16] : memref<16x16xf32>
          %v = arith.select %inside, %e, %inf : f32
          loop.yield %v : f32
        }
        loop.yield %inner : f32
      }
      loop.store %max, %out[%i, %j] : memref<9x8xf32>
    }
  }
  func.return
}

// -----

// What is chosen must be the identity: outside of a maximum it is not 0.
// CHECK-LABEL: func.func @other
// CHECK-NOT:     loop.where
// CHECK:         arith.select
func.func @other(%x: memref<16xf32>, %out: memref<16xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : i64
  loop.for %i = 0 to 16 {
    %max = loop.reduce {arith.maximumf} %k = 0 to 2 : f32 {
      %r = loop.index [%i + %k]
      %ri = arith.index_cast %r : index to i64
      %inside = arith.cmpi sge, %ri, %one : i64
      %e = loop.load %x[(%r + 15) mod 16] : memref<16xf32>
      %v = arith.select %inside, %e, %zero : f32
      loop.yield %v : f32
    }
    loop.store %max, %out[%i] : memref<16xf32>
  }
  func.return
}

// -----

// A condition on elements is no padding.
// CHECK-LABEL: func.func @positive
// CHECK-NOT:     loop.where
// CHECK:         arith.select
func.func @positive(%x: memref<16xf32>, %out: memref<1xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %i = 0 to 1 {
    %sum = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
      %e = loop.load %x[%k] : memref<16xf32>
      %counts = arith.cmpf ogt, %e, %zero : f32
      %v = arith.select %counts, %e, %zero : f32
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<1xf32>
  }
  func.return
}
