// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// Constants keep their exact value: the shortest decimal of their type, or their bits.
// CHECK-LABEL: k_constants
// CHECK:         f[0] = 0.1f;
// CHECK-NEXT:    f[0] = 1.1920929e-07f;
// CHECK-NEXT:    f[0] = 16777216.0f;
// CHECK-NEXT:    f[0] = (-0.0f);
// CHECK-NEXT:    f[0] = 1.4013e-45f;
// CHECK-NEXT:    f[0] = __int_as_float(0x7f800000);
// CHECK-NEXT:    f[0] = __int_as_float(0xff800000);
// CHECK-NEXT:    f[0] = __int_as_float(0x7fc00000);
// CHECK-NEXT:    d[0] = 0.1;
// CHECK-NEXT:    d[0] = 1e+300;
// CHECK-NEXT:    d[0] = __longlong_as_double(0xfff0000000000000);
// CHECK-NEXT:    i[0] = (-2147483647 - 1);
// CHECK-NEXT:    i[0] = (-1);
// CHECK-NEXT:    l[0] = (-9223372036854775807LL - 1);
// CHECK-NEXT:    l[0] = 4294967296LL;
// CHECK-NEXT:    b[0] = true;
kernel.func @k_constants(%f: memref<1xf32>, %d: memref<1xf64>, %i: memref<1xi32>, %l: memref<1xi64>, %b: memref<1xi1>) blocks(%block = 1) threads(%thread = 1) {
  %f0 = arith.constant 0.1 : f32
  %f1 = arith.constant 1.1920929e-07 : f32
  %f2 = arith.constant 16777216.0 : f32
  %f3 = arith.constant -0.0 : f32
  %f4 = arith.constant 1.401298464324817e-45 : f32
  %f5 = arith.constant 0x7f800000 : f32
  %f6 = arith.constant 0xff800000 : f32
  %f7 = arith.constant 0x7fc00000 : f32
  loop.store %f0, %f[0] : memref<1xf32>
  loop.store %f1, %f[0] : memref<1xf32>
  loop.store %f2, %f[0] : memref<1xf32>
  loop.store %f3, %f[0] : memref<1xf32>
  loop.store %f4, %f[0] : memref<1xf32>
  loop.store %f5, %f[0] : memref<1xf32>
  loop.store %f6, %f[0] : memref<1xf32>
  loop.store %f7, %f[0] : memref<1xf32>
  %d0 = arith.constant 0.1 : f64
  %d1 = arith.constant 1.0e300 : f64
  %d2 = arith.constant 0xfff0000000000000 : f64
  loop.store %d0, %d[0] : memref<1xf64>
  loop.store %d1, %d[0] : memref<1xf64>
  loop.store %d2, %d[0] : memref<1xf64>
  %i0 = arith.constant -2147483648 : i32
  %i1 = arith.constant -1 : i32
  loop.store %i0, %i[0] : memref<1xi32>
  loop.store %i1, %i[0] : memref<1xi32>
  %l0 = arith.constant -9223372036854775808 : i64
  %l1 = arith.constant 4294967296 : i64
  loop.store %l0, %l[0] : memref<1xi64>
  loop.store %l1, %l[0] : memref<1xi64>
  %b0 = arith.constant true
  loop.store %b0, %b[0] : memref<1xi1>
}

// -----

// Floating point: NaN-propagating extrema, accurate functions of the right precision, one rounding of fma.
// CHECK:         float maximumf(float a, float b)
// CHECK:           asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
// CHECK-LABEL: k_floats
// CHECK:         const float v_1 = maximumf(v, 0.0f);
// CHECK-NEXT:    const float v_2 = expf(v_1);
// CHECK-NEXT:    const float v_3 = v_2 / v;
// CHECK-NEXT:    const float v_4 = fmaf(v_3, v, v_1);
// CHECK-NEXT:    const bool v_5 = !(v_4 >= v);
// CHECK-NEXT:    const double v_6 = (double)v_4;
// CHECK-NEXT:    const double v_7 = exp(v_6);
// CHECK-NEXT:    const double v_8 = -v_7;
// CHECK-NEXT:    const float v_9 = (float)v_8;
// CHECK-NEXT:    const float v_10 = v_5 ? v_9 : v;
// CHECK-NEXT:    const float v_11 = fmodf(v_10, v);
// CHECK-NEXT:    const double v_12 = fmod(v_8, v_7);
kernel.func @k_floats(%x: memref<32xf32>) blocks(%block = 1) threads(%thread = 32) {
  %zero = arith.constant 0.0 : f32
  %0 = loop.load %x[%thread] : memref<32xf32>
  %1 = arith.maximumf %0, %zero : f32
  %2 = math.exp %1 : f32
  %3 = arith.divf %2, %0 : f32
  %4 = math.fma %3, %0, %1 : f32
  %5 = arith.cmpf ult, %4, %0 : f32
  %6 = arith.extf %4 : f32 to f64
  %7 = math.exp %6 : f64
  %8 = arith.negf %7 : f64
  %9 = arith.truncf %8 : f64 to f32
  %10 = arith.select %5, %9, %0 : f32
  %11 = math_ext.fmod %10, %0 : f32
  %12 = math_ext.fmod %8, %7 : f64
}

// -----

// Integers wrap around; i1 is a truth value, and as a signed number true is -1.
// CHECK-LABEL: k_integers
// CHECK:         const int v_1 = (int)((unsigned)v + (unsigned)(-1));
// CHECK-NEXT:    const int v_2 = floor_div(v_1, v);
// CHECK-NEXT:    const int v_3 = (int)((unsigned)v_2 >> 3);
// CHECK-NEXT:    const bool v_4 = (unsigned)v_3 < (unsigned)v;
// CHECK-NEXT:    const int v_5 = v_4 ? -1 : 0;
// CHECK-NEXT:    const int v_6 = (int)v_4;
// CHECK-NEXT:    const float v_7 = v_4 ? -1.0f : 0.0f;
// CHECK-NEXT:    const bool v_8 = v_4 != flag;
// CHECK-NEXT:    const bool v_9 = v_8 > flag;
kernel.func @k_integers(%i: memref<32xi32>, %b: memref<32xi1>) blocks(%block = 1) threads(%thread = 32) {
  %minus_one = arith.constant -1 : i32
  %three = arith.constant 3 : i32
  %0 = loop.load %i[%thread] : memref<32xi32>
  %flag = loop.load %b[%thread] : memref<32xi1>
  %1 = arith.addi %0, %minus_one : i32
  %2 = arith.floordivsi %1, %0 : i32
  %3 = arith.shrui %2, %three : i32
  %4 = arith.cmpi ult, %3, %0 : i32
  %5 = arith.extsi %4 : i1 to i32
  %6 = arith.extui %4 : i1 to i32
  %7 = arith.sitofp %4 : i1 to f32
  %8 = arith.xori %4, %flag : i1
  %9 = arith.cmpi slt, %8, %flag : i1
}

// -----

// Index arithmetic is 64-bit, whatever its operands are declared as.
// CHECK-LABEL: k_index_arithmetic
// CHECK:         const long long v = (long long)((unsigned long long)(long long)thread << (long long)40);
kernel.func @k_index_arithmetic() blocks(%block = 1) threads(%thread = 32) {
  %forty = arith.constant 40 : index
  %0 = arith.shli %thread, %forty : index
}

// -----

// Shuffles of every type.
// CHECK-LABEL: k_shuffles
// CHECK:         const double v_1 = __shfl_xor_sync(0xffffffff, v, 16);
// CHECK:         const long long v_3 = __shfl_xor_sync(0xffffffff, v_2, 1);
// CHECK:         const bool v_5 = __shfl_xor_sync(0xffffffff, v_4, 2);
// CHECK:         const long long v_6 = __shfl_xor_sync(0xffffffff, thread, 4);
kernel.func @k_shuffles(%d: memref<32xf64>, %l: memref<32xi64>, %b: memref<32xi1>) blocks(%block = 1) threads(%thread = 32) {
  %0 = loop.load %d[%thread] : memref<32xf64>
  %1 = kernel.shuffle_xor %0, 16 : f64
  %2 = loop.load %l[%thread] : memref<32xi64>
  %3 = kernel.shuffle_xor %2, 1 : i64
  %4 = loop.load %b[%thread] : memref<32xi1>
  %5 = kernel.shuffle_xor %4, 2 : i1
  %6 = kernel.shuffle_xor %thread, 4 : index
}
