// What the text of a kernel may use, declared as CUDA's headers do: nvcc takes this file for its own `cuda_runtime.h`,
// with which it would read 1.3 MB before each text. Two of its headers are small: they define qualifiers, vectors and
// the numbers of threads. The rest calls what is built into the compiler, as crt/device_functions.h,
// crt/math_functions.h, sm_20_intrinsics.hpp, sm_30_intrinsics.hpp, cuda_fp16.hpp and cuda_bf16.hpp do, so that the
// code is the same. A text that needs more does not compile with it, and is compiled with CUDA's own.
#pragma once

#include <device_launch_parameters.h>
#include <vector_types.h>

typedef __SIZE_TYPE__ size_t;

#define DEVICE static __device__ __forceinline__
#define BUILTIN extern "C" __device__ __device_builtin__

// Barriers, fences, shuffles, counters and addresses.
BUILTIN void __syncthreads();
BUILTIN int __syncthreads_or(int);
BUILTIN void __threadfence();
BUILTIN void __nvvm_bar_warp_sync(unsigned);
BUILTIN unsigned __nvvm_shfl_idx_sync(unsigned, unsigned, unsigned, unsigned);
BUILTIN unsigned __nvvm_shfl_up_sync(unsigned, unsigned, unsigned, unsigned);
BUILTIN unsigned __nvvm_shfl_bfly_sync(unsigned, unsigned, unsigned, unsigned);
BUILTIN unsigned __uAtomicInc(unsigned*, unsigned);
extern "C" __device__ size_t __nv_cvta_generic_to_shared_impl(const void*);

DEVICE void __syncwarp(unsigned lanes = 0xffffffff) { __nvvm_bar_warp_sync(lanes); }
DEVICE unsigned atomicInc(unsigned* counter, unsigned last) { return __uAtomicInc(counter, last); }
DEVICE size_t __cvta_generic_to_shared(const void* pointer) { return __nv_cvta_generic_to_shared_impl(pointer); }

// The bits of numbers.
BUILTIN int __float_as_int(float);
BUILTIN unsigned __float_as_uint(float);
BUILTIN float __int_as_float(int);
BUILTIN float __uint_as_float(unsigned);
BUILTIN long long __double_as_longlong(double);
BUILTIN double __longlong_as_double(long long);
BUILTIN int __clz(int);
BUILTIN int __clzll(long long);
BUILTIN unsigned __brev(unsigned);
BUILTIN unsigned long long __brevll(unsigned long long);
BUILTIN int __popc(unsigned);
BUILTIN int __popcll(unsigned long long);

// A shuffle moves 32 bits; `bounds` are what PTX's `shfl.sync` calls the segment mask and clamp of a width.
#define SHUFFLE(name, instruction, lane_type, bounds)                                                  \
  DEVICE int name(unsigned lanes, int value, lane_type lane, int width = 32) {                         \
    return instruction(lanes, value, lane, bounds);                                                    \
  }                                                                                                    \
  DEVICE unsigned name(unsigned lanes, unsigned value, lane_type lane, int width = 32) {               \
    return name(lanes, (int)value, lane, width);                                                       \
  }                                                                                                    \
  DEVICE float name(unsigned lanes, float value, lane_type lane, int width = 32) {                     \
    return __int_as_float(instruction(lanes, __float_as_int(value), lane, bounds));                    \
  }                                                                                                    \
  DEVICE long long name(unsigned lanes, long long value, lane_type lane, int width = 32) {             \
    int low, high;                                                                                     \
    asm volatile("mov.b64 {%0,%1}, %2;" : "=r"(low), "=r"(high) : "l"(value));                         \
    high = name(lanes, high, lane, width);                                                             \
    low = name(lanes, low, lane, width);                                                               \
    asm volatile("mov.b64 %0, {%1,%2};" : "=l"(value) : "r"(low), "r"(high));                          \
    return value;                                                                                      \
  }                                                                                                    \
  DEVICE double name(unsigned lanes, double value, lane_type lane, int width = 32) {                   \
    unsigned low, high;                                                                                \
    asm volatile("mov.b64 {%0,%1}, %2;" : "=r"(low), "=r"(high) : "d"(value));                         \
    high = name(lanes, high, lane, width);                                                             \
    low = name(lanes, low, lane, width);                                                               \
    asm volatile("mov.b64 %0, {%1,%2};" : "=d"(value) : "r"(low), "r"(high));                          \
    return value;                                                                                      \
  }
SHUFFLE(__shfl_sync, __nvvm_shfl_idx_sync, int, ((32 - width) << 8) | 0x1f)
SHUFFLE(__shfl_up_sync, __nvvm_shfl_up_sync, unsigned, (32 - width) << 8)
SHUFFLE(__shfl_xor_sync, __nvvm_shfl_bfly_sync, int, ((32 - width) << 8) | 0x1f)
#undef SHUFFLE

// Functions of one, two and three numbers: in C, as `exp` of `double` and `expf`, and in C++, as `exp` of `float`.
BUILTIN float __fdividef(float, float);
BUILTIN float __fsub_rn(float, float);
#define UNARY(name)             \
  BUILTIN double name(double);  \
  BUILTIN float name##f(float); \
  DEVICE float name(float a) { return name##f(a); }
#define BINARY(name)                    \
  BUILTIN double name(double, double);  \
  BUILTIN float name##f(float, float);  \
  DEVICE float name(float a, float b) { return name##f(a, b); }
UNARY(acos) UNARY(acosh) UNARY(asin) UNARY(asinh) UNARY(atan) UNARY(atanh) UNARY(cbrt) UNARY(ceil) UNARY(cos)
UNARY(cosh) UNARY(erf) UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(fabs) UNARY(floor) UNARY(log) UNARY(log10)
UNARY(log1p) UNARY(log2) UNARY(rint) UNARY(round) UNARY(rsqrt) UNARY(sin) UNARY(sinh) UNARY(sqrt) UNARY(tan)
UNARY(tanh) UNARY(trunc)
BINARY(atan2) BINARY(copysign) BINARY(fmax) BINARY(fmin) BINARY(fmod) BINARY(pow)
BUILTIN double fma(double, double, double);
BUILTIN float fmaf(float, float, float);
DEVICE float fma(float a, float b, float c) { return fmaf(a, b, c); }
#undef UNARY
#undef BINARY

#define VECTOR2(vector, type) DEVICE vector make_##vector(type x, type y) { vector v; v.x = x; v.y = y; return v; }
#define VECTOR4(vector, type)                                                                          \
  DEVICE vector make_##vector(type x, type y, type z, type w) {                                        \
    vector v; v.x = x; v.y = y; v.z = z; v.w = w; return v;                                            \
  }
VECTOR2(float2, float) VECTOR2(double2, double) VECTOR2(int2, int) VECTOR2(uint2, unsigned)
VECTOR2(longlong2, long long) VECTOR2(short2, short) VECTOR2(uchar2, unsigned char)
VECTOR4(float4, float) VECTOR4(int4, int) VECTOR4(uint4, unsigned) VECTOR4(short4, short)
VECTOR4(uchar4, unsigned char)
#undef VECTOR2
#undef VECTOR4

// Half precision, for which the headers that a text includes have nothing to add. What they make of other numbers than
// `float` is an error here, so that such a text is compiled with them.
#define HALF(half, as_short, from_short)                                                               \
  struct __align__(2) half {                                                                           \
    unsigned short bits;                                                                               \
    half() = default;                                                                                  \
    __device__ half(float value);                                                                      \
    template <typename Other>                                                                          \
    half(Other) = delete;                                                                              \
  };                                                                                                   \
  DEVICE short as_short(half value) { return (short)value.bits; }                                      \
  DEVICE half from_short(short bits) { half value; value.bits = (unsigned short)bits; return value; }

#define __CUDA_FP16_H__
HALF(__half, __half_as_short, __short_as_half)
DEVICE __half __float2half_rn(float value) {
  __half half;
  asm("{  cvt.rn.f16.f32 %0, %1;}\n" : "=h"(half.bits) : "f"(value));
  return half;
}
DEVICE float __half2float(__half half) {
  float value;
  asm("{  cvt.f32.f16 %0, %1;}\n" : "=f"(value) : "h"(half.bits));
  return value;
}
__device__ __forceinline__ __half::__half(float value) : bits(__float2half_rn(value).bits) {}

#define __CUDA_BF16_H__
HALF(__nv_bfloat16, __bfloat16_as_short, __short_as_bfloat16)
DEVICE __nv_bfloat16 __float2bfloat16_rn(float value) {
  __nv_bfloat16 half;
  asm("{  cvt.rn.bf16.f32 %0, %1;}\n" : "=h"(half.bits) : "f"(value));
  return half;
}
DEVICE float __bfloat162float(__nv_bfloat16 half) {
  float value;
#if __CUDA_ARCH__ >= 900
  asm("{ cvt.f32.bf16 %0, %1;}\n" : "=f"(value) : "h"(half.bits));
#else
  asm("{ mov.b32 %0, {0,%1};}\n" : "=f"(value) : "h"(half.bits));
#endif
  return value;
}
__device__ __forceinline__ __nv_bfloat16::__nv_bfloat16(float value) : bits(__float2bfloat16_rn(value).bits) {}

#undef BUILTIN
#undef HALF
#undef DEVICE
