// RUN: deplodock-opt %s -p 'join-contractions,canonicalize,cse' --split-input-file --check-semantics | filecheck %s

// Both sums run in one loop, which reads the shared factor once; what the second one needs comes before it.
// CHECK-LABEL: func.func @gate
// CHECK:             %s = loop.load %scale[%n] : memref<4xf32>
// CHECK-NEXT:        %g, %u = loop.reduce {arith.addf, arith.addf} %k = 0 to 16 : f32, f32 {
// CHECK-NEXT:          %a = loop.load %x[%m, %k] : memref<8x16xf32>
// CHECK-NEXT:          %b = loop.load %wg[%n, %k] : memref<4x16xf32>
// CHECK-NEXT:          %p = arith.mulf %a, %b : f32
// CHECK-NEXT:          %d = loop.load %wu[%n, %k] : memref<4x16xf32>
// CHECK-NEXT:          %e = arith.mulf %d, %s : f32
// CHECK-NEXT:          %q = arith.mulf %e, %a : f32
// CHECK-NEXT:          loop.yield %p, %q : f32, f32
// CHECK-NEXT:        }
// CHECK-NEXT:        %t = math.tanh %g : f32
// CHECK-NEXT:        %y = arith.mulf %t, %u : f32
func.func @gate(%x: memref<8x16xf32>, %wg: memref<4x16xf32>, %wu: memref<4x16xf32>, %scale: memref<4xf32>, %out: memref<8x4xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %g = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%m, %k] : memref<8x16xf32>
        %b = loop.load %wg[%n, %k] : memref<4x16xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %t = math.tanh %g : f32
      %s = loop.load %scale[%n] : memref<4xf32>
      %u = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
        %c = loop.load %x[%m, %l] : memref<8x16xf32>
        %d = loop.load %wu[%n, %l] : memref<4x16xf32>
        %e = arith.mulf %d, %s : f32
        %q = arith.mulf %e, %c : f32
        loop.yield %q : f32
      }
      %y = arith.mulf %t, %u : f32
      loop.store %y, %out[%m, %n] : memref<8x4xf32>
    }
  }
  func.return
}

// -----

// No factor in common.
// CHECK-LABEL: func.func @apart
// CHECK:         loop.reduce {arith.addf} %k = 0 to 16 : f32
// CHECK:         loop.reduce {arith.addf} %l = 0 to 16 : f32
func.func @apart(%x: memref<8x16xf32>, %y: memref<8x16xf32>, %w: memref<4x16xf32>, %v: memref<4x16xf32>, %out: memref<8x4xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %g = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%m, %k] : memref<8x16xf32>
        %b = loop.load %w[%n, %k] : memref<4x16xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %u = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
        %c = loop.load %y[%m, %l] : memref<8x16xf32>
        %d = loop.load %v[%n, %l] : memref<4x16xf32>
        %q = arith.mulf %c, %d : f32
        loop.yield %q : f32
      }
      %z = arith.addf %g, %u : f32
      loop.store %z, %out[%m, %n] : memref<8x4xf32>
    }
  }
  func.return
}

// -----

// The second sum needs the first one.
// CHECK-LABEL: func.func @after
// CHECK:         loop.reduce {arith.addf} %k = 0 to 16 : f32
// CHECK:         loop.reduce {arith.addf} %l = 0 to 16 : f32
func.func @after(%x: memref<8x16xf32>, %w: memref<4x16xf32>, %v: memref<4x16xf32>, %out: memref<8x4xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %g = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%m, %k] : memref<8x16xf32>
        %b = loop.load %w[%n, %k] : memref<4x16xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %t = math.tanh %g : f32
      %u = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
        %c = loop.load %x[%m, %l] : memref<8x16xf32>
        %d = loop.load %v[%n, %l] : memref<4x16xf32>
        %e = arith.mulf %d, %t : f32
        %q = arith.mulf %c, %e : f32
        loop.yield %q : f32
      }
      loop.store %u, %out[%m, %n] : memref<8x4xf32>
    }
  }
  func.return
}

// -----

// A condition leaves out elements of one sum alone.
// CHECK-LABEL: func.func @masked
// CHECK:         loop.reduce {arith.addf} %k = 0 to 16 : f32
// CHECK:         loop.reduce {arith.addf} %l = 0 to 16 : f32
func.func @masked(%x: memref<8x16xf32>, %w: memref<4x16xf32>, %v: memref<4x16xf32>, %out: memref<8x4xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %g = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%m, %k] : memref<8x16xf32>
        %b = loop.load %w[%n, %k] : memref<4x16xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %u = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
        loop.where %l < %m + 1
        %c = loop.load %x[%m, %l] : memref<8x16xf32>
        %d = loop.load %v[%n, %l] : memref<4x16xf32>
        %q = arith.mulf %c, %d : f32
        loop.yield %q : f32
      }
      %z = arith.addf %g, %u : f32
      loop.store %z, %out[%m, %n] : memref<8x4xf32>
    }
  }
  func.return
}

// -----

// Loops within each other are joined, all of them.
// CHECK-LABEL: func.func @nested
// CHECK:             %g, %u = loop.reduce {arith.addf, arith.addf} %j = 0 to 2 : f32, f32 {
// CHECK-NEXT:          %[[G:.*]], %[[U:.*]] = loop.reduce {arith.addf, arith.addf} %k = 0 to 16 : f32, f32 {
// CHECK-NEXT:            %a = loop.load %x[%m, %j, %k] : memref<8x2x16xf32>
// CHECK-NEXT:            %b = loop.load %wg[%n, %j, %k] : memref<4x2x16xf32>
// CHECK-NEXT:            %p = arith.mulf %a, %b : f32
// CHECK-NEXT:            %d = loop.load %wu[%n, %j, %k] : memref<4x2x16xf32>
// CHECK-NEXT:            %q = arith.mulf %a, %d : f32
// CHECK-NEXT:            loop.yield %p, %q : f32, f32
// CHECK-NEXT:          }
// CHECK-NEXT:          loop.yield %[[G]], %[[U]] : f32, f32
func.func @nested(%x: memref<8x2x16xf32>, %wg: memref<4x2x16xf32>, %wu: memref<4x2x16xf32>, %out: memref<8x4xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %g = loop.reduce {arith.addf} %j = 0 to 2 : f32 {
        %gi = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
          %a = loop.load %x[%m, %j, %k] : memref<8x2x16xf32>
          %b = loop.load %wg[%n, %j, %k] : memref<4x2x16xf32>
          %p = arith.mulf %a, %b : f32
          loop.yield %p : f32
        }
        loop.yield %gi : f32
      }
      %u = loop.reduce {arith.addf} %i = 0 to 2 : f32 {
        %ui = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
          %c = loop.load %x[%m, %i, %l] : memref<8x2x16xf32>
          %d = loop.load %wu[%n, %i, %l] : memref<4x2x16xf32>
          %q = arith.mulf %c, %d : f32
          loop.yield %q : f32
        }
        loop.yield %ui : f32
      }
      %y = arith.mulf %g, %u : f32
      loop.store %y, %out[%m, %n] : memref<8x4xf32>
    }
  }
  func.return
}

// -----

// Products of two precisions.
// CHECK-LABEL: func.func @precisions
// CHECK:         %g = loop.reduce {arith.addf} %k = 0 to 16 : f32
// CHECK:           arith.mulf %{{.*}}, %{{.*}} {deplodock.precision = "high"} : f32
// CHECK:         %u = loop.reduce {arith.addf} %l = 0 to 16 : f32
func.func @precisions(%x: memref<8x16xf32>, %wg: memref<4x16xf32>, %wu: memref<4x16xf32>, %out: memref<8x4xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 4 {
      %g = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%m, %k] : memref<8x16xf32>
        %b = loop.load %wg[%n, %k] : memref<4x16xf32>
        %p = arith.mulf %a, %b {deplodock.precision = "high"} : f32
        loop.yield %p : f32
      }
      %u = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
        %c = loop.load %x[%m, %l] : memref<8x16xf32>
        %d = loop.load %wu[%n, %l] : memref<4x16xf32>
        %q = arith.mulf %c, %d : f32
        loop.yield %q : f32
      }
      %y = arith.mulf %g, %u : f32
      loop.store %y, %out[%m, %n] : memref<8x4xf32>
    }
  }
  func.return
}
