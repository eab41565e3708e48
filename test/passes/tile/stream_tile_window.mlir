// RUN: deplodock-opt %s -p 'skip-masked,tileify,stream-tile{m=32 n=16},canonicalize,cse' --check-semantics | filecheck %s

// A query sees the 40 keys before it and its own. Tiles of 32 rows begin at a multiple of 64, below 0 in the first two,
// and take as many steps of 16 keys each; the window itself stays a choice of the score.
// CHECK-LABEL: func.func @window
// CHECK:         tile.launch (%m_b = 8 : block, %m_t = 16 : thread, %d_t = 16 : thread
// CHECK:           %max, %o = loop.reduce %i_o = 0 to 8 : f32, f32 {
// CHECK:             %k_smem = tile.stage %k[%m_b floordiv 2 * 64 + %i_o * 16 + d0 - 64, d1]
// CHECK:             %i = loop.index [%m_b floordiv 2 * 64 + %i_o * 16 + %i_r * 16 + %i_t - 64]
// CHECK:             loop.inside where ((%m_b * 32 + %m_r * 16 + %m_t + 24) floordiv 64 * 64 < %i + 65, 0 < %i + 1)
func.func @window(%q: memref<256x8xf32>, %k: memref<256x8xf32>, %v: memref<256x8xf32>, %out: memref<256x8xf32>) {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  %hidden = arith.constant 0xff800000 : f32
  %size = arith.constant 41 : i64
  loop.for %m = 0 to 256 {
    loop.for %d = 0 to 8 {
      %max, %o = loop.reduce %i = 0 to 256 : f32, f32 {
        %s = loop.reduce {arith.addf} %e = 0 to 8 : f32 {
          %a = loop.load %q[%m, %e] : memref<256x8xf32>
          %b = loop.load %k[%i, %e] : memref<256x8xf32>
          %ab = arith.mulf %a, %b : f32
          loop.yield %ab : f32
        }
        %query = arith.index_cast %m : index to i64
        %key = arith.index_cast %i : index to i64
        %first = arith.subi %query, %size : i64
        %is_before = arith.cmpi sle, %key, %query : i64
        %is_behind = arith.cmpi sgt, %key, %first : i64
        %is_seen = arith.andi %is_before, %is_behind : i1
        %seen = arith.select %is_seen, %s, %hidden : f32
        %c = loop.load %v[%i, %d] : memref<256x8xf32>
        loop.yield %seen, %c : f32, f32
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
      loop.store %o, %out[%m, %d] : memref<256x8xf32>
    }
  }
  func.return
}
