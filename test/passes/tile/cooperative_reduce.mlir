// RUN: deplodock-opt %s -p tileify,cooperative-reduce -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP
// RUN: deplodock-opt %s -p tileify,cooperative-reduce --split-input-file --check-semantics
// RUN: deplodock-opt %s -p tileify,cooperative-reduce,cooperative-reduce | diff - %t.once
// RUN: not deplodock-opt %s -p 'tileify,cooperative-reduce{keep=some}' 2>&1 | filecheck %s --check-prefix=WORD
// RUN: not deplodock-opt %s -p 'cooperative-reduce{threads=32}' 2>&1 | filecheck %s --check-prefix=NONE

// SKIP:      cooperative_reduce skipped at @free: no reduction or scan stands in the launch
// SKIP-NEXT: cooperative_reduce skipped at @ragged: the bound of the loop over %k is not constant
// SKIP-NEXT: cooperative_reduce skipped at @prefix: the bound of the loop over %k varies along the row, so the registers of a thread cannot run it together; give vector=1 and keep=loops
// SKIP-NEXT: cooperative_reduce skipped at @exchanged: %x is written and read in the launch, and another thread may be the one to read
// SKIP-NEXT: cooperative_reduce skipped at @empty: keep=axes: the rows have no elements, so no point of the axes would be left to write their results
// SKIP-NEXT: cooperative_reduce skipped at @unlike: keep=axes needs row loops of one extent, got 8, 4
// WORD:    error: pass 'cooperative-reduce{keep="some"}': the option keep must be loops or axes, got some
// NONE:    error: cooperative-reduce{threads=32} applies to no kernel: @loops: no launch; run tileify first; @partial

// Each thread keeps a strided loop over its vectors; the reductions are combined.
// CHECK-LABEL: func.func @loops(%x: memref<6x64xf32>, %out: memref<6x64xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 vector=4}"} {
// CHECK-NEXT:    tile.launch (%[[ROW:.*]] = 6 : thread, %[[T:.*]] = 8 : thread, %[[V:.*]] = 4 : register) {
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[I:.*]] = 0 to 2 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[I]] * 32 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:        %[[V_1:.*]] = loop.load %x[%[[ROW]], %[[K]]] : memref<6x64xf32>
// CHECK-NEXT:        loop.yield %[[V_1]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[SUM_1:.*]] = tile.combine {arith.addf} %[[SUM]] over (%[[T]], %[[V]]) : f32
// CHECK-NEXT:      loop.for %[[I_1:.*]] = 0 to 2 {
// CHECK-NEXT:        %[[J:.*]] = loop.index [%[[I_1]] * 32 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:        %[[V_2:.*]] = loop.load %x[%[[ROW]], %[[J]]] : memref<6x64xf32>
// CHECK-NEXT:        %[[Y:.*]] = arith.mulf %[[V_2]], %[[SUM_1]] : f32
// CHECK-NEXT:        loop.store %[[Y]], %out[%[[ROW]], %[[J]]] : memref<6x64xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @loops(%x: memref<6x64xf32>, %out: memref<6x64xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 vector=4}"} {
  loop.for %row = 0 to 6 {
    %sum = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %v = loop.load %x[%row, %k] : memref<6x64xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%row, %j] : memref<6x64xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%row, %j] : memref<6x64xf32>
    }
  }
  func.return
}

// -----

// What the threads and vectors do not divide is inactive.
// CHECK-LABEL: func.func @partial(%x: memref<6x50xf32>, %out: memref<6x50xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 vector=4}"} {
// CHECK-NEXT:    tile.launch (%[[ROW:.*]] = 6 : thread, %[[T:.*]] = 8 : thread, %[[V:.*]] = 4 : register) {
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[I:.*]] = 0 to 2 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[I]] * 32 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:        loop.where %[[K]] < 50
// CHECK-NEXT:        %[[V_1:.*]] = loop.load %x[%[[ROW]], %[[K]]] : memref<6x50xf32>
// CHECK-NEXT:        loop.yield %[[V_1]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[SUM_1:.*]] = tile.combine {arith.addf} %[[SUM]] over (%[[T]], %[[V]]) : f32
// CHECK-NEXT:      loop.for %[[I_1:.*]] = 0 to 2 {
// CHECK-NEXT:        %[[J:.*]] = loop.index [%[[I_1]] * 32 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:        loop.where %[[J]] < 50
// CHECK-NEXT:        %[[V_2:.*]] = loop.load %x[%[[ROW]], %[[J]]] : memref<6x50xf32>
// CHECK-NEXT:        %[[Y:.*]] = arith.mulf %[[V_2]], %[[SUM_1]] : f32
// CHECK-NEXT:        loop.store %[[Y]], %out[%[[ROW]], %[[J]]] : memref<6x50xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @partial(%x: memref<6x50xf32>, %out: memref<6x50xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 vector=4}"} {
  loop.for %row = 0 to 6 {
    %sum = loop.reduce {arith.addf} %k = 0 to 50 : f32 {
      %v = loop.load %x[%row, %k] : memref<6x50xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 50 {
      %v = loop.load %x[%row, %j] : memref<6x50xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%row, %j] : memref<6x50xf32>
    }
  }
  func.return
}

// -----

// keep=axes leaves no loop: the strides of the row are a register axis.
// CHECK-LABEL: func.func @axes(%x: memref<6x50xf32>, %out: memref<6x50xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 vector=4 keep=axes}"} {
// CHECK-NEXT:    tile.launch (%[[ROW:.*]] = 6 : thread, %[[I:.*]] = 2 : register, %[[T:.*]] = 8 : thread, %[[V:.*]] = 4 : register) {
// CHECK-NEXT:      %[[K:.*]] = loop.index [%[[I]] * 32 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:      loop.where %[[K]] < 50
// CHECK-NEXT:      %[[V_1:.*]] = loop.load %x[%[[ROW]], %[[K]]] : memref<6x50xf32>
// CHECK-NEXT:      %[[SUM:.*]] = tile.combine {arith.addf} %[[V_1]] over (%[[I]], %[[T]], %[[V]]) : f32
// CHECK-NEXT:      %[[V_2:.*]] = loop.load %x[%[[ROW]], %[[K]]] : memref<6x50xf32>
// CHECK-NEXT:      %[[Y:.*]] = arith.mulf %[[V_2]], %[[SUM]] : f32
// CHECK-NEXT:      loop.store %[[Y]], %out[%[[ROW]], %[[K]]] : memref<6x50xf32>
// CHECK-NEXT:    }
func.func @axes(%x: memref<6x50xf32>, %out: memref<6x50xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 vector=4 keep=axes}"} {
  loop.for %row = 0 to 6 {
    %sum = loop.reduce {arith.addf} %k = 0 to 50 : f32 {
      %v = loop.load %x[%row, %k] : memref<6x50xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 50 {
      %v = loop.load %x[%row, %j] : memref<6x50xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%row, %j] : memref<6x50xf32>
    }
  }
  func.return
}

// -----

// A kernel without a reduction.
// CHECK-LABEL: func.func @free
func.func @free(%x: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8}"} {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 6 {
    loop.store %one, %x[%i] : memref<6xf32>
  }
  func.return
}

// -----

// Threads may share the sums of a contraction, too.
// CHECK-LABEL: func.func @contraction
// CHECK:         tile.launch (%m = 5 : thread, %n = 7 : thread, %[[T:.*]] = 8 : thread) {
// CHECK:           tile.combine {arith.addf} %{{.*}} over (%[[T]]) : f32
func.func @contraction(%x: memref<5x8xf32>, %w: memref<8x7xf32>, %out: memref<5x7xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8}"} {
  loop.for %m = 0 to 5 {
    loop.for %n = 0 to 7 {
      %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
        %a = loop.load %x[%m, %k] : memref<5x8xf32>
        %b = loop.load %w[%k, %n] : memref<8x7xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<5x7xf32>
    }
  }
  func.return
}

// -----

// A bound that is not constant.
// CHECK-LABEL: func.func @ragged
func.func @ragged(%x: memref<6x6xf32>, %out: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8}"} {
  loop.for %i = 0 to 6 {
    %sum = loop.reduce {arith.addf} %k = 0 to %i + 1 : f32 {
      %v = loop.load %x[%i, %k] : memref<6x6xf32>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<6xf32>
  }
  func.return
}

// -----

// The registers of one thread cannot run loops of different lengths together.
// CHECK-LABEL: func.func @prefix
func.func @prefix(%x: memref<6x8xf32>, %out: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=4 vector=2}"} {
  loop.for %i = 0 to 6 {
    %max = loop.reduce {arith.maximumf} %j = 0 to 8 : f32 {
      %sum = loop.reduce {arith.addf} %k = 0 to %j + 1 : f32 {
        %v = loop.load %x[%i, %k] : memref<6x8xf32>
        loop.yield %v : f32
      }
      loop.yield %sum : f32
    }
    loop.store %max, %out[%i] : memref<6xf32>
  }
  func.return
}

// -----

// Threads do not pass values through global memory.
// CHECK-LABEL: func.func @exchanged
func.func @exchanged(%x: memref<6x8xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=4}"} {
  loop.for %i = 0 to 6 {
    %sum = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %v = loop.load %x[%i, %k] : memref<6x8xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 8 {
      loop.store %sum, %x[%i, %j] : memref<6x8xf32>
    }
  }
  func.return
}

// -----

// Rows of no elements have a sum all the same.
// CHECK-LABEL: func.func @empty
func.func @empty(%x: memref<6x0xf32>, %out: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=4 keep=axes}"} {
  loop.for %i = 0 to 6 {
    %sum = loop.reduce {arith.addf} %k = 0 to 0 : f32 {
      %v = loop.load %x[%i, %k] : memref<6x0xf32>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<6xf32>
  }
  func.return
}

// -----

// Loops of different extents cannot become one axis.
// CHECK-LABEL: func.func @unlike
func.func @unlike(%x: memref<6x8xf32>, %y: memref<6x4xf32>, %out: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=4 keep=axes}"} {
  loop.for %i = 0 to 6 {
    %a = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %v = loop.load %x[%i, %k] : memref<6x8xf32>
      loop.yield %v : f32
    }
    %b = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %v = loop.load %y[%i, %k] : memref<6x4xf32>
      loop.yield %v : f32
    }
    %c = arith.addf %a, %b : f32
    loop.store %c, %out[%i] : memref<6xf32>
  }
  func.return
}

// -----

// Results with a combiner of their own are combined together.
// CHECK-LABEL: func.func @statistics(%x: memref<6x64xf32>, %sums: memref<6xf32>, %maxima: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8}"} {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 6 : thread, %[[T:.*]] = 8 : thread) {
// CHECK-NEXT:      %[[S:.*]], %[[M:.*]] = loop.reduce %[[I_1:.*]] = 0 to 8 : f32, f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[I_1]] * 8 + %[[T]]]
// CHECK-NEXT:        %[[V:.*]] = loop.load %x[%[[I]], %[[K]]] : memref<6x64xf32>
// CHECK-NEXT:        loop.yield %[[V]], %[[V]] : f32, f32
// CHECK-NEXT:      } combine (%[[S0:.*]]: f32, %[[M0:.*]]: f32, %[[S1:.*]]: f32, %[[M1:.*]]: f32) identity [0.000000e+00 : f32, 0xff800000 : f32] {
// CHECK-NEXT:        %[[T_1:.*]] = arith.addf %[[S0]], %[[S1]] : f32
// CHECK-NEXT:        %[[N:.*]] = arith.maximumf %[[M1]], %[[M0]] : f32
// CHECK-NEXT:        loop.yield %[[T_1]], %[[N]] : f32, f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[S_1:.*]], %[[M_1:.*]] = tile.combine %[[S]], %[[M]] over (%[[T]]) : f32, f32 combine (%[[S0_1:.*]]: f32, %[[M0_1:.*]]: f32, %[[S1_1:.*]]: f32, %[[M1_1:.*]]: f32) identity [0.000000e+00 : f32, 0xff800000 : f32] {
// CHECK-NEXT:        %[[T_2:.*]] = arith.addf %[[S0_1]], %[[S1_1]] : f32
// CHECK-NEXT:        %[[N_1:.*]] = arith.maximumf %[[M1_1]], %[[M0_1]] : f32
// CHECK-NEXT:        loop.yield %[[T_2]], %[[N_1]] : f32, f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.store %[[S_1]], %sums[%[[I]]] : memref<6xf32>
// CHECK-NEXT:      loop.store %[[M_1]], %maxima[%[[I]]] : memref<6xf32>
// CHECK-NEXT:    }
func.func @statistics(%x: memref<6x64xf32>, %sums: memref<6xf32>, %maxima: memref<6xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8}"} {
  loop.for %i = 0 to 6 {
    %s, %m = loop.reduce %k = 0 to 64 : f32, f32 {
      %v = loop.load %x[%i, %k] : memref<6x64xf32>
      loop.yield %v, %v : f32, f32
    } combine (%s0: f32, %m0: f32, %s1: f32, %m1: f32) identity [0.0 : f32, 0xff800000 : f32] {
      %t = arith.addf %s0, %s1 : f32
      %n = arith.maximumf %m1, %m0 : f32
      loop.yield %t, %n : f32, f32
    }
    loop.store %s, %sums[%i] : memref<6xf32>
    loop.store %m, %maxima[%i] : memref<6xf32>
  }
  func.return
}
