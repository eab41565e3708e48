// RUN: deplodock-opt %s -p 'tileify,stream-tile{m=16 n=16},canonicalize,cse' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'tileify,split-stream{s=2 unit=16},stream-tile{m=16 n=16},canonicalize,cse' --check-semantics -o /dev/null

// The last step has 16 keys, of which the row has 5: reads of what is added to their scores give 0 beyond it.
// CHECK-LABEL: func.func @masks
// CHECK:         loop.load padded %bias[%{{.*}}, %i] : memref<5x21xf32>
// CHECK:         loop.load padded %seen[%i] : memref<21xi1>
// CHECK:         loop.inside where (%i < 21)
func.func @masks(%q: memref<5x8xf32>, %k: memref<21x8xf32>, %v: memref<21x8xf32>, %bias: memref<5x21xf32>, %seen: memref<21xi1>, %out: memref<5x8xf32>) {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  %hidden = arith.constant -100.0 : f32
  loop.for %m = 0 to 5 {
    loop.for %d = 0 to 8 {
      %max, %o = loop.reduce %i = 0 to 21 : f32, f32 {
        %s = loop.reduce {arith.addf} %e = 0 to 8 : f32 {
          %a = loop.load %q[%m, %e] : memref<5x8xf32>
          %b = loop.load %k[%i, %e] : memref<21x8xf32>
          %ab = arith.mulf %a, %b : f32
          loop.yield %ab : f32
        }
        %added = loop.load %bias[%m, %i] : memref<5x21xf32>
        %biased = arith.addf %s, %added : f32
        %is_seen = loop.load %seen[%i] : memref<21xi1>
        %score = arith.select %is_seen, %biased, %hidden : f32
        %c = loop.load %v[%i, %d] : memref<21x8xf32>
        loop.yield %score, %c : f32, f32
      } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
        %top = arith.maximumf %m0, %m1 : f32
        %above = arith.maximumf %top, %low : f32
        %within = arith.minimumf %above, %high : f32
        %d0 = arith.subf %m0, %within : f32
        %w0 = math.exp %d0 : f32
        %d1 = arith.subf %m1, %within : f32
        %w1 = math.exp %d1 : f32
        %b0 = arith.mulf %o0, %w0 fastmath<nnan,nsz> : f32
        %b1 = arith.mulf %o1, %w1 fastmath<nnan,nsz> : f32
        %r = arith.addf %b0, %b1 : f32
        loop.yield %top, %r : f32, f32
      }
      loop.store %o, %out[%m, %d] : memref<5x8xf32>
    }
  }
  func.return
}
