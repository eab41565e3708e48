// Each limit of the target: the figure is refused with its position and the limit, what just fits passes.
// RUN: deplodock-opt %s -p verify-resources --split-input-file --verify-diagnostics | filecheck %s
// RUN: not deplodock-opt %s -p verify-resources --split-input-file 2>&1 | filecheck %s --check-prefix=EXIT

// EXIT:     verify_resources.mlir:[[# @LINE + 4]]:1: error: kernel.func: @threads has 1025 threads in a CTA, sm_90 allows 1024
// EXIT-NOT: error

// CHECK: error: kernel.func: @threads has 1025 threads in a CTA, sm_90 allows 1024; give a CTA fewer
kernel.func @threads() blocks(%block = 1) threads(%thread = 1025) {
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @blocks has 2147483648 CTAs, a grid holds 2147483647; give a CTA more to do
kernel.func @blocks() blocks(%block = 2147483648) threads(%thread = 32) {
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @cluster has clusters of 16 CTAs, one holds 8
kernel.func @cluster() blocks(%block = 32) threads(%thread = 32) cluster 16 {
}

// -----

// 227 KB, of which 8 bytes are barriers.
// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @shared needs 232464 bytes of shared memory in a CTA, sm_90 allows 232448; stage less or take smaller tiles
kernel.func @shared() blocks(%block = 1) threads(%thread = 32) {
  %full = kernel.mbarrier 1 arrivals 32
  %s = kernel.alloc : memref<58112xf32, #tile.memory<shared>>
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @barriers declares 49168 bytes of barriers, 49152 can be static; make fewer
kernel.func @barriers() blocks(%block = 1) threads(%thread = 32) {
  %full = kernel.mbarrier 6145 arrivals 32
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @resident wants 33 CTAs on an SM, sm_90 allows 32; lower the occupancy
kernel.func @resident() blocks(%block = 1) threads(%thread = 32) occupancy 33 {
}

// -----

// A warp counts as a whole.
// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @warps wants 4 CTAs on an SM, which are 2176 threads, sm_90 allows 2048; lower the occupancy
kernel.func @warps() blocks(%block = 1) threads(%thread = 513) occupancy 4 {
}

// -----

// 3 CTAs with 75 KB each and 1 KB of the system.
// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @slabs wants 3 CTAs on an SM, which take 233856 bytes of shared memory, sm_90 has 233472; lower the occupancy or stage less
kernel.func @slabs() blocks(%block = 1) threads(%thread = 128) occupancy 3 {
  %s = kernel.alloc : memref<19204xf32, #tile.memory<shared>>
}

// -----

// 64 accumulators of 8 bytes and one of 4 are carried; what is filled in each iteration, or only read, is not.
// CHECK: verify_resources.mlir:[[# @LINE + 6]]:3: error: loop.for: @registers carries 129 registers of a thread from one iteration to the next, sm_90 leaves it 128 where 2 x 256 threads share an SM; take smaller register tiles
kernel.func @registers(%x: memref<1024xf64>) blocks(%block = 1) threads(%thread = 256) occupancy 2 {
  %acc = kernel.alloc : memref<8x8xf64, #tile.memory<register>>
  %count = kernel.alloc : memref<1xi32, #tile.memory<register>>
  %factors = kernel.alloc : memref<8xf64, #tile.memory<register>>
  %row = kernel.alloc : memref<256xf64, #tile.memory<register>>
  loop.for %k = 0 to 128 {
    loop.for %i = 0 to 8 unroll {
      kernel.move 1 %x[%k * 8 + %i] to %factors[%i] : memref<1024xf64> to memref<8xf64, #tile.memory<register>>
    }
    loop.for %i = 0 to 8 unroll {
      loop.for %j = 0 to 8 unroll {
        %a = loop.load %factors[%i] : memref<8xf64, #tile.memory<register>>
        %b = loop.load %row[%j] : memref<256xf64, #tile.memory<register>>
        %old = loop.load %acc[%i, %j] : memref<8x8xf64, #tile.memory<register>>
        %new = math.fma %a, %b, %old : f64
        loop.store %new, %acc[%i, %j] : memref<8x8xf64, #tile.memory<register>>
      }
    }
    loop.for %inner = 0 to 4 {
      %old = loop.load %count[0] : memref<1xi32, #tile.memory<register>>
      %new = arith.addi %old, %old : i32
      loop.store %new, %count[0] : memref<1xi32, #tile.memory<register>>
    }
  }
}

// -----

// 384 threads start with 168 registers each; what a role carries counts against its own.
// CHECK: verify_resources.mlir:[[# @LINE + 3]]:5: error: kernel.role: @roles has roles that ask for 68608 registers, and a CTA starts with 384 x 168 = 64512 where 1 share an SM; lower those of a role
kernel.func @roles() blocks(%block = 1) threads(%thread = 384) {
  kernel.roles {
    kernel.role producer(%copier = 128) registers 40 {}
    kernel.role consumers(%reader = 256) registers 248 {}
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 5]]:7: error: loop.for: @budget carries 33 registers of a thread from one iteration to the next, sm_90 leaves it 24 in the role producer; take smaller register tiles
kernel.func @budget(%x: memref<33xf32>) blocks(%block = 1) threads(%thread = 384) {
  kernel.roles {
    kernel.role producer(%copier = 128) registers 24 {
      %acc = kernel.alloc : memref<33xf32, #tile.memory<register>>
      loop.for %k = 0 to 128 {
        loop.for %i = 0 to 33 unroll {
          %old = loop.load %acc[%i] : memref<33xf32, #tile.memory<register>>
          %new = arith.addf %old, %old : f32
          loop.store %new, %acc[%i] : memref<33xf32, #tile.memory<register>>
        }
      }
    }
    kernel.role consumers(%reader = 256) registers 240 {}
  }
}

// -----

// A product needs its registers at the start, whatever its role gets later.
// CHECK: verify_resources.mlir:[[# @LINE + 7]]:7: error: kernel.wgmma: @product needs 90 registers of a thread for a product, and starts with 80 where 2 x 384 threads share an SM; take fewer columns or a lower occupancy
kernel.func @product() blocks(%block = 1) threads(%thread = 384) occupancy 2 {
  %s = kernel.alloc : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  kernel.roles {
    kernel.role producer(%copier = 128) registers 24 {}
    kernel.role consumers(%reader = 256) registers 104 {
      %c = kernel.alloc : memref<64xf32, #tile.memory<register>>
      kernel.wgmma m64n128k16 %s[d0, d1] * %s[d0, d1] into %c[0] : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<64xf32, #tile.memory<register>>
    }
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 4]]:7: error: kernel.role: @budgets uses registers of roles, which sm_120 does not have; only sm_90 has them
builtin.module attributes {kernel.target = #kernel.target<sm_120, threads_per_block = 1024, threads_per_sm = 1536, registers_per_sm = 65536, registers_per_thread = 255, blocks_per_sm = 24, shared_per_sm = 102400, shared_per_block = 101376>} {
  kernel.func @budgets() blocks(%block = 1) threads(%thread = 128) {
    kernel.roles {
      kernel.role all(%t = 128) registers 104 {}
    }
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 4]]:5: error: kernel.move: @copies uses asynchronous copies, which sm_75 does not have; they need sm_80
builtin.module attributes {kernel.target = #kernel.target<sm_75, threads_per_block = 1024, shared_per_block = 65536>} {
  kernel.func @copies(%x: memref<32xf32>) blocks(%block = 1) threads(%thread = 32) {
    %s = kernel.alloc : memref<32xf32, #tile.memory<shared>>
    kernel.move 1 async %x[%thread] to %s[%thread] : memref<32xf32> to memref<32xf32, #tile.memory<shared>>
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 3]]:5: error: kernel.wait_group: @groups uses groups of asynchronous copies, which sm_75 does not have; they need sm_80
builtin.module attributes {kernel.target = #kernel.target<sm_75, threads_per_block = 1024, shared_per_block = 65536>} {
  kernel.func @groups() blocks(%block = 1) threads(%thread = 32) {
    kernel.wait_group 0
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 3]]:5: error: kernel.mbarrier: @phases uses barriers with phases, which sm_75 does not have; they need sm_80
builtin.module attributes {kernel.target = #kernel.target<sm_75, threads_per_block = 1024, shared_per_block = 65536>} {
  kernel.func @phases() blocks(%block = 1) threads(%thread = 32) {
    %full = kernel.mbarrier 1 arrivals 32
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 4]]:5: error: kernel.arrive: @bytes uses phases that expect bytes, which sm_80 does not have; they need sm_90
builtin.module attributes {kernel.target = #kernel.target<sm_80, threads_per_block = 1024, shared_per_block = 166912>} {
  kernel.func @bytes() blocks(%block = 1) threads(%thread = 32) {
    %full = kernel.mbarrier 1 arrivals 32
    kernel.arrive %full[0] expect 128
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 3]]:5: error: kernel.fence_proxy_async: @boxes uses copies of boxes, which sm_80 does not have; they need sm_90
builtin.module attributes {kernel.target = #kernel.target<sm_80, threads_per_block = 1024, shared_per_block = 166912>} {
  kernel.func @boxes() blocks(%block = 1) threads(%thread = 32) {
    kernel.fence_proxy_async
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 2]]:3: error: kernel.func: @clusters uses clusters, which sm_80 does not have; they need sm_90
builtin.module attributes {kernel.target = #kernel.target<sm_80, threads_per_block = 1024, shared_per_block = 166912>} {
  kernel.func @clusters() blocks(%block = 2) threads(%thread = 32) cluster 2 {
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 3]]:5: error: kernel.cluster_barrier: @together uses operations of clusters, which sm_80 does not have; they need sm_90
builtin.module attributes {kernel.target = #kernel.target<sm_80, threads_per_block = 1024, shared_per_block = 166912>} {
  kernel.func @together() blocks(%block = 2) threads(%thread = 32) {
    kernel.cluster_barrier
  }
}

// -----

// What fills the target to the last byte passes.
// CHECK-LABEL: kernel.func @full
kernel.func @full() blocks(%block = 2147483640) threads(%thread = 1024) cluster 8 occupancy 2 {
  %s = kernel.alloc : memref<28928xf32, #tile.memory<shared>>
}

// -----

// CHECK-LABEL: kernel.func @small
kernel.func @small() blocks(%block = 2147483647) threads(%thread = 64) occupancy 32 {
}

// CHECK-LABEL: kernel.func @many
kernel.func @many() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 6144 arrivals 64
}

// CHECK-LABEL: kernel.func @alone
kernel.func @alone(%x: memref<64xf32>) blocks(%block = 1) threads(%thread = 256) {
  %s = kernel.alloc : memref<58112xf32, #tile.memory<shared>>
  %acc = kernel.alloc : memref<255xf32, #tile.memory<register>>
  loop.for %k = 0 to 64 {
    loop.for %i = 0 to 255 unroll {
      %old = loop.load %acc[%i] : memref<255xf32, #tile.memory<register>>
      %new = arith.addf %old, %old : f32
      loop.store %new, %acc[%i] : memref<255xf32, #tile.memory<register>>
    }
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 1]]:1: error: kernel.func: @unsized: tensor<4xf32> has no size in memory
kernel.func @unsized(%x: tensor<4xf32>) blocks(%block = 1) threads(%thread = 32) {
}

// -----

// CHECK: the target sm_90 does not state 'threads_per_block'; add `threads_per_block = ...` to kernel.target
builtin.module attributes {kernel.target = #kernel.target<sm_90>} {
  kernel.func @unstated() blocks(%block = 1) threads(%thread = 32) {
  }
}

// -----

// CHECK: verify_resources.mlir:[[# @LINE + 5]]:5: error: kernel.wgmma: @warpgroups uses products of warpgroups, which sm_120 does not have; only sm_90 has them
builtin.module attributes {kernel.target = #kernel.target<sm_120, threads_per_block = 1024, shared_per_block = 101376>} {
  kernel.func @warpgroups() blocks(%block = 1) threads(%thread = 128) {
    %xs = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
    %sums = kernel.alloc : memref<32xf32, #tile.memory<register>>
    kernel.wgmma m64n64k16 %xs[d0, d1] * %xs[d0, d1] into %sums[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  }
}
