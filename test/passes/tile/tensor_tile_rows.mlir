// Few rows of the output: its columns are the rows of the instruction, and both factors go from global memory to
// registers. Rows and columns beyond the output are masked at the store, k beyond the input is zero.
// RUN: deplodock-opt %s -p 'tensor-tile{rows=n m=8 n=32 slices=4}' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'tensor-tile{rows=n m=8 n=32 slices=4},materialize,place-barriers,verify-barriers' --check-semantics | filecheck %s --check-prefix KERNEL
// RUN: deplodock-opt %s -p 'tensor-tile{rows=n m=16 n=16}' | filecheck %s --check-prefix WHOLE
// RUN: not deplodock-opt %s -p 'tensor-tile{rows=n slices=64}' 2>&1 | filecheck %s --check-prefix SLICES
// RUN: not deplodock-opt %s -p 'tensor-tile{rows=n n=16 slices=32}' 2>&1 | filecheck %s --check-prefix MANY
// RUN: not deplodock-opt %s -p 'tensor-tile{rows=k}' 2>&1 | filecheck %s --check-prefix BAD

// SLICES: applies to no kernel: @linear: a chunk of 512 elements of k is no 64 slices of whole instructions
// MANY: applies to no kernel: @linear: warps of so few outputs make 2048 threads of a CTA, above 1024
// BAD: the option rows must be m or n, got k

// WHOLE:      tile.launch (%n_b = 4 : block, %n_w = 2 : thread, %n_g = 8 : thread, %m_t = 4 : thread, %n_h = 2 : register, %m_r = 2 : register, %k_u = 4 : register, %k_v = 8 : register, %k_t = 4 : lane %m_t, %m_g = 8 : lane %n_g) {
// WHOLE:        loop.reduce {arith.addf} %ks = 0 to 4 : f32 {
// WHOLE-NOT:    tile.combine

// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    tile.launch (%n_b = 4 : block, %k_w = 2 : thread, %k_w_1 = 2 : thread, %n_g = 8 : thread, %m_t = 4 : thread, %n_i = 2 : register, %n_h = 2 : register, %m_r = 2 : register, %k_u = 2 : register, %k_v = 8 : register, %k_t = 4 : lane %m_t, %m_g = 8 : lane %n_g, %m_rl = 2 : lane %k_w, %n_il = 2 : lane %k_w_1) {
// CHECK-NEXT:      %m_c = loop.index [%m_t * 2 + %m_rl]
// CHECK:           loop.where %m_c < 5
// CHECK-NEXT:      %n_c = loop.index [%n_il * 16 + %n_h + %n_g * 2]
// CHECK:           %[[SUM:.*]] = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK:             %w_reg = tile.stage %w[d0 * 16 + %n_b * 32 + %n_g * 2 + d1, {{.*}}] : memref<100x1000xbf16> to memref<2x2x2x8xbf16, #tile.memory<register>>
// CHECK-NEXT:        %b = loop.load %w_reg[%n_i, %n_h, %k_u, %k_v]
// CHECK-NEXT:        %x_reg = tile.stage %x[%m_g, {{.*}}] : memref<5x1000xbf16> to memref<2x8xbf16, #tile.memory<register>>
// CHECK-NEXT:        %a = loop.load %x_reg[%k_u, %k_v]
// CHECK-NEXT:        tile.contract mma %b * %a over (%k_t, %k_u, %k_v) at (%m_g = %m_t * 2 + %m_r) : bf16, bf16 -> f32
// CHECK:           %acc = tile.combine {arith.addf} %[[SUM]] over (%k_w, %k_w_1) at (%m_r = %m_rl, %n_i = %n_il) : f32
// CHECK:           loop.store %y, %out[%m_c, %n]

// KERNEL:          kernel.move 8 %w
// KERNEL:          kernel.move 8 %x
// KERNEL:            kernel.mma m16n8k16 %w_reg[{{.*}}] * %x_reg[{{.*}}] into
// KERNEL:          kernel.move 2 %y[0] to %out
func.func @linear(%x: memref<5x1000xbf16>, %w: memref<100x1000xbf16>, %out: memref<5x100xbf16>) {
  tile.launch (%n_b = 4 : block, %m_t = 5 : thread, %n_t = 32 : thread) {
    %n = loop.index [%n_b * 32 + %n_t]
    loop.where %n < 100
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %part = loop.reduce {arith.addf} %ki = 0 to 512 : f32 {
        %k = loop.index [%ko * 512 + %ki]
        loop.where %k < 1000
        %a = loop.load %x[%m_t, %k] : memref<5x1000xbf16>
        %af = arith.extf %a : bf16 to f32
        %b = loop.load %w[%n, %k] : memref<100x1000xbf16>
        %bf = arith.extf %b : bf16 to f32
        %p = arith.mulf %bf, %af : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    %y = arith.truncf %acc : f32 to bf16
    loop.store %y, %out[%m_t, %n] : memref<5x100xbf16>
  }
  func.return
}
