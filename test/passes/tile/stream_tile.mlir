// RUN: deplodock-opt %s -p 'tileify,stream-tile{m=32 n=16},canonicalize,cse' --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p 'stream-tile{m=32 n=16}' 2>/dev/null | filecheck %s
// RUN: not deplodock-opt %s -p 'tileify,stream-tile{m=32 n=8 side=2 lanes=16 features=1}' 2>&1 | filecheck %s --check-prefix LANES
// RUN: not deplodock-opt %s -p 'tileify,stream-tile{m=32 n=16 side=2 lanes=16 features=4}' 2>&1 | filecheck %s --check-prefix FEATURES

// LANES: the 8 elements of a step are no multiple of the 16 threads of a row
// FEATURES: 4 threads have no whole accesses of 8 features

// Scores lie on the threads of the outputs' columns; weights go through shared memory to the second product. Rows are
// copied once, keys and values in each step. Keys from 37 on have the score -inf, and no step runs beyond the last row.
// CHECK-LABEL: func.func @attention
// CHECK:         tile.launch (%h = 2 : block, %m_b = 2 : block, %m_t = 16 : thread, %d_t = 16 : thread, %m_r = 2 : register, %d_r = 1 : register, %d_v = 1 : register, %i_r = 1 : register, %i_t = 16 : lane %d_t) {
// CHECK:           %q_smem = tile.stage %q[%h, %m_b * 32 + d0, d1] : memref<2x40x8xf32> to memref<32x8xf32, #tile.memory<shared>>
// CHECK-NEXT:      %max, %sum, %o = loop.reduce %i_o = 0 to min(%m_b * 2 + 2, 3) : f32, f32, f32 {
// CHECK-NEXT:        %v_smem = tile.stage %v[0, %i_o * 16 + d0, d1] : memref<1x37x12xf32> to memref<16x16xf32, #tile.memory<shared>>
// CHECK-NEXT:        %k_smem = tile.stage %k[0, %i_o * 16 + d0, d1] : memref<1x37x8xf32> to memref<16x8xf32, #tile.memory<shared>>
// CHECK:             %s = loop.reduce {arith.addf} %eo = 0 to 2 : f32 {
// CHECK-NEXT:          %{{.*}} = loop.reduce {arith.addf} %ei = 0 to 4 unroll : f32 {
// CHECK:                 loop.load %q_smem[%m_r * 16 + %m_t, %eo * 4 + %ei]
// CHECK-NEXT:            loop.load %k_smem[%i_r * 16 + %i_t, %eo * 4 + %ei]
// CHECK:             %[[IN:.*]] = loop.inside where (%i < %m_b * 32 + %m_r * 16 + %m_t + 1, %i < 37)
// CHECK-NEXT:        %[[S:.*]] = arith.select %[[IN]], %s, %{{.*}} : f32
// CHECK-NEXT:        %top = tile.combine {arith.maximumf} %[[S]] over (%i_r, %i_t) : f32
// CHECK-NEXT:        %largest = loop.scan {arith.maximumf} %top along (%i_o) : f32
// CHECK:             %weight = math.exp
// CHECK-NEXT:        %weights = tile.keep %weight[%m_r * 16 + %m_t, %i_r * 16 + %i_t] : memref<32x16xf32, #tile.memory<shared>>
// CHECK-NEXT:        %[[L:.*]] = tile.combine {arith.addf} %weight over (%i_r, %i_t) : f32
// CHECK-NEXT:        %[[O:.*]] = loop.reduce {arith.addf} %io = 0 to 4 : f32 {
// CHECK:                 loop.load %weights[%m_r * 16 + %m_t, %{{.*}}]
// CHECK:                 loop.load %v_smem[%{{.*}}, %d_r * 16 + %d_t + %d_v]
// CHECK:             loop.yield %largest, %[[L]], %[[O]] : f32, f32, f32
// CHECK-NEXT:      } combine
func.func @attention(%q: memref<2x40x8xf32>, %k: memref<1x37x8xf32>, %v: memref<1x37x12xf32>, %out: memref<2x40x12xf32>) {
  %one = arith.constant 1.0 : f32
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  loop.for %h = 0 to 2 {
    loop.for %m = 0 to 40 {
      loop.for %d = 0 to 12 {
        %max, %sum, %o = loop.reduce %i = 0 to 37 : f32, f32, f32 {
          loop.where %i < %m + 1
          %s = loop.reduce {arith.addf} %e = 0 to 8 : f32 {
            %a = loop.load %q[%h, %m, %e] : memref<2x40x8xf32>
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
        loop.store %share, %out[%h, %m, %d] : memref<2x40x12xf32>
      }
    }
  }
  func.return
}
