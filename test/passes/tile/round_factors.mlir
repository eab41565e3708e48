// Boxes that contracts of medium alone read are rounded as they are copied; warps round other factors, once each.
// RUN: sed -n '/^builtin/,/^}/p' %s > %t.mlir
// RUN: deplodock-opt %t.mlir -p 'tensor-tile{engine=wgmma},double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer' -o %t.boxes
// RUN: deplodock-opt %t.boxes -p 'round-factors,round-factors,verify-rings,verify-contract' --check-semantics -o %t.rounded
// RUN: filecheck %s --input-file %t.rounded --check-prefix BOXES
// RUN: deplodock-opt %t.rounded -p 'materialize,place-barriers,verify-barriers' | filecheck %s --check-prefix KERNEL
// RUN: sed 's/tf32 :/:/' %t.rounded | not deplodock-opt -p verify-rings 2>&1 | filecheck %s --check-prefix MIXED

// BOXES-NOT:     round_tf32
// BOXES-COUNT-4: tma tf32
// BOXES-NOT:     round_tf32
// KERNEL:        kernel.tensor_map %x : !kernel.tensor_map<memref<64x128xf32>, box [64, 32], swizzle 128, tf32>
// MIXED:         tile.copy: its buffer is filled otherwise before; every step arrives in the same way

// Copies of threads do not round, so a warp does.
// RUN: deplodock-opt %t.mlir -p 'tensor-tile{engine=mma m=32 n=32},double-buffer{depth=2},async-copy,round-factors,round-factors' --check-semantics | filecheck %s --check-prefix WARPS

// WARPS:      tile.stage %x{{.*}} async :
// WARPS:      %[[A:.*]] = loop.load %xs
// WARPS-NEXT: %[[AR:.*]] = math_ext.round_tf32 %[[A]] : f32
// WARPS-NEXT: %[[B:.*]] = loop.load %ws
// WARPS-NEXT: %[[BR:.*]] = math_ext.round_tf32 %[[B]] : f32
// WARPS-NEXT: tile.contract mma %[[AR]] * %[[BR]] over
// WARPS-NOT:  tf32

// Slabs that warps read may come in boxes, too; but what reads more than TF32 keeps needs a slab as it is.
// RUN: deplodock-opt %t.mlir -p 'tensor-tile{engine=mma m=32 n=32},double-buffer{depth=2},tma-copy' -o %t.warps
// RUN: deplodock-opt %t.warps -p 'round-factors' | filecheck %s --check-prefix SLABS
// RUN: sed '/%a = loop.load/a %%z = math_ext.low_part %%a : f32' %t.warps | deplodock-opt -p 'round-factors' | filecheck %s --check-prefix WHOLE-SLAB

// SLABS-NOT:       round_tf32
// SLABS-COUNT-2:   tma tf32 :
// SLABS-NOT:       round_tf32
// WHOLE-SLAB:      tile.stage %x{{.*}} tma :
// WHOLE-SLAB-NEXT: tile.stage %w{{.*}} tma tf32 :
// WHOLE-SLAB:      math_ext.round_tf32 %a : f32
// WHOLE-SLAB-NOT:  round_tf32

// Parts of factors, and targets without boxes, stay as they are.
// RUN: sed 's/medium/high/' %t.mlir | deplodock-opt -p 'tensor-tile{engine=mma m=32 n=32},split-factors,double-buffer{depth=2},tma-copy' -o %t.parts
// RUN: deplodock-opt %t.parts -p round-factors | diff %t.parts -
// RUN: sed 's/sm_90/sm_80/' %t.mlir | deplodock-opt -p 'tensor-tile{engine=mma m=32 n=32}' -o %t.old
// RUN: deplodock-opt %t.old -p round-factors | diff %t.old -

builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: memref<64x128xf32>, %w: memref<64x128xf32>, %out: memref<64x64xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 64 : thread) {
      %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x128xf32> to memref<64x32xf32, #tile.memory<shared>>
        %ws = tile.stage %w[d0, %ko * 32 + d1] : memref<64x128xf32> to memref<64x32xf32, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x32xf32, #tile.memory<shared>>
          %b = loop.load %ws[%n_t, %ki] : memref<64x32xf32, #tile.memory<shared>>
          %p = arith.mulf %a, %b {deplodock.precision = "medium"} : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x64xf32>
    }
    func.return
  }
}
