// RUN: deplodock-opt %s -p materialize --split-input-file --verify-diagnostics | filecheck %s

// CHECK: tile.contract: the factor %b does not vary along the registers of a fragment
func.func @one_column(%x: memref<16x16xf16>, %w: memref<8x16xf16>, %out: memref<16x8xf32>) {
  tile.launch (%m_g = 8 : thread, %n_t = 4 : thread, %m_h = 2 : register, %n_r = 2 : register, %k_v = 4 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %a = loop.load %x[%m_h * 8 + %m_g, %k_t * 4 + %k_v] : memref<16x16xf16>
    %b = loop.load %w[%n_g, %k_t * 4] : memref<8x16xf16>
    %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : f16, f16 -> f32
    loop.store %c, %out[%m_h * 8 + %m_g, %n_t * 2 + %n_r] : memref<16x8xf32>
  }
  func.return
}

// -----

// CHECK: tile.contract: it adds to accumulators at points that a loop.where of its loop leaves out
func.func @masked(%x: memref<32x64xbf16>, %w: memref<16x64xbf16>, %out: memref<32x16xf32>) {
  tile.launch (%m_g = 8 : thread, %n_t = 4 : thread, %m_i = 2 : register, %n_j = 2 : register, %m_h = 2 : register, %n_r = 2 : register, %k_v = 8 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %acc = loop.reduce {arith.addf} %k_s = 0 to 2 unroll : f32 {
      loop.where %k_s < %m_g
      %a = loop.load %x[%m_i * 16 + %m_h * 8 + %m_g, %k_t * 16 + %k_s * 8 + %k_v] : memref<32x64xbf16>
      %b = loop.load %w[%n_j * 8 + %n_g, %k_t * 16 + %k_s * 8 + %k_v] : memref<16x64xbf16>
      %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %c : f32
    }
    loop.store %acc, %out[%m_i * 16 + %m_h * 8 + %m_g, %n_j * 8 + %n_t * 2 + %n_r] : memref<32x16xf32>
  }
  func.return
}
