// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16}' | filecheck %s
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},verify-contract' --check-semantics
// RUN: deplodock-opt %s -p 'tensor-tile{m=32 n=16},pad-smem,materialize,place-barriers,verify-barriers' --check-semantics

// Where k walks a slab with a stride, a lane takes pairs along k, 8 apart, and the lanes of a group neighbouring pairs.
// CHECK-LABEL: func.func @matmul
// CHECK:         %k_u = 2 : register, %k_v = 2 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
// CHECK:         loop.reduce {arith.addf} %ks = 0 to 4 unroll : f32 {
// CHECK-NEXT:      %k = loop.index [%ks * 16 + %k_u * 8 + %k_t * 2 + %k_v]
// CHECK-NEXT:      %a = loop.load %xs[%m_c, %k]
// CHECK-NEXT:      %b = loop.load %ws[%k, %n_o]
// CHECK-NEXT:      tile.contract mma %a * %b over (%k_t, %k_u, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
func.func @matmul(%x: memref<64x64xbf16>, %w: memref<64x32xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<64x32xbf16> to memref<64x32xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%k, %n_t] : memref<64x32xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}
