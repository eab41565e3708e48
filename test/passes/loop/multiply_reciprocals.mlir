// RUN: deplodock-opt %s -p multiply-reciprocals -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p multiply-reciprocals | diff - %t.once

// The divisor of a row is inverted once, for both of its quotients.
// CHECK-LABEL: func.func @row
// CHECK:         %[[SUM:.*]] = loop.reduce {arith.addf}
// CHECK:         %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    %[[R:.*]] = arith.divf %[[ONE]], %[[SUM]] : f32
// CHECK-NEXT:    loop.for
// CHECK-NEXT:      %[[E:.*]] = loop.load
// CHECK-NEXT:      arith.mulf %[[E]], %[[R]] : f32
// CHECK-NEXT:      arith.mulf %{{.*}}, %[[R]] : f32
// CHECK-NOT:     arith.divf
func.func @row(%x: memref<8x16xf32>, %out: memref<8x16xf32>) {
  loop.for %m = 0 to 8 {
    %sum = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
      %v = loop.load %x[%m, %k] : memref<8x16xf32>
      loop.yield %v : f32
    }
    loop.for %i = 0 to 16 {
      %e = loop.load %x[%m, %i] : memref<8x16xf32>
      %q = arith.divf %e, %sum fastmath<arcp> : f32
      %p = arith.divf %q, %sum fastmath<reassoc,arcp> : f32
      loop.store %p, %out[%m, %i] : memref<8x16xf32>
    }
  }
  func.return
}

// Without the licence, or where the divisor changes with each element, nothing is saved.
// CHECK-LABEL: func.func @kept
// CHECK:         arith.divf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
// CHECK:         arith.divf %{{.*}}, %{{.*}} fastmath<arcp> : f32
// CHECK-NOT:     arith.divf
func.func @kept(%x: memref<8x16xf32>, %y: memref<8xf32>, %out: memref<8x16xf32>) {
  loop.for %m = 0 to 8 {
    %d = loop.load %y[%m] : memref<8xf32>
    loop.for %i = 0 to 16 {
      %e = loop.load %x[%m, %i] : memref<8x16xf32>
      %q = arith.divf %e, %d fastmath<reassoc> : f32
      %p = arith.divf %q, %e fastmath<arcp> : f32
      loop.store %p, %out[%m, %i] : memref<8x16xf32>
    }
  }
  func.return
}
