// Products with the same left factor are one, whose right slab and sums hold those of both, one behind the other.
// RUN: deplodock-opt %s -p merge-products --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p merge-products,merge-products --split-input-file | filecheck %s

// CHECK-LABEL: @k_pair
// CHECK:      %y = kernel.alloc : memref<2x128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
// CHECK-NOT:  kernel.alloc : {{.*}}shared
// CHECK:      kernel.tma_load %b[0, 0] to %y[0, 0, 0] signal
// CHECK:      kernel.tma_load %c[0, 0] to %y[0, 64, 0] signal
// CHECK:      %acc = kernel.alloc : memref<16x2x2xf32, #tile.memory<register>>
// CHECK:      loop.store %{{.*}}, %acc[%j, %h, 0] :
// CHECK:      loop.store %{{.*}}, %acc[%j + 8, %h, 0] :
// CHECK:      kernel.wgmma_fence
// CHECK-NEXT: loop.for %step = 0 to 4 unroll {
// CHECK-NEXT:   kernel.wgmma m64n128k16 %x[0, d0, %step * 16 + d1] * %y[0, d0, %step * 16 + d1] into %acc[0, 0, 0] :
// CHECK-NEXT: }
// CHECK-NEXT: kernel.wgmma_commit
// CHECK:      loop.load %acc[8, 0, 0] :
kernel.func @k_pair(%a: !kernel.tensor_map<memref<64x64xbf16>, box [64, 64], swizzle 128>, %b: !kernel.tensor_map<memref<64x64xbf16>, box [64, 64], swizzle 128>, %c: !kernel.tensor_map<memref<64x64xbf16>, box [64, 64], swizzle 128>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 128) {
  %zero = arith.constant 0.0 : f32
  %full = kernel.mbarrier 1 arrivals 1
  %x = kernel.alloc : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %y = kernel.alloc : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %z = kernel.alloc : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  kernel.tma_load %a[0, 0] to %x[0, 0, 0] signal %full[0] : !kernel.tensor_map<memref<64x64xbf16>, box [64, 64], swizzle 128> to memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  kernel.tma_load %b[0, 0] to %y[0, 0, 0] signal %full[0] : !kernel.tensor_map<memref<64x64xbf16>, box [64, 64], swizzle 128> to memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  kernel.tma_load %c[0, 0] to %z[0, 0, 0] signal %full[0] : !kernel.tensor_map<memref<64x64xbf16>, box [64, 64], swizzle 128> to memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<8x2x2xf32, #tile.memory<register>>
  %acc_1 = kernel.alloc : memref<8x2x2xf32, #tile.memory<register>>
  loop.for %j = 0 to 8 unroll {
    loop.for %h = 0 to 2 unroll {
      loop.store %zero, %acc[%j, %h, 0] : memref<8x2x2xf32, #tile.memory<register>>
      loop.store %zero, %acc_1[%j, %h, 0] : memref<8x2x2xf32, #tile.memory<register>>
    }
  }
  kernel.wgmma_fence
  loop.for %step = 0 to 4 unroll {
    kernel.wgmma m64n64k16 %x[0, d0, %step * 16 + d1] * %y[0, d0, %step * 16 + d1] into %acc[0, 0, 0] : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<8x2x2xf32, #tile.memory<register>>
  }
  loop.for %step_1 = 0 to 4 unroll {
    kernel.wgmma m64n64k16 %x[0, d0, %step_1 * 16 + d1] * %z[0, d0, %step_1 * 16 + d1] into %acc_1[0, 0, 0] : memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<2x64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<8x2x2xf32, #tile.memory<register>>
  }
  kernel.wgmma_commit
  kernel.wgmma_wait 0
  %sum = loop.load %acc_1[0, 0, 0] : memref<8x2x2xf32, #tile.memory<register>>
  loop.store %sum, %out[%thread] : memref<64xf32>
}

// -----

// Columns that walk memory do not follow those of another slab; another left factor is another product.
// CHECK-LABEL: @k_apart
// CHECK: kernel.wgmma m64n64k16 %x[d0, d1] * %y[d1, d0] into %acc[0] :
// CHECK: kernel.wgmma m64n64k16 %x[d0, d1] * %z[d1, d0] into %acc_1[0] :
// CHECK: kernel.wgmma m64n64k16 %x[d0, d1 + 16] * %v[d0, d1] into %acc_2[0] :
// CHECK: kernel.wgmma m64n64k16 %x[d0, d1] * %w[d0, d1] into %acc_3[0] :
kernel.func @k_apart() blocks(%block = 1) threads(%thread = 128) {
  %x = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %y = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %z = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %v = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %w = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %acc_1 = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %acc_2 = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %acc_3 = kernel.alloc : memref<32xf32, #tile.memory<register>>
  kernel.wgmma_fence
  kernel.wgmma m64n64k16 %x[d0, d1] * %y[d1, d0] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %x[d0, d1] * %z[d1, d0] into %acc_1[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %x[d0, d1 + 16] * %v[d0, d1] into %acc_2[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %x[d0, d1] * %w[d0, d1] into %acc_3[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma_commit
  kernel.wgmma_wait 0
}

// -----

// A product has at most 256 columns, and a slab that something else reads stays.
// CHECK-LABEL: @k_large
// CHECK: kernel.wgmma m64n136k16 %x[d0, d1] * %y[d0, d1]
// CHECK: kernel.wgmma m64n136k16 %x[d0, d1] * %z[d0, d1]
// CHECK: kernel.wgmma m64n64k16 %x[d0, d1] * %v[d0, d1]
// CHECK: kernel.wgmma m64n64k16 %x[d0, d1] * %w[d0, d1]
kernel.func @k_large(%out: memref<128xf32>) blocks(%block = 1) threads(%thread = 128) {
  %x = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %y = kernel.alloc : memref<136x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %z = kernel.alloc : memref<136x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %v = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %w = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
  %acc = kernel.alloc : memref<68xf32, #tile.memory<register>>
  %acc_1 = kernel.alloc : memref<68xf32, #tile.memory<register>>
  %acc_2 = kernel.alloc : memref<32xf32, #tile.memory<register>>
  %acc_3 = kernel.alloc : memref<32xf32, #tile.memory<register>>
  kernel.wgmma_fence
  kernel.wgmma m64n136k16 %x[d0, d1] * %y[d0, d1] into %acc[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<136x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<68xf32, #tile.memory<register>>
  kernel.wgmma m64n136k16 %x[d0, d1] * %z[d0, d1] into %acc_1[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<136x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<68xf32, #tile.memory<register>>
  kernel.wgmma_commit
  kernel.wgmma_fence
  kernel.wgmma m64n64k16 %x[d0, d1] * %v[d0, d1] into %acc_2[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %x[d0, d1] * %w[d0, d1] into %acc_3[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma m64n64k16 %w[d0, d1] * %v[d0, d1] into %acc_2[0] : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>
  kernel.wgmma_commit
  kernel.wgmma_wait 0
}
