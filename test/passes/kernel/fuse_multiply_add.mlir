// RUN: deplodock-opt %s -p fuse-multiply-add --split-input-file | filecheck %s

// The product can be either operand of the sum.
// CHECK-LABEL: kernel.func @add
// CHECK:         %[[A:.*]] = loop.load %x[%thread]
// CHECK-NEXT:    %[[B:.*]] = loop.load %x[%thread + 32]
// CHECK-NEXT:    %[[S:.*]] = math.fma %[[A]], %[[B]], %[[A]] : f32
// CHECK-NEXT:    %[[T:.*]] = math.fma %[[B]], %[[S]], %[[S]] : f32
// CHECK-NEXT:    loop.store %[[T]]
kernel.func @add(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = loop.load %x[%thread] : memref<64xf32>
  %b = loop.load %x[%thread + 32] : memref<64xf32>
  %p = arith.mulf %a, %b : f32
  %s = arith.addf %p, %a : f32
  %q = arith.mulf %b, %s : f32
  %t = arith.addf %s, %q : f32
  loop.store %t, %out[%thread] : memref<64xf32>
}

// -----

// A subtraction negates an operand, which is exact.
// CHECK-LABEL: kernel.func @subtract
// CHECK:         %[[A:.*]] = loop.load %x[%thread]
// CHECK-NEXT:    %[[B:.*]] = loop.load %x[%thread + 32]
// CHECK-NEXT:    %[[NB:.*]] = arith.negf %[[B]] : f64
// CHECK-NEXT:    %[[S:.*]] = math.fma %[[A]], %[[A]], %[[NB]] : f64
// CHECK-NEXT:    %[[NA:.*]] = arith.negf %[[A]] : f64
// CHECK-NEXT:    %[[T:.*]] = math.fma %[[NA]], %[[S]], %[[B]] : f64
// CHECK-NEXT:    loop.store %[[T]]
kernel.func @subtract(%x: memref<64xf64>, %out: memref<64xf64>) blocks(%block = 1) threads(%thread = 32) {
  %a = loop.load %x[%thread] : memref<64xf64>
  %b = loop.load %x[%thread + 32] : memref<64xf64>
  %p = arith.mulf %a, %a : f64
  %s = arith.subf %p, %b : f64
  %q = arith.mulf %a, %s : f64
  %t = arith.subf %b, %q : f64
  loop.store %t, %out[%thread] : memref<64xf64>
}

// -----

// Of two products the first is fused.
// CHECK-LABEL: kernel.func @two_products
// CHECK:         %[[A:.*]] = loop.load %x[%thread]
// CHECK-NEXT:    %[[B:.*]] = loop.load %x[%thread + 32]
// CHECK-NEXT:    %[[Q:.*]] = arith.mulf %[[B]], %[[B]] : f32
// CHECK-NEXT:    %[[S:.*]] = math.fma %[[A]], %[[A]], %[[Q]] : f32
// CHECK-NEXT:    loop.store %[[S]]
kernel.func @two_products(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = loop.load %x[%thread] : memref<64xf32>
  %b = loop.load %x[%thread + 32] : memref<64xf32>
  %p = arith.mulf %a, %a : f32
  %q = arith.mulf %b, %b : f32
  %s = arith.addf %p, %q : f32
  loop.store %s, %out[%thread] : memref<64xf32>
}

// -----

// A product that is used again, or squared by its own sum, stays.
// CHECK-LABEL: kernel.func @used_twice
// CHECK-NOT:     math.fma
kernel.func @used_twice(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = loop.load %x[%thread] : memref<64xf32>
  %p = arith.mulf %a, %a : f32
  %s = arith.addf %p, %a : f32
  loop.store %s, %out[%thread] : memref<64xf32>
  loop.store %p, %out[%thread + 32] : memref<64xf32>
  %q = arith.mulf %a, %s : f32
  %t = arith.addf %q, %q : f32
  loop.store %t, %out[%thread] : memref<64xf32>
}

// -----

// A product outside the loop is computed once, and stays there.
// CHECK-LABEL: kernel.func @outside_the_loop
// CHECK:         arith.mulf
// CHECK:         loop.for
// CHECK:           arith.addf
kernel.func @outside_the_loop(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = loop.load %x[%thread] : memref<64xf32>
  %p = arith.mulf %a, %a : f32
  loop.for %i = 0 to 2 {
    %b = loop.load %x[%thread + %i * 32] : memref<64xf32>
    %s = arith.addf %b, %p : f32
    loop.store %s, %out[%thread + %i * 32] : memref<64xf32>
  }
}

// -----

// The accumulation of a matmul's inner loop.
// CHECK-LABEL: kernel.func @accumulate
// CHECK:           %[[C:.*]] = loop.load %acc[%m, %n]
// CHECK-NEXT:      %[[S:.*]] = math.fma %{{.*}}, %{{.*}}, %[[C]] : f32
// CHECK-NEXT:      loop.store %[[S]], %acc[%m, %n]
kernel.func @accumulate(%x: memref<8xf32>, %w: memref<8xf32>) blocks(%block = 1) threads(%thread = 1) {
  %acc = kernel.alloc : memref<8x8xf32, #tile.memory<register>>
  loop.for %m = 0 to 8 unroll {
    loop.for %n = 0 to 8 unroll {
      %a = loop.load %x[%m] : memref<8xf32>
      %b = loop.load %w[%n] : memref<8xf32>
      %p = arith.mulf %a, %b : f32
      %c = loop.load %acc[%m, %n] : memref<8x8xf32, #tile.memory<register>>
      %s = arith.addf %c, %p : f32
      loop.store %s, %acc[%m, %n] : memref<8x8xf32, #tile.memory<register>>
    }
  }
}

// -----

// Host code and other levels are left alone.
// CHECK-LABEL: func.func @host
// CHECK-NOT:     math.fma
func.func @host(%a: f32) -> f32 {
  %p = arith.mulf %a, %a : f32
  %s = arith.addf %p, %a : f32
  func.return %s : f32
}
