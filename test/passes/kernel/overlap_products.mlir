// The products of a step run on while the next step waits for its slot; the slot of a step is released one step later.
// RUN: deplodock-opt %s -p overlap-products --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p overlap-products,overlap-products --split-input-file | filecheck %s

// CHECK-LABEL: @k_steps
// CHECK:      %first = loop.index [0]
// CHECK-NEXT: kernel.wait_phase %full[%first mod 4], %first floordiv 4 mod 2
// CHECK:      kernel.wgmma_commit
// CHECK-NEXT: loop.for %k = 0 to 5 {
// CHECK-NEXT:   %[[NEXT:.*]] = loop.index [%k + 1]
// CHECK-NEXT:   kernel.wait_phase %full[%[[NEXT]] mod 4], %[[NEXT]] floordiv 4 mod 2
// CHECK:        kernel.wgmma_commit
// CHECK-NEXT:   kernel.wgmma_wait 1
// CHECK-NEXT:   kernel.arrive warp %empty[%k mod 4]
// CHECK-NEXT: }
// CHECK-NEXT: kernel.wgmma_wait 0
// CHECK-NEXT: kernel.arrive warp %empty[1]
// CHECK-NEXT: loop.load %acc
kernel.func @k_steps(%out: memref<128xf32>) blocks(%block = 1) threads(%thread = 128) {
  %full = kernel.mbarrier 4 arrivals 1
  %empty = kernel.mbarrier 4 arrivals 4
  %x = kernel.alloc : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  loop.for %k = 0 to 6 {
    kernel.wait_phase %full[%k mod 4], %k floordiv 4 mod 2
    kernel.wgmma_fence
    kernel.wgmma m64n64k16 %x[%k mod 4, d0, d1] * %x[%k mod 4, d0, d1] into %acc[0] : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
    kernel.wgmma_commit
    kernel.wgmma_wait 0
    kernel.arrive warp %empty[%k mod 4]
  }
  %sum = loop.load %acc[0] : memref<32xf32, #tile.memory<register>>
  loop.store %sum, %out[%thread] : memref<128xf32>
}

// -----

// The steps of a tile are inside of the loop over the tiles of a CTA, and the ring goes on from tile to tile.
// CHECK-LABEL: @k_tiles
// CHECK:      loop.for %turn = 0 to 2 {
// CHECK:        %first = loop.index [0]
// CHECK-NEXT:   kernel.wait_phase %full[(%turn * 6 + %first) mod 4], (%turn * 6 + %first) floordiv 4 mod 2
// CHECK:        loop.for %k = 0 to 5 {
// CHECK:          kernel.wgmma_wait 1
// CHECK-NEXT:     kernel.arrive warp %empty[(%turn * 6 + %k) mod 4]
// CHECK-NEXT:   }
// CHECK-NEXT:   kernel.wgmma_wait 0
// CHECK-NEXT:   kernel.arrive warp %empty[%turn * 3 mod 2 * 2 + 1]
kernel.func @k_tiles(%out: memref<2x128xf32>) blocks(%block = 1) threads(%thread = 128) {
  %full = kernel.mbarrier 4 arrivals 1
  %empty = kernel.mbarrier 4 arrivals 4
  %x = kernel.alloc : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  loop.for %turn = 0 to 2 {
    %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
    loop.for %k = 0 to 6 {
      kernel.wait_phase %full[(%turn * 6 + %k) mod 4], (%turn * 6 + %k) floordiv 4 mod 2
      kernel.wgmma_fence
      kernel.wgmma m64n64k16 %x[(%turn * 6 + %k) mod 4, d0, d1] * %x[(%turn * 6 + %k) mod 4, d0, d1] into %acc[0] : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
      kernel.wgmma_commit
      kernel.wgmma_wait 0
      kernel.arrive warp %empty[(%turn * 6 + %k) mod 4]
    }
    %sum = loop.load %acc[0] : memref<32xf32, #tile.memory<register>>
    loop.store %sum, %out[%turn, %thread] : memref<2x128xf32>
  }
}

// -----

// A loop that fills slots itself would wait for a slot that it has not released, and what reads sums needs the products.
// CHECK-LABEL: @k_fills
// CHECK:     kernel.wgmma_wait 0
// CHECK-NOT: kernel.wgmma_wait 1
kernel.func @k_fills(%map: !kernel.tensor_map<memref<64x256xbf16>, box [64, 64], swizzle 128>, %out: memref<128xf32>) blocks(%block = 1) threads(%thread = 128) {
  %full = kernel.mbarrier 4 arrivals 1
  %empty = kernel.mbarrier 4 arrivals 4
  %x = kernel.alloc : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  loop.for %k = 0 to 6 {
    kernel.tma_load %map[0, %k * 64] to %x[%k mod 4, 0, 0] signal %full[%k mod 4] : !kernel.tensor_map<memref<64x256xbf16>, box [64, 64], swizzle 128> to memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
    kernel.wait_phase %full[%k mod 4], %k floordiv 4 mod 2
    kernel.wgmma_fence
    kernel.wgmma m64n64k16 %x[%k mod 4, d0, d1] * %x[%k mod 4, d0, d1] into %acc[0] : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
    kernel.wgmma_commit
    kernel.wgmma_wait 0
    kernel.arrive warp %empty[%k mod 4]
  }
  loop.for %k_1 = 0 to 6 {
    kernel.wgmma_fence
    kernel.wgmma m64n64k16 %x[%k_1 mod 4, d0, d1] * %x[%k_1 mod 4, d0, d1] into %acc[0] : memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<4x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
    kernel.wgmma_commit
    kernel.wgmma_wait 0
    %sum = loop.load %acc[0] : memref<32xf32, #tile.memory<register>>
    loop.store %sum, %out[%thread] : memref<128xf32>
    kernel.arrive warp %empty[%k_1 mod 4]
  }
}
