// RUN: deplodock-opt %s -p 'stream-reductions{rows=all}' --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p 'stream-reductions{rows=all},stream-reductions{rows=all}' --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p 'stream-reductions{rows=all}' --check-semantics --split-input-file -o /dev/null
// RUN: deplodock-opt %s -p stream-reductions --split-input-file 2>%t.skips | filecheck %s --check-prefix LONG
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: not deplodock-opt %s -p 'stream-reductions{rows=some}' --split-input-file 2>&1 | filecheck %s --check-prefix BAD
// BAD: the option rows must be long or all, got some

// The maximum and the sum of a softmax come out of one loop; what made infinities special makes them so afterwards.
// LONG-LABEL: func.func @softmax
// LONG: loop.reduce {arith.maximumf}
// SKIP: skipped at @softmax: a row of %max stays on chip between its loops; rows=all streams it, too
// CHECK-LABEL: func.func @softmax
// CHECK:           %max, %sum = loop.reduce %[[I:.*]] = 0 to 100 : f32, f32 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %x[%{{.*}}, %[[I]]]
// CHECK-NEXT:        loop.yield %[[A]], %[[ONE:.*]] : f32, f32
// CHECK-NEXT:      } combine (%[[M:.*]]: f32, %[[S:.*]]: f32, %[[N:.*]]: f32, %[[T:.*]]: f32) identity [0xff800000 : f32, 0.000000e+00 : f32] {
// CHECK-NEXT:        %[[MAX:.*]] = arith.maximumf %[[M]], %[[N]] : f32
// CHECK-NEXT:        %[[LOW:.*]] = arith.maximumf %[[MAX]], %{{.*}} : f32
// CHECK-NEXT:        %[[IN:.*]] = arith.minimumf %[[LOW]], %{{.*}} : f32
// CHECK-NEXT:        %[[D0:.*]] = arith.subf %[[M]], %[[IN]] : f32
// CHECK-NEXT:        %[[W0:.*]] = math.exp %[[D0]] : f32
// CHECK-NEXT:        %[[D1:.*]] = arith.subf %[[N]], %[[IN]] : f32
// CHECK-NEXT:        %[[W1:.*]] = math.exp %[[D1]] : f32
// CHECK-NEXT:        %[[S0:.*]] = arith.mulf %[[S]], %[[W0]] : f32
// CHECK-NEXT:        %[[S1:.*]] = arith.mulf %[[T]], %[[W1]] : f32
// CHECK-NEXT:        %[[SUM:.*]] = arith.addf %[[S0]], %[[S1]] : f32
// CHECK-NEXT:        loop.yield %[[MAX]], %[[SUM]] : f32, f32
// CHECK:           %[[Z:.*]] = arith.subf %max, %max : f32
// CHECK-NEXT:      %scale = math.exp %[[Z]] fastmath<reassoc> : f32
// CHECK-NEXT:      %[[TOTAL:.*]] = arith.mulf %sum, %scale : f32
// CHECK-NEXT:      loop.for
// CHECK:             arith.divf %{{.*}}, %[[TOTAL]]
func.func @softmax(%x: memref<8x100xf32>, %out: memref<8x100xf32>) {
  loop.for %q = 0 to 8 {
    %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f32 {
      %a = loop.load %x[%q, %i] : memref<8x100xf32>
      loop.yield %a : f32
    }
    %sum = loop.reduce {arith.addf} %j = 0 to 100 : f32 {
      %a = loop.load %x[%q, %j] : memref<8x100xf32>
      %shifted = arith.subf %a, %max : f32
      %e = math.exp %shifted fastmath<reassoc> : f32
      loop.yield %e : f32
    }
    loop.for %k = 0 to 100 {
      %a = loop.load %x[%q, %k] : memref<8x100xf32>
      %shifted = arith.subf %a, %max : f32
      %e = math.exp %shifted fastmath<reassoc> : f32
      %p = arith.divf %e, %sum fastmath<reassoc> : f32
      loop.store %p, %out[%q, %k] : memref<8x100xf32>
    }
  }
  func.return
}

// -----

// Scores that are sums are computed once, whatever the row's length; the sum is divided once, at its end.
// LONG-LABEL: func.func @attention
// LONG: loop.reduce %{{.*}} = 0 to 64 : f32, f32, f32 {
// CHECK-LABEL: func.func @attention
// CHECK:         loop.for %m = 0 to 8 {
// CHECK-NEXT:      loop.for %[[D:.*]] = 0 to 8 {
// CHECK-NEXT:        %max, %sum, %o = loop.reduce %[[N:.*]] = 0 to 64 : f32, f32, f32 {
// CHECK-NEXT:          %[[S:.*]] = loop.reduce {arith.addf} %{{.*}} = 0 to 16 : f32 {
// CHECK:               %[[V:.*]] = loop.load %v[%[[N]], %[[D]]]
// CHECK-NEXT:          loop.yield %[[S]], %{{.*}}, %[[V]] : f32, f32, f32
// CHECK-NOT:         loop.reduce
// CHECK:             %[[O:.*]] = arith.mulf %o, %scale_1 : f32
// CHECK-NEXT:        %[[Q:.*]] = arith.divf %[[O]], %{{.*}} fastmath<reassoc> : f32
// CHECK-NEXT:        loop.store %[[Q]], %out
func.func @attention(%q: memref<8x16xf32>, %k: memref<64x16xf32>, %v: memref<64x8xf32>, %out: memref<8x8xf32>) {
  loop.for %m = 0 to 8 {
    %max = loop.reduce {arith.maximumf} %n = 0 to 64 : f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 16 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x16xf32>
        %b = loop.load %k[%n, %e] : memref<64x16xf32>
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      loop.yield %s : f32
    }
    %sum = loop.reduce {arith.addf} %n = 0 to 64 : f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 16 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x16xf32>
        %b = loop.load %k[%n, %e] : memref<64x16xf32>
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %shifted = arith.subf %s, %max : f32
      %p = math.exp %shifted fastmath<reassoc> : f32
      loop.yield %p : f32
    }
    loop.for %d = 0 to 8 {
      %o = loop.reduce {arith.addf} %n = 0 to 64 : f32 {
        %s = loop.reduce {arith.addf} %e = 0 to 16 : f32 {
          %a = loop.load %q[%m, %e] : memref<8x16xf32>
          %b = loop.load %k[%n, %e] : memref<64x16xf32>
          %ab = arith.mulf %a, %b : f32
          loop.yield %ab : f32
        }
        %shifted = arith.subf %s, %max : f32
        %p = math.exp %shifted fastmath<reassoc> : f32
        %share = arith.divf %p, %sum fastmath<reassoc> : f32
        %c = loop.load %v[%n, %d] : memref<64x8xf32>
        %pc = arith.mulf %share, %c : f32
        loop.yield %pc : f32
      }
      loop.store %o, %out[%m, %d] : memref<8x8xf32>
    }
  }
  func.return
}

// -----

// Without the licence each weight is rounded by itself.
// SKIP: skipped at @strict: an exponential or a quotient in %sum is not fastmath<reassoc>
func.func @strict(%x: memref<100xf32>, %out: memref<1xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f32 {
    %a = loop.load %x[%i] : memref<100xf32>
    loop.yield %a : f32
  }
  %sum = loop.reduce {arith.addf} %j = 0 to 100 : f32 {
    %a = loop.load %x[%j] : memref<100xf32>
    %shifted = arith.subf %a, %max : f32
    %e = math.exp %shifted : f32
    loop.yield %e : f32
  }
  loop.store %sum, %out[0] : memref<1xf32>
  func.return
}

// -----

// A sum whose factor needs the maximum needs a loop of its own.
// SKIP: skipped at @factor: the factor of %sum needs what is streamed
func.func @factor(%x: memref<100000xf32>, %out: memref<1xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100000 : f32 {
    %a = loop.load %x[%i] : memref<100000xf32>
    loop.yield %a : f32
  }
  %sum = loop.reduce {arith.addf} %j = 0 to 100000 : f32 {
    %a = loop.load %x[%j] : memref<100000xf32>
    %shifted = arith.subf %a, %max : f32
    %e = math.exp %shifted fastmath<reassoc> : f32
    %w = arith.mulf %e, %shifted : f32
    loop.yield %w : f32
  }
  loop.store %sum, %out[0] : memref<1xf32>
  func.return
}

// -----

// What stands between the loops and is stored there would have to wait for the inner one.
// SKIP: skipped at @stored: loop.store needs what is streamed outside of the loops around %o
func.func @stored(%x: memref<100000xf32>, %v: memref<100000x8xf32>, %out: memref<8xf32>, %top: memref<1xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100000 : f32 {
    %a = loop.load %x[%i] : memref<100000xf32>
    loop.yield %a : f32
  }
  loop.store %max, %top[0] : memref<1xf32>
  loop.for %d = 0 to 8 {
    %o = loop.reduce {arith.addf} %j = 0 to 100000 : f32 {
      %a = loop.load %x[%j] : memref<100000xf32>
      %shifted = arith.subf %a, %max : f32
      %e = math.exp %shifted fastmath<reassoc> : f32
      %c = loop.load %v[%j, %d] : memref<100000x8xf32>
      %w = arith.mulf %e, %c : f32
      loop.yield %w : f32
    }
    loop.store %o, %out[%d] : memref<8xf32>
  }
  func.return
}
