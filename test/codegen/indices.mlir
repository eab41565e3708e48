// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// Subscripts are one sum with the strides folded in.
// CHECK-LABEL: k_linear
// CHECK:         const int row = block * 8 + thread / 32;
// CHECK-NEXT:    const float v = x[row * 4096 + thread % 32 * 64 + 5];
// CHECK-NEXT:    const float v_1 = x[(thread + 3) / 5 * 4096 + (row + thread * 2) % 7 * 64 - thread + 4];
kernel.func @k_linear(%x: memref<1024x64x64xf32>) blocks(%block = 128) threads(%thread = 256) {
  %row = loop.index [%block * 8 + %thread floordiv 32]
  %0 = loop.load %x[%row, %thread mod 32, 5] : memref<1024x64x64xf32>
  %1 = loop.load %x[(%thread + 3) floordiv 5, (%row + %thread * 2) mod 7, 4 - %thread] : memref<1024x64x64xf32>
}

// -----

// C truncates towards zero, so a quotient or remainder of what may be negative is a floor by hand.
// CHECK:         T floor_div(T a, T b)
// CHECK:         T floor_mod(T a, T b)
// CHECK-LABEL: k_negative
// CHECK:         const int q = floor_div(-thread, 8);
// CHECK-NEXT:    const int r = floor_mod(-thread, 8);
// CHECK-NEXT:    const int c = (thread + 7) / 8;
// CHECK-NEXT:    const int s = (thread + 4) / 8 - 1;
kernel.func @k_negative() blocks(%block = 1) threads(%thread = 32) {
  %q = loop.index [(-%thread) floordiv 8]
  %r = loop.index [(-%thread) mod 8]
  %c = loop.index [%thread ceildiv 8]
  %s = loop.index [(%thread - 4) floordiv 8]
}

// -----

// A divisor of 64 bits makes the dividend one, and no remainder overflows on the way.
// CHECK:           const T r = a % b;
// CHECK-NEXT:      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
// CHECK-LABEL: k_divisors
// CHECK:         const int q = floor_div((long long)(-thread), 4294967296LL);
// CHECK-NEXT:    const int r = floor_mod(-thread, 2147483647);
kernel.func @k_divisors() blocks(%block = 1) threads(%thread = 32) {
  %q = loop.index [(-%thread) floordiv 4294967296]
  %r = loop.index [(-%thread) mod 2147483647]
}

// -----

// Offsets that can reach 2^31 elements are 64-bit.
// CHECK-LABEL: k_large
// CHECK:         const float v = x[(long long)block * 65536 + thread];
// CHECK-NEXT:    const float v_1 = y[block * 65500 + thread];
// CHECK-NEXT:    const long long far = (long long)block * 131072 + thread;
// CHECK-NEXT:    const float v_2 = x[far];
kernel.func @k_large(%x: memref<32769x65536xf32>, %y: memref<32769x65500xf32>) blocks(%block = 32769) threads(%thread = 256) {
  %0 = loop.load %x[%block, %thread] : memref<32769x65536xf32>
  %1 = loop.load %y[%block, %thread] : memref<32769x65500xf32>
  %far = loop.index [%block * 131072 + %thread]
  %2 = loop.load %x[0, %far] : memref<32769x65536xf32>
}

// -----

// A gathered index is an int where its type is, and is widened where its product may not fit.
// CHECK-LABEL: k_gather
// CHECK:         const int k = v;
// CHECK-NEXT:    const float v_1 = x[(long long)k * 8 + 3];
// CHECK-NEXT:    const float v_2 = y[k];
// CHECK:         const long long k_1 = v_3;
// CHECK-NEXT:    const float v_4 = y[k_1];
kernel.func @k_gather(%i: memref<32xi32>, %l: memref<32xi64>, %x: memref<100x8xf32>, %y: memref<100xf32>) blocks(%block = 1) threads(%thread = 32) {
  %0 = loop.load %i[%thread] : memref<32xi32>
  %k = arith.index_cast %0 : i32 to index
  %1 = loop.load %x[%k, 3] : memref<100x8xf32>
  %2 = loop.load %y[%k] : memref<100xf32>
  %3 = loop.load %l[%thread] : memref<32xi64>
  %k_1 = arith.index_cast %3 : i64 to index
  %4 = loop.load %y[%k_1] : memref<100xf32>
}

// -----

// Loop bounds: constant, empty, affine, a minimum, unknown.
// CHECK-LABEL: k_loops
// CHECK:         #pragma unroll 1
// CHECK-NEXT:    for (int i = 0; i < 3; ++i) {
// CHECK-NEXT:      #pragma unroll
// CHECK-NEXT:      for (int j = 0; j < 0; ++j) {
// CHECK-NEXT:      }
// CHECK-NEXT:      #pragma unroll 1
// CHECK-NEXT:      for (int j_1 = 0; j_1 < i * 2 + 1 && j_1 < thread; ++j_1) {
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    #pragma unroll 1
// CHECK-NEXT:    for (long long k = 0; k < n; ++k) {
// CHECK-NEXT:    }
// CHECK-NEXT:    #pragma unroll 1
// CHECK-NEXT:    for (int k_1 = 0; k_1 < n && k_1 < 64; ++k_1) {
kernel.func @k_loops(%n: index) blocks(%block = 1) threads(%thread = 32) {
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 0 unroll {
    }
    loop.for %j = 0 to min(%i * 2 + 1, %thread) {
    }
  }
  loop.for %k = 0 to %n {
  }
  loop.for %k = 0 to min(%n, 64) {
  }
}

// -----

// Conditions, as control flow and as a value.
// CHECK-LABEL: k_conditions
// CHECK:         if (thread * 4 < 1000 && block < -thread + 7) {
// CHECK-NEXT:      const bool inside = thread + 2 < 5;
// CHECK-NEXT:      const float v = inside ? 1.0f : __int_as_float(0xff800000);
// CHECK-NEXT:    }
kernel.func @k_conditions() blocks(%block = 8) threads(%thread = 32) {
  %one = arith.constant 1.0 : f32
  %low = arith.constant 0xff800000 : f32
  loop.guard where (%thread * 4 < 1000, %block < 7 - %thread) {
    %inside = loop.inside where (%thread + 2 < 5)
    %0 = arith.select %inside, %one, %low : f32
  }
}
