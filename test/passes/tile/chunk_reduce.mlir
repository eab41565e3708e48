// RUN: deplodock-opt %s -p 'chunk-reduce{size=8}' --split-input-file --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'chunk-reduce{size=8}' --split-input-file -o %t.once.mlir 2>/dev/null
// RUN: not deplodock-opt %t.once.mlir -p 'chunk-reduce{size=8}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'chunk-reduce{size=-1}' --split-input-file 2>&1 | filecheck %s --check-prefix NEGATIVE

// TWICE: applies to no kernel: @distance: every loop fits its chunk, or runs in chunks already
// NEGATIVE: the option size must be a positive integer, got -1

// CHECK-LABEL: func.func @distance
// CHECK:         %[[ACC:.*]] = loop.reduce {arith.addf} %[[KO:.*]] = 0 to 5 : f32 {
// CHECK-NEXT:      %[[PART:.*]] = loop.reduce {arith.addf} %[[KI:.*]] = 0 to 8 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[KO]] * 8 + %[[KI]]]
// CHECK-NEXT:        loop.where %[[K]] < 37
// CHECK:           loop.yield %[[PART]] : f32
// CHECK:         loop.store %[[ACC]], %out
func.func @distance(%x: memref<8x37xf32>, %w: memref<4x37xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 37 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x37xf32>
      %b = loop.load %w[%n, %k] : memref<4x37xf32>
      %d = arith.subf %a, %b : f32
      %p = arith.mulf %d, %d : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// -----

// A reduction with several values keeps its combiner; one that fits a chunk stays whole.
// CHECK-LABEL: func.func @statistics
// CHECK:         loop.reduce {arith.addf} %{{.*}} = 0 to 4 : f32 {
// CHECK-NOT:     loop.reduce {arith.addf}
// CHECK:         %sum, %max = loop.reduce {arith.addf, arith.maximumf} %{{.*}} = 0 to 2 : f32, f32 {
// CHECK-NEXT:      %[[S:.*]], %[[M:.*]] = loop.reduce {arith.addf, arith.maximumf} %{{.*}} = 0 to 8 : f32, f32 {
// CHECK:           loop.yield %[[S]], %[[M]] : f32, f32
func.func @statistics(%x: memref<8x16xf32>, %sums: memref<8xf32>, %maxima: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %head = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x16xf32>
      loop.yield %a : f32
    }
    %sum, %max = loop.reduce {arith.addf, arith.maximumf} %k = 0 to 16 : f32, f32 {
      %a = loop.load %x[%m, %k] : memref<8x16xf32>
      loop.yield %a, %a : f32, f32
    }
    %s = arith.addf %sum, %head : f32
    loop.store %s, %sums[%m] : memref<8xf32>
    loop.store %max, %maxima[%m] : memref<8xf32>
  }
  func.return
}

// -----

// SKIP: chunk_reduce skipped at @matmul: the reduction is a contraction; chunk-matmul-k divides those
func.func @matmul(%x: memref<8x32xf32>, %w: memref<4x32xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x32xf32>
      %b = loop.load %w[%n, %k] : memref<4x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}

// SKIP: chunk_reduce skipped at @pointwise: no reduction stands in the launch
func.func @pointwise(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %a = loop.load %x[%m] : memref<8xf32>
    loop.store %a, %out[%m] : memref<8xf32>
  }
  func.return
}

// SKIP: chunk_reduce skipped at @loops: no launch; run tileify first
func.func @loops(%x: memref<8xf32>, %out: memref<8xf32>) {
  loop.for %m = 0 to 8 {
    %a = loop.load %x[%m] : memref<8xf32>
    loop.store %a, %out[%m] : memref<8xf32>
  }
  func.return
}

func.func @taken(%x: memref<8x37xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 37 : f32 {
      %a = loop.load %x[%m, %k] : memref<8x37xf32>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// All loops over a row run in chunks, and of several loops the innermost.
// CHECK-LABEL: func.func @rows
// CHECK:         loop.reduce {arith.addf} %{{.*}} = 0 to 4 : f32 {
// CHECK-NEXT:      loop.reduce {arith.addf} %{{.*}} = 0 to 2 : f32 {
// CHECK-NEXT:        loop.reduce {arith.addf} %{{.*}} = 0 to 8 : f32 {
// CHECK:         loop.for %[[IO:.*]] = 0 to 8 {
// CHECK-NEXT:      loop.for %[[II:.*]] = 0 to 8 {
// CHECK-NEXT:        %[[I:.*]] = loop.index [%[[IO]] * 8 + %[[II]]]
func.func @rows(%x: memref<8x4x16xf32>, %y: memref<64xf32>, %out: memref<8x64xf32>) {
  tile.launch (%m = 8 : thread) {
    %sum = loop.reduce {arith.addf} %j = 0 to 4 : f32 {
      %part = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%m, %j, %k] : memref<8x4x16xf32>
        loop.yield %a : f32
      }
      loop.yield %part : f32
    }
    loop.for %i = 0 to 64 {
      %b = loop.load %y[%i] : memref<64xf32>
      %p = arith.mulf %b, %sum : f32
      loop.store %p, %out[%m, %i] : memref<8x64xf32>
    }
  }
  func.return
}
