// RUN: deplodock-opt %s -p fuse-multiply-add --split-input-file | filecheck %s

// The accumulation of a matmul's inner loop; the product may be either operand of the sum.
// CHECK-LABEL: kernel.func @accumulate
// CHECK:           %[[C:.*]] = loop.load %acc[%m, %n]
// CHECK-NEXT:      %[[S:.*]] = math.fma %{{.*}}, %{{.*}}, %[[C]] : f32
// CHECK-NEXT:      loop.store %[[S]], %acc[%m, %n]
// CHECK:           %[[D:.*]] = loop.load %acc[%m, %n]
// CHECK-NEXT:      %[[T:.*]] = math.fma %{{.*}}, %{{.*}}, %[[D]] : f32
// CHECK-NEXT:      loop.store %[[T]], %acc[%m, %n]
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
      %q = arith.mulf %b, %b : f32
      %d = loop.load %acc[%m, %n] : memref<8x8xf32, #tile.memory<register>>
      %t = arith.addf %q, %d : f32
      loop.store %t, %acc[%m, %n] : memref<8x8xf32, #tile.memory<register>>
    }
  }
}

// -----

// Of two products none is fused, and a difference stays as it is: the product may be rounded elsewhere.
// CHECK-LABEL: kernel.func @no_accumulator
// CHECK-NOT:     math.fma
kernel.func @no_accumulator(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 32) {
  %a = loop.load %x[%thread] : memref<64xf32>
  %b = loop.load %x[%thread + 32] : memref<64xf32>
  %p = arith.mulf %a, %a : f32
  %q = arith.mulf %b, %b : f32
  %s = arith.addf %p, %q : f32
  %r = arith.mulf %a, %b : f32
  %t = arith.subf %r, %s : f32
  %u = arith.mulf %a, %t : f32
  %v = arith.addf %u, %b : f32
  loop.store %v, %out[%thread] : memref<64xf32>
}

// -----

// The sum goes to another element, or is used again; the product is used again: all stay.
// CHECK-LABEL: kernel.func @other_uses
// CHECK-NOT:     math.fma
kernel.func @other_uses(%x: memref<8xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 1) {
  %acc = kernel.alloc : memref<3xf32, #tile.memory<register>>
  %a = loop.load %x[0] : memref<8xf32>
  %p = arith.mulf %a, %a : f32
  %c = loop.load %acc[0] : memref<3xf32, #tile.memory<register>>
  %s = arith.addf %c, %p : f32
  loop.store %s, %acc[1] : memref<3xf32, #tile.memory<register>>
  %q = arith.mulf %a, %c : f32
  %d = loop.load %acc[1] : memref<3xf32, #tile.memory<register>>
  %t = arith.addf %d, %q : f32
  loop.store %t, %acc[1] : memref<3xf32, #tile.memory<register>>
  loop.store %t, %out[0] : memref<8xf32>
  %r = arith.mulf %a, %t : f32
  %e = loop.load %acc[2] : memref<3xf32, #tile.memory<register>>
  %u = arith.addf %e, %r : f32
  loop.store %u, %acc[2] : memref<3xf32, #tile.memory<register>>
  loop.store %r, %out[1] : memref<8xf32>
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
