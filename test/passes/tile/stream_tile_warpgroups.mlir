// RUN: deplodock-opt %s -p 'tileify,stream-tile{m=64 n=32 engine=wgmma},canonicalize,cse' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p 'verify-contract,stream-tile{m=64 n=32 engine=wgmma}' 2>/dev/null | filecheck %s
// RUN: deplodock-opt %t.once -p 'double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer{distance=1},verify-rings,verify-contract,materialize,canonicalize,cse,place-barriers,verify-barriers' | filecheck %s --check-prefix KERNEL
// RUN: not deplodock-opt %s -p 'tileify,stream-tile{m=48 n=32 engine=wgmma}' 2>&1 | filecheck %s --check-prefix ROWS
// RUN: not deplodock-opt %s -p 'tileify,stream-tile{m=64 n=32 slices=2 engine=wgmma}' 2>&1 | filecheck %s --check-prefix SLICES
// RUN: sed 's/x40xbf16/x35xbf16/g;s/0 to 40/0 to 35/' %s | not deplodock-opt -p 'tileify,stream-tile{m=64 n=32 engine=wgmma}' 2>&1 | filecheck %s --check-prefix BOXES

// SLICES: warpgroups share no step; slices are of threads and of mma
// BOXES: @attention: %q: rows of 70 bytes are no multiple of the 16 of boxes
// ROWS: the 48 rows of a CTA are no multiple of the 64 of a warpgroup

// A CTA of a single warpgroup has steps up to its own last row, too.
// RUN: sed 's/1x37x/1x1024x/g;s/%i = 0 to 37/%i = 0 to 1024/' %s | deplodock-opt -p 'tileify,stream-tile{m=64 n=32 engine=wgmma}' | filecheck %s --check-prefix BOUND
// BOUND: loop.reduce %i_o = 0 to %m_b * -2 + 4 : f32, f32, f32 {

// The engine reads rows, keys and values from their slabs; the weights are the left factor of the second product, as
// their threads hold them.
// CHECK-LABEL: func.func @attention
// CHECK:         tile.launch (%m_b = 2 : block, %h = 2 : block, %m_w = 1 : thread, %m_q = 4 : thread, %m_g = 8 : thread, %d_t = 4 : thread, %d_j = 4 : register, %i_j = 4 : register, %m_h = 2 : register, %d_r = 2 : register, %i_r = 2 : register, %i_t = 4 : lane %d_t, %e_e = 48 : engine, %i_e = 32 : engine, %d_e = 32 : engine) {
// CHECK:           %q_smem = tile.stage %q[%h, %m_b * -64 + d0 + 64, d1] : memref<2x80x40xbf16> to memref<64x48xbf16, #tile.memory<shared>>
// CHECK-NEXT:      %max, %sum, %o = loop.reduce %i_o = 0 to 2 : f32, f32, f32 {
// CHECK-NEXT:        %v_smem = tile.stage %v[0, %i_o * 32 + d0, d1] : memref<1x37x24xbf16> to memref<32x32xbf16, #tile.memory<shared>>
// CHECK-NEXT:        %k_smem = tile.stage %k[0, %i_o * 32 + d0, d1] : memref<1x37x40xbf16> to memref<32x48xbf16, #tile.memory<shared>>
// CHECK:             %a = loop.load %q_smem[%m_w * 64 + %m_q * 16 + %m_h * 8 + %m_g, %e_e]
// CHECK-NEXT:        %b = loop.load %k_smem[%i_e, %e_e]
// CHECK-NEXT:        %s = tile.contract wgmma %a * %b over (%e_e) at (%i_e = %i_j * 8 + %i_t * 2 + %i_r) : bf16, bf16 -> f32
// CHECK:             %top = arith.mulf
// CHECK-NEXT:        %largest = loop.scan {arith.maximumf} %top along (%i_o) : f32
// CHECK:             %weight_1 = arith.truncf %weight : f32 to bf16
// CHECK-NEXT:        %[[L:.*]] = tile.combine {arith.addf} %weight over (%i_j, %i_t, %i_r) : f32
// CHECK-NEXT:        %c = loop.load %v_smem[%i_e, %d_e]
// CHECK-NEXT:        %[[O:.*]] = tile.contract wgmma %weight_1 * %c over (%i_t, %i_j, %i_r) at (%d_e = %d_j * 8 + %d_t * 2 + %d_r, %i_e = %i_j * 8 + %i_t * 2 + %i_r) : bf16, bf16 -> f32
// CHECK-NEXT:        loop.yield %largest, %[[L]], %[[O]] : f32, f32, f32
// Rows come once, in boxes that are awaited behind the first keys and values; those are on a ring. Sums of earlier steps
// are scaled, and the second product adds to them.
// KERNEL-LABEL: kernel.func @attention
// KERNEL:           kernel.tma_load %q_map
// KERNEL:           kernel.tma_load %v_map
// KERNEL:           kernel.wait_phase %full[0], 0
// KERNEL-NEXT:      loop.for %i_o = 0 to 2 {
// KERNEL:             kernel.wait_phase %full_1[%i_o], 0
// KERNEL:             kernel.wgmma_fence
// KERNEL-NEXT:        kernel.wgmma m64n32k16 %q_smem[0, %m_w * 64 + d0, d1] * %k_smem[%i_o, 0, d0, d1] into %s[0, 0, 0] anew
// KERNEL-NEXT:        loop.for %step = 0 to 2 unroll {
// KERNEL-NEXT:          kernel.wgmma m64n32k16 %q_smem[%step + 1, %m_w * 64 + d0, d1] * %k_smem[%i_o, %step + 1, d0, d1] into %s[0, 0, 0]
// KERNEL-NEXT:        }
// KERNEL-NEXT:        kernel.wgmma_commit
// KERNEL-NEXT:        kernel.wgmma_wait 0
// KERNEL-NOT:         kernel.barrier
// KERNEL:             kernel.wgmma_fence
// KERNEL-NEXT:        loop.for %step_1 = 0 to 2 unroll {
// KERNEL-NEXT:          kernel.wgmma m64n32k16 %weight_1[%step_1 * 2, 0, 0] * %v_smem[%i_o, %step_1 * 16 + d1, d0] into %o[0, 0, 0]
// KERNEL-NEXT:        }
// KERNEL-NEXT:        kernel.wgmma_commit
// KERNEL-NEXT:        kernel.wgmma_wait 0
// KERNEL-NEXT:        kernel.arrive warp %empty[%i_o]
func.func @attention(%q: memref<2x80x40xbf16>, %k: memref<1x37x40xbf16>, %v: memref<1x37x24xbf16>, %out: memref<2x80x24xf32>) {
  %one = arith.constant 1.0 : f32
  %scale = arith.constant 0.5 : f32
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  loop.for %h = 0 to 2 {
    loop.for %m = 0 to 80 {
      loop.for %d = 0 to 24 {
        %max, %sum, %o = loop.reduce %i = 0 to 37 : f32, f32, f32 {
          loop.where %i < %m + 1
          %s = loop.reduce {arith.addf} %e = 0 to 40 : f32 {
            %a = loop.load %q[%h, %m, %e] : memref<2x80x40xbf16>
            %b = loop.load %k[%h floordiv 2, %i, %e] : memref<1x37x40xbf16>
            %aw = arith.extf %a : bf16 to f32
            %bw = arith.extf %b : bf16 to f32
            %ab = arith.mulf %aw, %bw : f32
            loop.yield %ab : f32
          }
          %scaled = arith.mulf %s, %scale : f32
          %c = loop.load %v[%h floordiv 2, %i, %d] : memref<1x37x24xbf16>
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
        loop.store %share, %out[%h, %m, %d] : memref<2x80x24xf32>
      }
    }
  }
  func.return
}
