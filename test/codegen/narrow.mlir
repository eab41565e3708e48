// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// Half precision is computed in float and rounded; bytes are unsigned char. Wide accesses go through vectors of bits.

// CHECK:      #include <cuda_fp16.h>
// CHECK-NEXT: #include <cuda_bf16.h>
// CHECK:      void __launch_bounds__(8) k_narrow(const __half* __restrict__ h, __nv_bfloat16* b, const unsigned char* __restrict__ u, unsigned char* __restrict__ w) {
// CHECK:        __align__(16) __half r[4];
// CHECK-NEXT:   *reinterpret_cast<short4*>(&r[0]) = (thread * 4 < 30) ? *reinterpret_cast<const short4*>(&h[thread * 4]) : make_short4(0, 0, 0, 0);
// CHECK-NEXT:   __nv_bfloat16 s[1];
// CHECK-NEXT:   s[0] = (thread < 7) ? b[thread] : __nv_bfloat16(0.0f);
// CHECK-NEXT:   const __half x = r[1];
// CHECK-NEXT:   const float f = __half2float(x);
// CHECK-NEXT:   const __nv_bfloat16 y = __float2bfloat16_rn(f);
// CHECK-NEXT:   const __nv_bfloat16 z = __float2bfloat16_rn(__bfloat162float(y) + __bfloat162float(__float2bfloat16_rn(1.5f)));
// CHECK-NEXT:   const bool c = __bfloat162float(y) < __bfloat162float(z);
// CHECK-NEXT:   const __nv_bfloat16 m = c ? y : z;
// CHECK-NEXT:   b[thread] = m;
// CHECK-NEXT:   const unsigned char n = u[thread];
// CHECK-NEXT:   const int i = (int)n;
// CHECK-NEXT:   const unsigned char o = (unsigned char)i;
// CHECK-NEXT:   w[thread] = o;
kernel.func @k_narrow(%h: memref<32xf16>, %b: memref<8xbf16>, %u: memref<8xui8>, %w: memref<8xui8>) blocks(%block = 1) threads(%thread = 8) {
  %r = kernel.alloc : memref<4xf16, #tile.memory<register>>
  kernel.move 4 %h[%thread * 4] to %r[0] where (%thread * 4 < 30) : memref<32xf16> to memref<4xf16, #tile.memory<register>>
  %s = kernel.alloc : memref<1xbf16, #tile.memory<register>>
  kernel.move 1 %b[%thread] to %s[0] where (%thread < 7) : memref<8xbf16> to memref<1xbf16, #tile.memory<register>>
  %x = loop.load %r[1] : memref<4xf16, #tile.memory<register>>
  %f = arith.extf %x : f16 to f32
  %y = arith.truncf %f : f32 to bf16
  %one = arith.constant 1.5 : bf16
  %z = arith.addf %y, %one : bf16
  %c = arith.cmpf olt, %y, %z : bf16
  %m = arith.select %c, %y, %z : bf16
  loop.store %m, %b[%thread] : memref<8xbf16>
  %n = loop.load %u[%thread] : memref<8xui8>
  %i = arith.extui %n : ui8 to i32
  %o = arith.trunci %i : i32 to ui8
  loop.store %o, %w[%thread] : memref<8xui8>
}

// -----

// A header is needed where a type only stands before a star.
// CHECK:      #include <cuda_fp16.h>
// CHECK:      void __launch_bounds__(1) k_constant(__half* __restrict__ h) {
kernel.func @k_constant(%h: memref<1xf16>) blocks(%block = 1) threads(%thread = 1) {
  %c = arith.constant 1.5 : f16
  loop.store %c, %h[0] : memref<1xf16>
}
