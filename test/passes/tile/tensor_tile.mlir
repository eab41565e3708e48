// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16}' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},verify-contract' --check-semantics
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},materialize,place-barriers,verify-barriers' --check-semantics
// RUN: deplodock-opt %t.once -p 'tensor-tile{m=32 n=16}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'tensor-tile{m=20}' 2>&1 | filecheck %s --check-prefix BAD
// RUN: not deplodock-opt %s -p 'tensor-tile{engine=fma}' 2>&1 | filecheck %s --check-prefix ENGINE
// RUN: not deplodock-opt %s -p 'tensor-tile{m=16 n=8},permute-register-tile{m=strips}' 2>&1 | filecheck %s --check-prefix PLACED

// TWICE: tensor_tile skipped at @linear: the launch has axes of an engine already
// BAD: the option m must be a positive multiple of 8, got 20
// ENGINE: the option engine must be mma or wgmma, got fma

// PLACED: permute-register-tile{m=strips} applies to no kernel: @linear: tensor-tile has placed the registers as its instruction wants them

// Warps of 32 x 16 outputs; masks of the output reach the store, that of k goes, as both slabs are zero there.
// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    tile.launch (%n_b = 2 : block, %m_w = 2 : thread, %n_w = 2 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %m_i = 2 : register, %n_j = 2 : register, %m_h = 2 : register, %n_r = 2 : register, %k_v = 8 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
// CHECK-NEXT:      %n_c = loop.index [%n_w * 16 + %n_j * 8 + %n_t * 2 + %n_r]
// CHECK-NEXT:      %n_o = loop.index [%n_w * 16 + %n_j * 8 + %n_g]
// CHECK-NEXT:      %m_c = loop.index [%m_w * 32 + %m_i * 16 + %m_h * 8 + %m_g]
// CHECK-NEXT:      %n = loop.index [%n_b * 32 + %n_c]
// CHECK-NEXT:      loop.where %n < 50
// CHECK:           %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK:             %part = loop.reduce {arith.addf} %ks = 0 to 2 unroll : f32 {
// CHECK-NEXT:          %k = loop.index [%k_t * 16 + %ks * 8 + %k_v]
// CHECK-NEXT:          %a = loop.load %xs[%m_c, %k]
// CHECK-NEXT:          %b = loop.load %ws[%n_o, %k]
// CHECK-NEXT:          %[[C:.*]] = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
// CHECK-NEXT:          loop.yield %[[C]] : f32
// CHECK:           %sum = arith.addf %acc, %bias : f32
// CHECK:           loop.store %y, %out[%m_c, %n]
func.func @linear(%x: memref<64x120xbf16>, %w: memref<50x120xbf16>, %v: memref<50xf32>, %out: memref<64x50xbf16>) {
  tile.launch (%n_b = 2 : block, %m_t = 64 : thread, %n_t = 32 : thread) {
    %n = loop.index [%n_b * 32 + %n_t]
    loop.where %n < 50
    %bias = loop.load %v[%n] : memref<50xf32>
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %xs = tile.stage %x[d0, %ko * 64 + d1] : memref<64x120xbf16> to memref<64x64xbf16, #tile.memory<shared>>
      %ws = tile.stage %w[%n_b * 32 + d0, %ko * 64 + d1] : memref<50x120xbf16> to memref<32x64xbf16, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 64 : f32 {
        %k = loop.index [%ko * 64 + %ki]
        loop.where %k < 120
        %a = loop.load %xs[%m_t, %ki] : memref<64x64xbf16, #tile.memory<shared>>
        %af = arith.extf %a : bf16 to f32
        %b = loop.load %ws[%n_t, %ki] : memref<32x64xbf16, #tile.memory<shared>>
        %bf = arith.extf %b : bf16 to f32
        %p = arith.mulf %bf, %af : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    %sum = arith.addf %acc, %bias : f32
    %y = arith.truncf %sum : f32 to bf16
    loop.store %y, %out[%m_t, %n] : memref<64x50xbf16>
  }
  func.return
}
