// RUN: deplodock-opt %s -p 'split-quotients' --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p 'split-quotients' --split-input-file --check-semantics

// Groups: one factor varies along the channels by their group alone, so the channels of a group are rows.
// CHECK-LABEL: @groups
// CHECK:       loop.for %cr = 0 to 4 {
// CHECK-NEXT:    loop.for %cq = 0 to 3 {
// CHECK-NEXT:      %c = loop.index [%cq * 4 + %cr]
// CHECK-NEXT:      loop.for %n = 0 to 5 {
// CHECK-NEXT:        loop.reduce {arith.addf} %k = 0 to 2 : f32 {
// CHECK-NEXT:          loop.load %x[%cq * 2 + %k, %n] : memref<6x5xf32>
// CHECK-NEXT:          loop.load %w[%cq * 4 + %cr, %k] : memref<12x2xf32>
func.func @groups(%x: memref<6x5xf32>, %w: memref<12x2xf32>, %out: memref<12x5xf32>) {
  loop.for %c = 0 to 12 {
    loop.for %n = 0 to 5 {
      %acc = loop.reduce {arith.addf} %k = 0 to 2 : f32 {
        %a = loop.load %x[%c floordiv 4 * 2 + %k, %n] : memref<6x5xf32>
        %v = loop.load %w[%c, %k] : memref<12x2xf32>
        %p = arith.mulf %a, %v : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%c, %n] : memref<12x5xf32>
    }
  }
  func.return
}

// -----

// Phases of a stride: the quotient is that of a place before the start, so the first and last points are inactive.
// CHECK-LABEL: @phases
// CHECK:       loop.for %c = 0 to 4 {
// CHECK-NEXT:    loop.for %or = 0 to 2 {
// CHECK-NEXT:      loop.for %oq = 0 to 5 {
// CHECK-NEXT:        %o = loop.index [%oq * 2 + %or - 1]
// CHECK-NEXT:        loop.where -1 < %o
// CHECK-NEXT:        loop.where %o < 8
// CHECK-NEXT:        loop.reduce {arith.addf} %k = 0 to 2 : f32 {
// CHECK-NEXT:          loop.load %x[%k, %oq] : memref<2x5xf32>
// CHECK-NEXT:          loop.load %w[%k, %c, %or] : memref<2x4x2xf32>
func.func @phases(%x: memref<2x5xf32>, %w: memref<2x4x2xf32>, %out: memref<4x8xf32>) {
  loop.for %c = 0 to 4 {
    loop.for %o = 0 to 8 {
      %acc = loop.reduce {arith.addf} %k = 0 to 2 : f32 {
        %a = loop.load %x[%k, (%o + 1) floordiv 2] : memref<2x5xf32>
        %v = loop.load %w[%k, %c, (%o + 1) mod 2] : memref<2x4x2xf32>
        %p = arith.mulf %a, %v : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%c, %o] : memref<4x8xf32>
    }
  }
  func.return
}

// -----

// Heads that share their keys, in a nest that is a contraction as it is, stay.
// CHECK-LABEL: @heads
// CHECK:       loop.for %h = 0 to 4 {
// CHECK-NEXT:    loop.for %m = 0 to 3 {
func.func @heads(%q: memref<4x3x2xf32>, %keys: memref<2x5x2xf32>, %out: memref<4x3x5xf32>) {
  loop.for %h = 0 to 4 {
    loop.for %m = 0 to 3 {
      loop.for %n = 0 to 5 {
        %acc = loop.reduce {arith.addf} %k = 0 to 2 : f32 {
          %a = loop.load %q[%h, %m, %k] : memref<4x3x2xf32>
          %v = loop.load %keys[%h floordiv 2, %n, %k] : memref<2x5x2xf32>
          %p = arith.mulf %a, %v : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%h, %m, %n] : memref<4x3x5xf32>
      }
    }
  }
  func.return
}

// -----

// A channel of its own for each group leaves no rows.
// CHECK-LABEL: @depthwise
// CHECK:       loop.for %c = 0 to 4 {
// CHECK-NEXT:    loop.for %n = 0 to 5 {
func.func @depthwise(%x: memref<4x7xf32>, %w: memref<4x3xf32>, %out: memref<4x5xf32>) {
  loop.for %c = 0 to 4 {
    loop.for %n = 0 to 5 {
      %acc = loop.reduce {arith.addf} %k = 0 to 3 : f32 {
        %a = loop.load %x[%c, %n + %k] : memref<4x7xf32>
        %v = loop.load %w[%c, %k] : memref<4x3xf32>
        %p = arith.mulf %a, %v : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%c, %n] : memref<4x5xf32>
    }
  }
  func.return
}
