// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// A reduction is a loop over an accumulator in a register.
// CHECK-LABEL: kernel.func @sum(%x: memref<8x100xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[K:.*]] = 0 to 100 {
// CHECK-NEXT:      %[[A:.*]] = loop.load %x[%[[T]], %[[K]]] : memref<8x100xf32>
// CHECK-NEXT:      %[[C1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C2:.*]] = arith.addf %[[C1]], %[[A]] : f32
// CHECK-NEXT:      loop.store %[[C2]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.store %[[S_1]], %out[%[[T]]] : memref<8xf32>
// CHECK-LABEL: func.func @run_sum(%x: memref<8x100xf32>, %out: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @sum(%x, %out) : memref<8x100xf32>, memref<8xf32>
func.func @sum(%x: memref<8x100xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %s = loop.reduce {arith.addf} %k = 0 to 100 : f32 {
      %a = loop.load %x[%t, %k] : memref<8x100xf32>
      loop.yield %a : f32
    }
    loop.store %s, %out[%t] : memref<8xf32>
  }
  func.return
}

// -----

// Beyond the end a contribution is the identity, where nothing else makes it so.
// CHECK-LABEL: kernel.func @select(%x: memref<8x100xf32>, %out: memref<8x32xf32>) blocks(%block = 8) threads(%thread = 32) {
// CHECK-NEXT:    %[[B:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[I:.*]] = 0 to 4 {
// CHECK-NEXT:      %[[A:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 1 %x[%[[B]], %[[I]] * 32 + %[[T]]] to %[[A]][] where (%[[I]] * 32 + %[[T]] < 100) : memref<8x100xf32> to memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[A_1:.*]] = loop.load %[[A]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C1:.*]] = loop.inside where (%[[I]] * 32 + %[[T]] < 100)
// CHECK-NEXT:      %[[C2:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:      %[[C3:.*]] = arith.select %[[C1]], %[[A_1]], %[[C2]] : f32
// CHECK-NEXT:      %[[C4:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C5:.*]] = arith.maximumf %[[C4]], %[[C3]] : f32
// CHECK-NEXT:      loop.store %[[C5]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.store %[[S_1]], %out[%[[B]], %[[T]]] : memref<8x32xf32>
// CHECK-LABEL: func.func @run_select(%x: memref<8x100xf32>, %out: memref<8x32xf32>) {
// CHECK-NEXT:    kernel.launch @select(%x, %out) : memref<8x100xf32>, memref<8x32xf32>
func.func @select(%x: memref<8x100xf32>, %out: memref<8x32xf32>) {
  tile.launch (%b = 8 : block, %t = 32 : thread) {
    %s = loop.reduce {arith.maximumf} %i = 0 to 4 : f32 {
      %k = loop.index [%i * 32 + %t]
      loop.where %k < 100
      %a = loop.load %x[%b, %k] : memref<8x100xf32>
      loop.yield %a : f32
    }
    loop.store %s, %out[%b, %t] : memref<8x32xf32>
  }
  func.return
}

// -----

// A condition that all threads share is a branch.
// CHECK-LABEL: kernel.func @branch(%x: memref<8x100xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[O:.*]] = 0 to 4 {
// CHECK-NEXT:      loop.for %[[I:.*]] = 0 to 32 {
// CHECK-NEXT:        loop.guard where (%[[O]] * 32 + %[[I]] < 100) {
// CHECK-NEXT:          %[[A:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:          kernel.move 1 %x[%[[T]], %[[O]] * 32 + %[[I]]] to %[[A]][] where (%[[O]] * 32 + %[[I]] < 100) : memref<8x100xf32> to memref<f32, #tile.memory<register>>
// CHECK-NEXT:          %[[A_1:.*]] = loop.load %[[A]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:          %[[C1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:          %[[C2:.*]] = arith.maximumf %[[C1]], %[[A_1]] : f32
// CHECK-NEXT:          loop.store %[[C2]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        }
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.store %[[S_1]], %out[%[[T]]] : memref<8xf32>
// CHECK-LABEL: func.func @run_branch(%x: memref<8x100xf32>, %out: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @branch(%x, %out) : memref<8x100xf32>, memref<8xf32>
func.func @branch(%x: memref<8x100xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %s = loop.reduce {arith.maximumf} %o = 0 to 4 : f32 {
      %r = loop.reduce {arith.maximumf} %i = 0 to 32 : f32 {
        %k = loop.index [%o * 32 + %i]
        loop.where %k < 100
        %a = loop.load %x[%t, %k] : memref<8x100xf32>
        loop.yield %a : f32
      }
      loop.yield %r : f32
    }
    loop.store %s, %out[%t] : memref<8xf32>
  }
  func.return
}

// -----

// A condition that varies over the CTA is a branch, too, as far as it fails for all threads at once.
// CHECK-LABEL: kernel.func @masked(
// CHECK:           %[[B:.*]] = loop.index [%block]
// CHECK:           loop.for %[[I:.*]] = 0 to 4 {
// CHECK-NEXT:        loop.guard where (%[[I]] * 32 < %[[B]] + 1) {
// CHECK:               loop.inside where (%[[I]] * 32 + %{{.*}} < %[[B]] + 1)
func.func @masked(%x: memref<100x128xf32>, %out: memref<100xf32>) {
  tile.launch (%b = 100 : block, %t = 32 : thread) {
    %s = loop.reduce {arith.addf} %i = 0 to 4 : f32 {
      %k = loop.index [%i * 32 + %t]
      loop.where %k < %b + 1
      %a = loop.load %x[%b, %k] : memref<100x128xf32>
      loop.yield %a : f32
    }
    %all = tile.combine {arith.addf} %s over (%t) : f32
    loop.store %all, %out[%b] : memref<100xf32>
  }
  func.return
}

// -----

// A reduction over register values has an accumulator for each; its loop stays outside.
// CHECK-LABEL: kernel.func @registers(%x: memref<100x64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 16) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loop.store %[[C0]], %[[S]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %[[K:.*]] = 0 to 100 {
// CHECK-NEXT:      %[[A:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 4 %x[%[[K]], %[[T]] * 4] to %[[A]][0] : memref<100x64xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      loop.for %[[V_1:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        %[[A_1:.*]] = loop.load %[[A]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:        %[[B:.*]] = arith.mulf %[[A_1]], %[[A_1]] : f32
// CHECK-NEXT:        %[[C1:.*]] = loop.load %[[S]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:        %[[C2:.*]] = arith.addf %[[C1]], %[[B]] : f32
// CHECK-NEXT:        loop.store %[[C2]], %[[S]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    kernel.move 4 %[[S]][0] to %out[%[[T]] * 4] : memref<4xf32, #tile.memory<register>> to memref<64xf32>
// CHECK-LABEL: func.func @run_registers(%x: memref<100x64xf32>, %out: memref<64xf32>) {
// CHECK-NEXT:    kernel.launch @registers(%x, %out) : memref<100x64xf32>, memref<64xf32>
func.func @registers(%x: memref<100x64xf32>, %out: memref<64xf32>) {
  tile.launch (%t = 16 : thread, %v = 4 : register) {
    %s = loop.reduce {arith.addf} %k = 0 to 100 : f32 {
      %a = loop.load %x[%k, %t * 4 + %v] : memref<100x64xf32>
      %b = arith.mulf %a, %a : f32
      loop.yield %b : f32
    }
    loop.store %s, %out[%t * 4 + %v] : memref<64xf32>
  }
  func.return
}

// -----

// Several results with a combiner of their own.
// CHECK-LABEL: kernel.func @statistics(%x: memref<8x100xf32>, %sums: memref<8xf32>, %maxima: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[M:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C1:.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:    loop.store %[[C1]], %[[M]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[K:.*]] = 0 to 100 {
// CHECK-NEXT:      %[[A:.*]] = loop.load %x[%[[T]], %[[K]]] : memref<8x100xf32>
// CHECK-NEXT:      %[[C2:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C3:.*]] = loop.load %[[M]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[U:.*]] = arith.addf %[[C2]], %[[A]] : f32
// CHECK-NEXT:      %[[N:.*]] = arith.maximumf %[[C3]], %[[A]] : f32
// CHECK-NEXT:      loop.store %[[U]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      loop.store %[[N]], %[[M]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[M_1:.*]] = loop.load %[[M]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.store %[[S_1]], %sums[%[[T]]] : memref<8xf32>
// CHECK-NEXT:    loop.store %[[M_1]], %maxima[%[[T]]] : memref<8xf32>
// CHECK-LABEL: func.func @run_statistics(%x: memref<8x100xf32>, %sums: memref<8xf32>, %maxima: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @statistics(%x, %sums, %maxima) : memref<8x100xf32>, memref<8xf32>, memref<8xf32>
func.func @statistics(%x: memref<8x100xf32>, %sums: memref<8xf32>, %maxima: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %s, %m = loop.reduce %k = 0 to 100 : f32, f32 {
      %a = loop.load %x[%t, %k] : memref<8x100xf32>
      loop.yield %a, %a : f32, f32
    } combine (%s0: f32, %m0: f32, %s1: f32, %m1: f32) identity [0.0 : f32, 0xff800000 : f32] {
      %u = arith.addf %s0, %s1 : f32
      %n = arith.maximumf %m0, %m1 : f32
      loop.yield %u, %n : f32, f32
    }
    loop.store %s, %sums[%t] : memref<8xf32>
    loop.store %m, %maxima[%t] : memref<8xf32>
  }
  func.return
}

// -----

// A reduction before another has accumulators of its own, though the other yields its result.
// CHECK-LABEL: kernel.func @again(%x: memref<8x100xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK:         loop.for %{{.*}} = 0 to 100 {
// CHECK:         }
// CHECK-NEXT:    %[[R:.*]] = loop.load %{{.*}}[] : memref<f32, #tile.memory<register>>
// CHECK:         loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT:      %[[C1:.*]] = loop.load %[[S:.*]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C2:.*]] = arith.addf %[[C1]], %[[R]] : f32
// CHECK-NEXT:      loop.store %[[C2]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
func.func @again(%x: memref<8x100xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread) {
    %r = loop.reduce {arith.addf} %k = 0 to 100 : f32 {
      %a = loop.load %x[%t, %k] : memref<8x100xf32>
      loop.yield %a : f32
    }
    %s = loop.reduce {arith.addf} %i = 0 to 4 : f32 {
      loop.yield %r : f32
    }
    loop.store %s, %out[%t] : memref<8xf32>
  }
  func.return
}
