// RUN: deplodock-opt %s -p 'tileify,stream-tile{m=32 n=32 engine=mma},canonicalize,cse' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p 'verify-contract,stream-tile{m=32 n=32 engine=mma}' 2>/dev/null | filecheck %s

// The columns of the scores are k of the second product: its left factor is the weights, as they lie in registers. A
// step's are relative to the largest score so far, powers of 2 of one multiply-add with the scale of the scores. Later rows
// have more keys that count, so their CTAs come first. Features from 40 on are zero in the slabs.
// CHECK-LABEL: func.func @attention
// CHECK:         tile.launch (%m_b = 2 : block, %h = 2 : block, %m_w = 2 : thread, %m_g = 8 : thread, %d_t = 4 : thread, %d_j = 2 : register, %i_j = 4 : register, %m_h = 2 : register, %d_r = 2 : register, %i_r = 2 : register, %e_u = 2 : register, %e_r = 2 : register, %i_t = 4 : lane %d_t, %e_t = 4 : lane %d_t, %i_g = 8 : lane %m_g, %d_g = 8 : lane %m_g) {
// CHECK:           %q_smem = tile.stage %q[%h, %m_b * -32 + d0 + 32, d1] : memref<2x40x40xbf16> to memref<32x48xbf16, strided<[56, 1]>, #tile.memory<shared>>
// CHECK-NEXT:      %max, %sum, %o = loop.reduce %i_o = 0 to %m_b * -1 + 2 : f32, f32, f32 {
// CHECK-NEXT:        %v_smem = tile.stage %v[0, %i_o * 32 + d0, d1] : memref<1x37x12xbf16> to memref<32x16xbf16, strided<[24, 1]>, #tile.memory<shared>>
// CHECK-NEXT:        %k_smem = tile.stage %k[0, %i_o * 32 + d0, d1] : memref<1x37x40xbf16> to memref<32x48xbf16, strided<[56, 1]>, #tile.memory<shared>>
// CHECK:             %s = loop.reduce {arith.addf} %e_s = 0 to 3 unroll : f32 {
// CHECK-NEXT:          %a = loop.load %q_smem[%m_w * 16 + %m_h * 8 + %m_g, %e_s * 16 + %e_u * 8 + %e_t * 2 + %e_r]
// CHECK-NEXT:          %b = loop.load %k_smem[%i_j * 8 + %i_g, %e_s * 16 + %e_u * 8 + %e_t * 2 + %e_r]
// CHECK-NEXT:          %[[AB:.*]] = tile.contract mma %a * %b over (%e_t, %e_u, %e_r) at (%i_g = %i_t * 2 + %i_r) : bf16, bf16 -> f32
// CHECK:             %[[IN:.*]] = loop.inside where (%m_b * 32 + %i < %m_w * 16 + %m_h * 8 + %m_g + 33, %i < 37)
// CHECK-NEXT:        %[[S:.*]] = arith.select %[[IN]], %s, %{{.*}} : f32
// CHECK-NEXT:        %[[RAW:.*]] = tile.combine {arith.maximumf} %[[S]] over (%i_j, %i_t, %i_r) : f32
// CHECK-NEXT:        %top = arith.mulf %[[RAW]], %scale : f32
// CHECK-NEXT:        %largest = loop.scan {arith.maximumf} %top along (%i_o) : f32
// CHECK:             %[[P:.*]] = math.fma %[[S]]
// CHECK-NEXT:        %weight = math.exp2 %[[P]] fastmath<afn> : f32
// CHECK-NEXT:        %weight_1 = arith.truncf %weight : f32 to bf16
// CHECK-NEXT:        %[[L:.*]] = tile.combine {arith.addf} %weight over (%i_j, %i_t, %i_r) : f32
// CHECK-NEXT:        %[[V:.*]] = loop.load %v_smem[%i_j * 8 + %i_t * 2 + %i_r, %d_j * 8 + %d_g]
// CHECK-NEXT:        %[[O:.*]] = tile.contract mma %weight_1 * %[[V]] over (%i_t, %i_j, %i_r) at (%d_g = %d_t * 2 + %d_r) : bf16, bf16 -> f32
// CHECK-NEXT:        loop.yield %largest, %[[L]], %[[O]] : f32, f32, f32
// CHECK-NEXT:      } combine
func.func @attention(%q: memref<2x40x40xbf16>, %k: memref<1x37x40xbf16>, %v: memref<1x37x12xbf16>, %out: memref<2x40x12xf32>) {
  %one = arith.constant 1.0 : f32
  %scale = arith.constant 0.5 : f32
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  loop.for %h = 0 to 2 {
    loop.for %m = 0 to 40 {
      loop.for %d = 0 to 12 {
        %max, %sum, %o = loop.reduce %i = 0 to 37 : f32, f32, f32 {
          loop.where %i < %m + 1
          %s = loop.reduce {arith.addf} %e = 0 to 40 : f32 {
            %a = loop.load %q[%h, %m, %e] : memref<2x40x40xbf16>
            %b = loop.load %k[%h floordiv 2, %i, %e] : memref<1x37x40xbf16>
            %aw = arith.extf %a : bf16 to f32
            %bw = arith.extf %b : bf16 to f32
            %ab = arith.mulf %aw, %bw : f32
            loop.yield %ab : f32
          }
          %scaled = arith.mulf %s, %scale : f32
          %c = loop.load %v[%h floordiv 2, %i, %d] : memref<1x37x12xbf16>
          %cw = arith.extf %c : bf16 to f32
          loop.yield %scaled, %one, %cw : f32, f32, f32
        } combine (%m0: f32, %l0: f32, %o0: f32, %m1: f32, %l1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32, 0.0 : f32] {
          %top = arith.maximumf %m0, %m1 : f32
          %above = arith.maximumf %top, %low : f32
          %within = arith.minimumf %above, %high : f32
          %d0 = arith.subf %m0, %within : f32
          %w0 = math.exp %d0 fastmath<afn> : f32
          %d1 = arith.subf %m1, %within : f32
          %w1 = math.exp %d1 fastmath<afn> : f32
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
