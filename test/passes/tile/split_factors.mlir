// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},split-factors' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},split-factors,verify-contract' --check-semantics
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},split-factors,double-buffer{depth=2},async-copy,pipeline-k-outer,materialize,place-barriers,verify-barriers' --check-semantics | filecheck %s --check-prefix KERNEL
// RUN: deplodock-opt %t.once -p split-factors 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},split-factors{chain=64}' | filecheck %s --check-prefix LONG
// RUN: not deplodock-opt %s -p 'tensor-tile{m=32 n=16},materialize' 2>&1 | filecheck %s --check-prefix WHOLE
// RUN: not deplodock-opt %s -p 'split-factors{chain=20}' 2>&1 | filecheck %s --check-prefix BAD

// TWICE: split_factors skipped at @linear: the launch has no contract of FP32 factors of high precision
// WHOLE: mma reads f32 as TF32, and the factors count whole; run split-factors first
// BAD: the option chain must be

// Both factors are split where they are held; the sum of 32 elements of k starts anew in each step.
// CHECK-LABEL: func.func @linear
// CHECK:       %acc = loop.reduce {arith.addf} %ko = 0 to 3 apart : f32 {
// CHECK:         %part = loop.reduce {arith.addf} %ks = 0 to 2 unroll : f32 {
// CHECK:           %a = loop.load %xs[%m_c, %k]
// CHECK-NEXT:      %a_low = math_ext.low_part %a : f32
// CHECK-NEXT:      %b = loop.load %ws[%n_o, %k]
// CHECK-NEXT:      %b_low = math_ext.low_part %b : f32
// CHECK-NEXT:      %[[C:.*]] = tile.contract mma %a_low * %b + %a * %b_low + %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) {deplodock.precision = "medium"} : f32, f32 -> f32
// CHECK-NEXT:      loop.yield %[[C]] : f32

// LONG: loop.reduce {arith.addf} %ko = 0 to 3 apart

// Small products come first, those of all steps of a chunk; the chunk is added by an addition of its own.
// KERNEL:     kernel.mma m16n8k8 %a_low[
// KERNEL:     kernel.mma m16n8k8 %a[{{.*}} * %b_low[
// KERNEL:     kernel.mma m16n8k8 %a[{{.*}} * %b[
// KERNEL:     arith.addf
func.func @linear(%x: memref<64x90xf32>, %w: memref<50x90xf32>, %out: memref<64x50xf32>) {
  tile.launch (%n_b = 2 : block, %m_t = 64 : thread, %n_t = 32 : thread) {
    %n = loop.index [%n_b * 32 + %n_t]
    loop.where %n < 50
    %acc = loop.reduce {arith.addf} %ko = 0 to 3 : f32 {
      %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x90xf32> to memref<64x32xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%n_b * 32 + d0, %ko * 32 + d1] : memref<50x90xf32> to memref<32x32xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
        %k = loop.index [%ko * 32 + %ki]
        loop.where %k < 90
        %a = loop.load %xs[%m_t, %ki] : memref<64x32xf32, #tile.memory<shared>>
        %b = loop.load %ws[%n_t, %ki] : memref<32x32xf32, #tile.memory<shared>>
        %p = arith.mulf %b, %a {deplodock.precision = "high"} : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m_t, %n] : memref<64x50xf32>
  }
  func.return
}
