// RUN: deplodock-opt %s -p 'tileify,blockify-launch{m=16 n=16},register-tile{m=4 n=4},expand-launch' | filecheck %s

// The last columns of a tile may be none: a branch for each column that a thread computes is around all of its rows, and
// what follows the sums is computed there, where it is written.
// CHECK-LABEL: func.func @function
// CHECK:             loop.guard where (%{{.*}} * 4 + %[[N:.*]] < 33) {
// CHECK-NEXT:          loop.for %[[M:.*]] = 0 to 4 unroll {
// CHECK-NEXT:            %[[ACC:.*]] = loop.load %{{.*}}[%[[M]], %[[N]]]
// CHECK-NEXT:            %[[T:.*]] = math.tanh %[[ACC]]
// CHECK-NEXT:            loop.store %[[T]], %out
func.func @function(%x: memref<32x8xf32>, %w: memref<8x33xf32>, %out: memref<32x33xf32>) {
  loop.for %m = 0 to 32 {
    loop.for %n = 0 to 33 {
      %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
        %a = loop.load %x[%m, %k] : memref<32x8xf32>
        %b = loop.load %w[%k, %n] : memref<8x33xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %t = math.tanh %acc : f32
      loop.store %t, %out[%m, %n] : memref<32x33xf32>
    }
  }
  func.return
}
