// RUN: deplodock-opt %s -p keep-values --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p keep-values,keep-values --split-input-file | filecheck %s

// A value of several operations takes the place of the element it is computed from; what only computed it is gone.
// CHECK-LABEL: kernel.func @exponentials
// CHECK:       %in = loop.load %row[%i, %v]
// CHECK-NEXT:  %scaled = arith.mulf %in, %c : f32
// CHECK-NEXT:  %e = math.exp %scaled : f32
// CHECK-NEXT:  loop.store %e, %row[%i, %v]
// CHECK:       loop.for %i_1 = 0 to 4 unroll {
// CHECK:         %e_1 = loop.load %row[%i_1, %v_1]
// CHECK-NEXT:    %q = arith.divf %e_1, %total : f32
// CHECK-NEXT:    loop.store %q, %y[%i_1 * 64 + %t * 2 + %v_1]
kernel.func @exponentials(%x: memref<256xf32>, %y: memref<256xf32>, %n: index) blocks(%b = 8) threads(%t = 32) {
  %c = arith.constant 2.0 : f32
  %z = arith.constant 0.0 : f32
  %row = kernel.alloc : memref<4x2xf32, #tile.memory<register>>
  loop.for %p = 0 to 4 unroll {
    kernel.move 2 %x[%p * 64 + %t * 2] to %row[%p, 0] where (%p * 64 < %b * 32 + 32) : memref<256xf32> to memref<4x2xf32, #tile.memory<register>>
  }
  %sum = kernel.alloc : memref<f32, #tile.memory<register>>
  loop.store %z, %sum[] : memref<f32, #tile.memory<register>>
  loop.for %i = 0 to 4 unroll {
    loop.guard where (%i * 64 < %b * 32 + 32) {
      loop.for %v = 0 to 2 unroll {
        %in = loop.load %row[%i, %v] : memref<4x2xf32, #tile.memory<register>>
        %scaled = arith.mulf %in, %c : f32
        %e = math.exp %scaled : f32
        %s = loop.load %sum[] : memref<f32, #tile.memory<register>>
        %more = arith.addf %s, %e : f32
        loop.store %more, %sum[] : memref<f32, #tile.memory<register>>
      }
    }
  }
  %total = loop.load %sum[] : memref<f32, #tile.memory<register>>
  loop.for %i = 0 to 4 unroll {
    loop.guard where (%i * 64 < %b * 32 + 32) {
      loop.for %v = 0 to 2 unroll {
        %in = loop.load %row[%i, %v] : memref<4x2xf32, #tile.memory<register>>
        %scaled = arith.mulf %in, %c : f32
        %e = math.exp %scaled : f32
        %q = arith.divf %e, %total : f32
        loop.store %q, %y[%i * 64 + %t * 2 + %v] : memref<256xf32>
      }
    }
  }
}

// -----

// A loop behind that needs the element itself, too, keeps it.
// CHECK-LABEL: kernel.func @both
// CHECK-NOT:   loop.store %{{.*}}, %r[
kernel.func @both(%y: memref<4xf32>, %row: memref<4xf32>) blocks(%b = 8) threads(%t = 1) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  loop.for %p = 0 to 4 unroll {
    kernel.move 1 %row[%p] to %r[%p] : memref<4xf32> to memref<4xf32, #tile.memory<register>>
  }
  loop.for %i = 0 to 4 unroll {
    loop.guard where (%i < %b) {
      %in = loop.load %r[%i] : memref<4xf32, #tile.memory<register>>
      %e = math.exp %in : f32
      loop.store %e, %y[%i] : memref<4xf32>
    }
  }
  // CHECK: %in_1 = loop.load %r[%i_1]
  // CHECK: math.exp %in_1
  loop.for %i = 0 to 4 unroll {
    loop.guard where (%i < %b) {
      %in = loop.load %r[%i] : memref<4xf32, #tile.memory<register>>
      %e = math.exp %in : f32
      %d = arith.subf %e, %in : f32
      loop.store %d, %y[%i] : memref<4xf32>
    }
  }
}

// -----

// Where the conditions differ, an element of the second loop may have no value yet.
// CHECK-LABEL: kernel.func @other_points
// CHECK-COUNT-2: math.exp
kernel.func @other_points(%y: memref<4xf32>, %x: memref<4xf32>) blocks(%b = 8) threads(%t = 1) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  loop.for %p = 0 to 4 unroll {
    kernel.move 1 %x[%p] to %r[%p] : memref<4xf32> to memref<4xf32, #tile.memory<register>>
  }
  loop.for %i = 0 to 4 unroll {
    loop.guard where (%i < %b) {
      %in = loop.load %r[%i] : memref<4xf32, #tile.memory<register>>
      %e = math.exp %in : f32
      loop.store %e, %y[%i] : memref<4xf32>
    }
  }
  loop.for %i = 0 to 4 unroll {
    loop.guard where (%i < %b + 1) {
      %in = loop.load %r[%i] : memref<4xf32, #tile.memory<register>>
      %e = math.exp %in : f32
      loop.store %e, %y[%i] : memref<4xf32>
    }
  }
}

// -----

// Without conditions nvcc sees what is computed twice.
// CHECK-LABEL: kernel.func @plain
// CHECK-COUNT-2: math.exp
kernel.func @plain(%y: memref<4xf32>, %x: memref<4xf32>) blocks(%b = 8) threads(%t = 1) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  loop.for %p = 0 to 4 unroll {
    kernel.move 1 %x[%p] to %r[%p] : memref<4xf32> to memref<4xf32, #tile.memory<register>>
  }
  loop.for %i = 0 to 4 unroll {
    %in = loop.load %r[%i] : memref<4xf32, #tile.memory<register>>
    %e = math.exp %in : f32
    loop.store %e, %y[%i] : memref<4xf32>
  }
  loop.for %i = 0 to 4 unroll {
    %in = loop.load %r[%i] : memref<4xf32, #tile.memory<register>>
    %e = math.exp %in : f32
    loop.store %e, %y[%i] : memref<4xf32>
  }
}
