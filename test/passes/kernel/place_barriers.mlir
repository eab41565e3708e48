// RUN: deplodock-opt %s -p place-barriers --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p place-barriers,place-barriers,verify-barriers --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p place-barriers --split-input-file 2>&1 | filecheck %s --check-prefix SKIP

// What another thread wrote is read behind a barrier.
// CHECK-LABEL: kernel.func @written
// CHECK:         loop.store %{{.*}}, %s[%thread]
// CHECK-NEXT:    kernel.barrier
// CHECK-NEXT:    loop.load %s[%thread * -1 + 63]
// CHECK-NOT:     kernel.barrier
kernel.func @written(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %v = loop.load %x[%thread] : memref<64xf32>
  loop.store %v, %s[%thread] : memref<64xf32, #tile.memory<shared>>
  %w = loop.load %s[-%thread + 63] : memref<64xf32, #tile.memory<shared>>
  loop.store %w, %out[%thread] : memref<64xf32>
}

// -----

// A slab that a loop fills again waits for its readers as well.
// CHECK-LABEL: kernel.func @carried
// CHECK:         loop.for %i = 0 to 4 {
// CHECK-NEXT:      %{{.*}} = loop.load %x
// CHECK-NEXT:      kernel.barrier
// CHECK-NEXT:      loop.store %{{.*}}, %s[%thread]
// CHECK-NEXT:      kernel.barrier
// CHECK-NEXT:      %{{.*}} = loop.load %s
// CHECK-NOT:     kernel.barrier
kernel.func @carried(%x: memref<4x64xf32>, %out: memref<4x64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i, %thread] : memref<4x64xf32>
    loop.store %v, %s[%thread] : memref<64xf32, #tile.memory<shared>>
    %w = loop.load %s[-%thread + 63] : memref<64xf32, #tile.memory<shared>>
    loop.store %w, %out[%i, %thread] : memref<4x64xf32>
  }
}

// -----

// A thread may read at once what it wrote itself, in whatever order the address holds its number.
// SKIP: place_barriers skipped at @own: no shared memory passes between threads
// CHECK-LABEL: kernel.func @own
// CHECK-NOT:     kernel.barrier
kernel.func @own(%x: memref<256xf32>, %out: memref<256xf32>) blocks(%block = 1) threads(%thread = 64) {
  %vectors = kernel.alloc : memref<256xf32, #tile.memory<shared>>
  kernel.move 4 %x[%thread * 4] to %vectors[%thread * 4] : memref<256xf32> to memref<256xf32, #tile.memory<shared>>
  %v = loop.load %vectors[%thread * 4 + 3] : memref<256xf32, #tile.memory<shared>>
  %transposed = kernel.alloc : memref<8x8xf32, #tile.memory<shared>>
  loop.store %v, %transposed[%thread mod 8, %thread floordiv 8] : memref<8x8xf32, #tile.memory<shared>>
  %w = loop.load %transposed[%thread mod 8, %thread floordiv 8] : memref<8x8xf32, #tile.memory<shared>>
  %padded = kernel.alloc : memref<8x9xf32, #tile.memory<shared>>
  loop.for %i = 0 to 3 {
    loop.store %w, %padded[%thread floordiv 8, %thread mod 8] : memref<8x9xf32, #tile.memory<shared>>
    %u = loop.load %padded[%thread floordiv 8, %thread mod 8] : memref<8x9xf32, #tile.memory<shared>>
    loop.store %u, %out[%thread] : memref<256xf32>
  }
}

// -----

// Two accesses in guards of their own meet at the level of the guards, which all threads reach.
// CHECK-LABEL: kernel.func @guards
// CHECK:         loop.guard where (%thread < 2)
// CHECK-NEXT:      loop.store
// CHECK-NEXT:    }
// CHECK-NEXT:    kernel.barrier
// CHECK-NEXT:    loop.for
// CHECK-NEXT:      loop.guard where (%thread < 3)
kernel.func @guards(%x: memref<64xf32>, %out: memref<3xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<2xf32, #tile.memory<shared>>
  %v = loop.load %x[%thread] : memref<64xf32>
  loop.guard where (%thread < 2) {
    loop.store %v, %s[%thread] : memref<2xf32, #tile.memory<shared>>
  }
  loop.for %i = 0 to 2 unroll {
    loop.guard where (%thread < 3) {
      %w = loop.load %s[%i] : memref<2xf32, #tile.memory<shared>>
      loop.store %w, %out[%thread] : memref<3xf32>
    }
  }
}

// -----

// All threads of a CTA take the same branch on the block.
// CHECK-LABEL: kernel.func @uniform
// CHECK:         loop.guard where (%block < 3) {
// CHECK:           loop.store %{{.*}}, %s
// CHECK-NEXT:      kernel.barrier
// CHECK-NEXT:      loop.load %s
kernel.func @uniform(%x: memref<64xf32>, %out: memref<3x64xf32>) blocks(%block = 4) threads(%thread = 64) {
  %s = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  loop.guard where (%block < 3) {
    %v = loop.load %x[%thread] : memref<64xf32>
    loop.store %v, %s[%thread] : memref<64xf32, #tile.memory<shared>>
    %w = loop.load %s[-%thread + 63] : memref<64xf32, #tile.memory<shared>>
    loop.store %w, %out[%block, %thread] : memref<3x64xf32>
  }
}

// -----

// What a guard leaves to one thread is that thread's own, though no address has its number.
// CHECK-LABEL: kernel.func @one_thread
// CHECK:         loop.guard where (%thread < 1) {
// CHECK-NEXT:      loop.store
// CHECK-NEXT:      loop.store
// CHECK-NEXT:    }
// CHECK-NEXT:    kernel.barrier
// CHECK-NOT:     kernel.barrier
kernel.func @one_thread(%x: memref<4xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<4xf32, #tile.memory<shared>>
  %v = loop.load %x[0] : memref<4xf32>
  loop.guard where (%thread < 1) {
    loop.store %v, %s[0] : memref<4xf32, #tile.memory<shared>>
    loop.store %v, %s[0] : memref<4xf32, #tile.memory<shared>>
  }
  %w = loop.load %s[0] : memref<4xf32, #tile.memory<shared>>
  loop.store %w, %out[%thread] : memref<64xf32>
}

// -----

// Copies of boxes use the barrier that a thread initialises, and what it wrote where they go: fences follow both.
// CHECK-LABEL: kernel.func @boxes
// CHECK:         kernel.mbarrier
// CHECK-NEXT:    kernel.fence_proxy_async
// CHECK:         loop.store
// CHECK-NEXT:    kernel.fence_proxy_async
// CHECK-NEXT:    kernel.barrier
// CHECK-NEXT:    loop.guard
// CHECK-NOT:     kernel.barrier
kernel.func @boxes(%w: !kernel.tensor_map<memref<64x32xf32>, box [32, 32]>, %out: memref<32xf32>) blocks(%block = 1) threads(%thread = 32) {
  %ws = kernel.alloc : memref<32x32xf32, #tile.memory<shared>>
  %full = kernel.mbarrier 1 arrivals 1
  %z = arith.constant 0.0 : f32
  loop.store %z, %ws[%thread, 0] : memref<32x32xf32, #tile.memory<shared>>
  loop.guard where (%thread < 1) {
    kernel.arrive %full[0] expect 4096
    kernel.tma_load %w[0, 0] to %ws[0, 0] signal %full[0] : !kernel.tensor_map<memref<64x32xf32>, box [32, 32]> to memref<32x32xf32, #tile.memory<shared>>
  }
  kernel.wait_phase %full[0], 0
  %v = loop.load %ws[-%thread + 31, 0] : memref<32x32xf32, #tile.memory<shared>>
  loop.store %v, %out[%thread] : memref<32xf32>
}

// -----

// A quotient and a remainder of a loop's variable tell its iterations apart, in this order too: no slot of a ring.
// CHECK-LABEL: kernel.func @wrapped
// CHECK:         kernel.wait_group 0
// CHECK-NEXT:    kernel.barrier
kernel.func @wrapped(%x: memref<4x16xf32>, %out: memref<16xf32>) blocks(%block = 1) threads(%thread = 8) {
  %s = kernel.alloc : memref<16x4xf32, #tile.memory<shared>>
  %t = kernel.alloc : memref<4x16xf32, #tile.memory<shared>>
  loop.for %c = 0 to 8 {
    kernel.move 1 async %x[%c mod 4, %c floordiv 4 * 8 + %thread] to %s[%c floordiv 4 * 8 + %thread, %c mod 4] : memref<4x16xf32> to memref<16x4xf32, #tile.memory<shared>>
    kernel.move 1 async %x[%c mod 4, %c floordiv 4 * 8 + %thread] to %t[%c mod 4, %c floordiv 4 * 8 + %thread] : memref<4x16xf32> to memref<4x16xf32, #tile.memory<shared>>
  }
  kernel.commit_group
  kernel.wait_group 0
  %v = loop.load %s[-%thread + 15, 3] : memref<16x4xf32, #tile.memory<shared>>
  %w = loop.load %t[3, -%thread + 15] : memref<4x16xf32, #tile.memory<shared>>
  %sum = arith.addf %v, %w : f32
  loop.store %sum, %out[%thread] : memref<16xf32>
}
