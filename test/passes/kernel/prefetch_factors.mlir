// What a thread holds of the next step is loaded while this one multiplies, and its parts are computed behind the step.
// RUN: deplodock-opt %s -p prefetch-factors | filecheck %s
// RUN: deplodock-opt %s -p prefetch-factors,prefetch-factors | filecheck %s

// CHECK-LABEL: @k_steps
// CHECK:      %[[IN:.*]] = kernel.alloc : memref<8x2xf32, #tile.memory<register>>
// CHECK-NEXT: %[[HIGH:.*]] = kernel.alloc : memref<8x2xf32, #tile.memory<register>>
// CHECK-NEXT: %first = loop.index [0]
// CHECK-NEXT: kernel.wait_phase %full[%first mod 4], %first floordiv 4 mod 2
// CHECK:      kernel.move 1 %x[%first mod 4, {{.*}}] to %[[IN]]
// CHECK:      loop.store {{.*}}, %[[HIGH]]
// CHECK:      loop.for %k = 0 to 5 {
// CHECK-NEXT:   %part = kernel.alloc
// CHECK-NEXT:   kernel.wgmma_fence
// CHECK-NEXT:   kernel.wgmma m64n64k8 %[[HIGH]][0, 0] * %x[%k mod 4, d0, d1]
// CHECK-NEXT:   kernel.wgmma_commit
// CHECK-NEXT:   %later = loop.index [%k + 1]
// CHECK-NEXT:   kernel.wait_phase %full[%later mod 4], %later floordiv 4 mod 2
// CHECK:        kernel.move 1 %x[%later mod 4, {{.*}}] to %[[IN]]
// CHECK:        kernel.wgmma_wait 0
// CHECK-NEXT:   kernel.arrive warp %empty[%k mod 4]
// CHECK-NEXT:   loop.load %part
// CHECK:        loop.load %[[IN]]
// CHECK-NEXT:   math_ext.high_part
// CHECK-NEXT:   loop.store {{.*}}, %[[HIGH]]
// CHECK:      %last = loop.index [5]
// CHECK-NEXT: kernel.alloc
// CHECK-NEXT: kernel.wgmma_fence
// CHECK-NEXT: kernel.wgmma m64n64k8 %[[HIGH]][0, 0] * %x[%last mod 4, d0, d1]
// CHECK-NEXT: kernel.wgmma_commit
// CHECK-NEXT: kernel.wgmma_wait 0
// CHECK-NEXT: kernel.arrive warp %empty[%last mod 4]

// Where registers have no room, or products read what is loaded, steps stay as they are.
// RUN: sed 's/registers 240/registers 96/' %s > %t.narrow
// RUN: deplodock-opt %t.narrow > %t.before
// RUN: deplodock-opt %t.narrow -p prefetch-factors | diff %t.before -
// RUN: sed 's/k8 %high/k8 %in/' %s > %t.loaded
// RUN: deplodock-opt %t.loaded > %t.before
// RUN: deplodock-opt %t.loaded -p prefetch-factors | diff %t.before -

builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  kernel.func @k_steps(%out: memref<6x128xf32>) blocks(%block = 1) threads(%thread = 384) {
    %full = kernel.mbarrier 4 arrivals 1
    %empty = kernel.mbarrier 4 arrivals 4
    %x = kernel.alloc : memref<4x64x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
    kernel.roles {
      kernel.role producer(%copier = 256) registers 24 {
      }
      kernel.role consumers(%reader = 128) registers 240 {
        loop.for %k = 0 to 6 {
          kernel.wait_phase %full[%k mod 4], %k floordiv 4 mod 2
          %in = kernel.alloc : memref<8x2xf32, #tile.memory<register>>
          loop.for %q = 0 to 8 unroll {
            loop.for %h = 0 to 2 unroll {
              kernel.move 1 %x[%k mod 4, %h * 8 + %reader floordiv 4 mod 8, %q * 4 + %reader mod 4] to %in[%q, %h] : memref<4x64x32xf32, #tile.swizzle<128>, #tile.memory<shared>> to memref<8x2xf32, #tile.memory<register>>
            }
          }
          %high = kernel.alloc : memref<8x2xf32, #tile.memory<register>>
          loop.for %q_1 = 0 to 8 unroll {
            loop.for %h_1 = 0 to 2 unroll {
              %0 = loop.load %in[%q_1, %h_1] : memref<8x2xf32, #tile.memory<register>>
              %1 = math_ext.high_part %0 : f32
              loop.store %1, %high[%q_1, %h_1] : memref<8x2xf32, #tile.memory<register>>
            }
          }
          %part = kernel.alloc : memref<32xf32, #tile.memory<register>>
          kernel.wgmma_fence
          kernel.wgmma m64n64k8 %high[0, 0] * %x[%k mod 4, d0, d1] into %part[0] anew : memref<8x2xf32, #tile.memory<register>> * memref<4x64x32xf32, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
          kernel.wgmma_commit
          kernel.wgmma_wait 0
          kernel.arrive warp %empty[%k mod 4]
          %sum = loop.load %part[0] : memref<32xf32, #tile.memory<register>>
          loop.store %sum, %out[%k, %reader] : memref<6x128xf32>
        }
      }
    }
  }
}
