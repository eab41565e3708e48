// RUN: deplodock-opt %s -p place-barriers --split-input-file --verify-diagnostics | filecheck %s

// CHECK: place-barriers: @in_flight: %s is read by loop.load while an async kernel.move to it is in flight; a wait for it must come first
kernel.func @in_flight(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  kernel.move 1 async %x[%thread] to %s[%thread] : memref<64xf32> to memref<64xf32, #tile.memory<shared>>
  kernel.commit_group
  %w = loop.load %s[-%thread + 63] : memref<64xf32, #tile.memory<shared>>
  loop.store %w, %out[%thread] : memref<64xf32>
}

// -----

// CHECK: place-barriers: @divergent: %s is written by loop.store and then read by loop.load inside one loop.guard that not all threads run alike; split it so that a kernel.barrier can stand between them
kernel.func @divergent(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  loop.guard where (%thread < 32) {
    %v = loop.load %x[%thread] : memref<64xf32>
    loop.store %v, %s[%thread] : memref<32xf32, #tile.memory<shared>>
    %w = loop.load %s[-%thread + 31] : memref<32xf32, #tile.memory<shared>>
    loop.store %w, %out[%thread] : memref<64xf32>
  }
}

// -----

// Threads of different roles meet at no barrier.
// CHECK: place-barriers: @roles: %s is written by loop.store and then read by loop.load in another role; only a phase can order them
kernel.func @roles(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
  %s = kernel.alloc : memref<32xf32, #tile.memory<shared>>
  kernel.roles {
    kernel.role writer(%a = 32) {
      %v = loop.load %x[%a] : memref<64xf32>
      loop.store %v, %s[%a] : memref<32xf32, #tile.memory<shared>>
    }
    kernel.role reader(%b = 32) {
      %w = loop.load %s[%b] : memref<32xf32, #tile.memory<shared>>
      loop.store %w, %out[%b] : memref<64xf32>
    }
  }
}
