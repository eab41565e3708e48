// RUN: deplodock-opt %s -p 'tileify,split-stream{s=3 unit=8},canonicalize,cse' --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p 'split-stream{s=3 unit=8}' 2>/dev/null | filecheck %s
// RUN: deplodock-opt %t.once -p 'split-stream{s=3}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p tileify | sed 's/%d = 12 : thread/%d = 12 : block/' | not deplodock-opt -p 'split-stream{s=3}' 2>&1 | filecheck %s --check-prefix DIVIDED
// RUN: sed 's/%d = 0 to 12 {/&loop.where %d < 11/' %s | not deplodock-opt -p 'tileify,split-stream{s=3}' 2>&1 | filecheck %s --check-prefix INACTIVE
// RUN: not deplodock-opt %s -p 'tileify,split-stream{s=2 unit=64}' 2>&1 | filecheck %s --check-prefix SHORT
// RUN: deplodock-opt %s -p 'tileify,split-stream{s=3 unit=8},stream-tile{m=16 n=16 slices=1 lanes=16 side=8 features=2},canonicalize,cse' --check-semantics -o %t.shares && filecheck %s --input-file %t.shares --check-prefix SHARES
// RUN: deplodock-opt %t.shares -p materialize -o /dev/null

// Threads that share the sums of scores read the keys of all of them (%i_p_s); each then has a share of the scores.
// SHARES:        %s = loop.reduce
// SHARES:          loop.load %k_smem[%i_p_r * 16 + %i_p_s * 8 + %i_p_t, %{{.*}}]
// SHARES:        tile.combine {arith.addf} %s over (%e_t) at (%i_p_s = %i_p_l)

// TWICE: split_stream skipped at @attention: the row is shared by CTAs already
// DIVIDED: its points are divided already; split-stream runs behind tileify
// INACTIVE: some points of the launch are inactive, and leave no parts
// SHORT: a part of 64 elements is the whole row of 37

// Parts of 16 keys, the last of 5, leave what the reduction has of theirs; the second launch folds that, scaled
// to the largest maximum, and divides. What does not vary along the columns is stored once for all of them.
// CHECK-LABEL: func.func @attention
// CHECK-DAG:     %max_part = memref.alloc() : memref<3x2x5xf32>
// CHECK-DAG:     %o_part = memref.alloc() : memref<3x2x5x12xf32>
// CHECK:         tile.launch (%i_s = 3 : thread, %h = 2 : thread, %m = 5 : thread, %d = 12 : thread) {
// CHECK:           %max, %sum, %o = loop.reduce %i_p = 0 to 16 : f32, f32, f32 {
// CHECK-NEXT:        %i = loop.index [%i_s * 16 + %i_p]
// CHECK-NEXT:        loop.where %i < 37
// CHECK:             loop.load %k[%h floordiv 2, %i, %{{.*}}]
// CHECK:           loop.store %max, %max_part[%i_s, %h, %m]
// CHECK-NEXT:      loop.store %sum, %sum_part[%i_s, %h, %m]
// CHECK-NEXT:      loop.store %o, %o_part[%i_s, %h, %m, %d]
// CHECK-NEXT:    }
// CHECK:         tile.launch (%[[H:.*]] = 2 : thread, %[[M:.*]] = 5 : thread, %[[D:.*]] = 12 : thread) {
// CHECK-NEXT:      %[[MAX:.*]] = loop.reduce {arith.maximumf} %[[S:.*]] = 0 to 3 : f32 {
// CHECK-NEXT:        loop.load %max_part[%[[S]], %[[H]], %[[M]]]
// CHECK:           %[[LIMIT:.*]] = arith.minimumf
// CHECK-NEXT:      %[[SUM:.*]], %[[O:.*]] = loop.reduce {arith.addf, arith.addf} %[[S:.*]] = 0 to 3 : f32, f32 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %max_part[%[[S]], %[[H]], %[[M]]]
// CHECK-NEXT:        %[[B:.*]] = loop.load %sum_part[%[[S]], %[[H]], %[[M]]]
// CHECK-NEXT:        %[[C:.*]] = loop.load %o_part[%[[S]], %[[H]], %[[M]], %[[D]]]
// CHECK-NEXT:        %[[LESS:.*]] = arith.subf %[[A]], %[[LIMIT]]
// CHECK-NEXT:        %[[W:.*]] = math.exp %[[LESS]]
// CHECK-NEXT:        %[[BW:.*]] = arith.mulf %[[B]], %[[W]]
// CHECK-NEXT:        %[[CW:.*]] = arith.mulf %[[C]], %[[W]]
// CHECK-NEXT:        loop.yield %[[BW]], %[[CW]]
// CHECK:           %[[SHARE:.*]] = arith.divf %[[O]], %[[SUM]]
// CHECK-NEXT:      loop.store %[[SHARE]], %out[%[[H]], %[[M]], %[[D]]]
func.func @attention(%q: memref<2x5x8xf32>, %k: memref<1x37x8xf32>, %v: memref<1x37x12xf32>, %out: memref<2x5x12xf32>) {
  %one = arith.constant 1.0 : f32
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  loop.for %h = 0 to 2 {
    loop.for %m = 0 to 5 {
      loop.for %d = 0 to 12 {
        %max, %sum, %o = loop.reduce %i = 0 to 37 : f32, f32, f32 {
          %s = loop.reduce {arith.addf} %e = 0 to 8 : f32 {
            %a = loop.load %q[%h, %m, %e] : memref<2x5x8xf32>
            %b = loop.load %k[%h floordiv 2, %i, %e] : memref<1x37x8xf32>
            %ab = arith.mulf %a, %b : f32
            loop.yield %ab : f32
          }
          %c = loop.load %v[%h floordiv 2, %i, %d] : memref<1x37x12xf32>
          loop.yield %s, %one, %c : f32, f32, f32
        } combine (%m0: f32, %l0: f32, %o0: f32, %m1: f32, %l1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32, 0.0 : f32] {
          %top = arith.maximumf %m0, %m1 : f32
          %above = arith.maximumf %top, %low : f32
          %within = arith.minimumf %above, %high : f32
          %d0 = arith.subf %m0, %within : f32
          %w0 = math.exp %d0 : f32
          %d1 = arith.subf %m1, %within : f32
          %w1 = math.exp %d1 : f32
          %a0 = arith.mulf %l0, %w0 : f32
          %a1 = arith.mulf %l1, %w1 : f32
          %l = arith.addf %a0, %a1 : f32
          %b0 = arith.mulf %o0, %w0 : f32
          %b1 = arith.mulf %o1, %w1 : f32
          %r = arith.addf %b0, %b1 : f32
          loop.yield %top, %l, %r : f32, f32, f32
        }
        %share = arith.divf %o, %sum : f32
        loop.store %share, %out[%h, %m, %d] : memref<2x5x12xf32>
      }
    }
  }
  func.return
}
