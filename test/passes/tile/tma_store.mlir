// RUN: deplodock-opt %s -p tma-store --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p tma-store 2>/dev/null | diff - %t.once
// RUN: deplodock-opt %t.once -p 'tma-store{span=128}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'tma-store{span=64}' | filecheck %s --check-prefix SPAN
// RUN: not deplodock-opt %s -p 'tma-store{span=16}' 2>&1 | filecheck %s --check-prefix BAD
// RUN: deplodock-opt %s -p 'tma-store,materialize,canonicalize,cse,place-barriers,verify-barriers' | filecheck %s --check-prefix KERNEL

// TWICE: tma_store skipped at @matmul: the results are stored in boxes already
// BAD: the option span must be 128, 64 or 32, got 16

// Rows past the end are inactive, and no box stores them.
// CHECK-LABEL: func.func @matmul
// CHECK:       %[[S:.*]] = tile.keep %acc[%m_t, %n] : memref<16x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
// CHECK-NEXT:  tile.store %[[S]] to %out[%m_b * 16 + d0, d1] : memref<16x32xf32, #tile.swizzle<128>, #tile.memory<shared>> to memref<20x32xf32>
// SPAN-LABEL: func.func @matmul
// SPAN:       %[[S:.*]] = tile.keep %acc[%n floordiv 16, %m_t, %n mod 16] : memref<2x16x16xf32, #tile.swizzle<64>, #tile.memory<shared>>
// SPAN-NEXT:  tile.store %[[S]] to %out[%m_b * 16 + d1, d0 * 16 + d2]
// KERNEL-LABEL: kernel.func @matmul
// KERNEL:       loop.store %{{.*}}, %[[S:.*]][%m_t, %n] : memref<16x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
// KERNEL-NEXT:  kernel.fence_proxy_async
// KERNEL-NEXT:  kernel.barrier
// KERNEL-NEXT:  loop.guard where (%thread < 1) {
// KERNEL-NEXT:    kernel.tma_store %[[S]][0, 0] to %out_map[%m_b * 16, 0] : memref<16x32xf32, #tile.swizzle<128>, #tile.memory<shared>> to !kernel.tensor_map<memref<20x32xf32>, box [16, 32], swizzle 128>
// KERNEL-NEXT:  }
// KERNEL-NEXT:  kernel.tma_commit
// KERNEL-NEXT:  kernel.tma_wait 0
// KERNEL-NEXT: }
func.func @matmul(%x: memref<32x8xf32>, %w: memref<32x8xf32>, %out: memref<20x32xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    loop.where %m < 20
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<32x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x32xf32>
  }
  func.return
}

// Two results go to slabs of their own.
// CHECK-LABEL: func.func @two
// CHECK:       tile.keep %acc
// CHECK-NEXT:  tile.store %{{.*}} to %out
// CHECK-NEXT:  %[[NEGATIVE:.*]] = arith.negf %acc : f32
// CHECK-NEXT:  tile.keep %[[NEGATIVE]]
// CHECK-NEXT:  tile.store %{{.*}} to %other
func.func @two(%x: memref<32x8xf32>, %w: memref<64x8xf32>, %out: memref<32x32xf32>, %other: memref<32x32xf32>) {
  tile.launch (%m_b = 2 : block, %m_t = 16 : thread, %n = 32 : thread) {
    %m = loop.index [%m_b * 16 + %m_t]
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%m, %k] : memref<32x8xf32>
      %b = loop.load %w[%n, %k] : memref<64x8xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<32x32xf32>
    %n_1 = arith.negf %acc : f32
    loop.store %n_1, %other[%m, %n] : memref<32x32xf32>
  }
  func.return
}
