// RUN: deplodock-opt %s -p 'stage-inputs{transpose=auto}' | filecheck %s
// RUN: deplodock-opt %s -p 'stage-inputs{transpose=n}' | filecheck %s --check-prefix ONE
// RUN: deplodock-opt %s -p 'stage-inputs{memory=auto}' | filecheck %s --check-prefix NEVER
// RUN: deplodock-opt %s -p 'stage-inputs{transpose=auto}' --check-semantics
// RUN: not deplodock-opt %s -p 'stage-inputs{transpose=all}' 2>&1 | filecheck %s --check-prefix WORD

// WORD: all

// Slabs span a chunk of k with its vectors, and are filled once for each chunk. Operands that walk k get k first.
// CHECK:     loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK-NEXT:  %x_smem = tile.stage %x[d1, %ko * 16 + d0] : memref<16x32xf32> to memref<16x16xf32, #tile.memory<shared>>
// CHECK-NEXT:  %w_smem = tile.stage %w[d1, %ko * 16 + d0] : memref<32x32xf32> to memref<16x32xf32, #tile.memory<shared>>
// CHECK-NEXT:  loop.reduce {arith.addf} %kq = 0 to 4 : f32 {
// CHECK:         %a = loop.load %x_smem[%ki, %m] : memref<16x16xf32, #tile.memory<shared>>
// CHECK:         %b = loop.load %w_smem[%ki, %n] : memref<16x32xf32, #tile.memory<shared>>

// ONE:       tile.stage %x[d0, %ko * 16 + d1]
// ONE:       tile.stage %w[d1, %ko * 16 + d0]

// NEVER:     tile.stage %x[d0, %ko * 16 + d1]
// NEVER:     tile.stage %w[d0, %ko * 16 + d1]
func.func @matmul(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m = 16 : thread, %n = 32 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %0 = loop.reduce {arith.addf} %kq = 0 to 4 : f32 {
        %1 = loop.reduce {arith.addf} %kv = 0 to 4 unroll : f32 {
          %ki = loop.index [%kq * 4 + %kv]
          %k = loop.index [%ko * 16 + %ki]
          %a = loop.load %x[%m, %k] : memref<16x32xf32>
          %b = loop.load %w[%n, %k] : memref<32x32xf32>
          %p = arith.mulf %a, %b : f32
          loop.yield %p : f32
        }
        loop.yield %1 : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}
