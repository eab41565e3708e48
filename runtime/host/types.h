// Types and functions of CUDA C++ that printed kernels name: vectors, half precision, bits, and what math.h lacks.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(4) short2 { short x, y; };
struct alignas(8) short4 { short x, y, z, w; };
struct alignas(2) uchar2 { unsigned char x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct uint3 { unsigned x, y, z; };

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline short2 make_short2(short x, short y) { return {x, y}; }
inline short4 make_short4(short x, short y, short z, short w) { return {x, y, z, w}; }
inline uchar2 make_uchar2(unsigned char x, unsigned char y) { return {x, y}; }
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) { return {x, y, z, w}; }

namespace host {

template <typename To, typename From>
inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "the sizes differ");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

// The bits of a float rounded to TF32, whose fraction has 10 bits, to nearest and ties to even; infinities and NaN stay.
inline uint32_t nearest_tf32(uint32_t bits) {
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
}

// PTX's max and min: a number where one operand is NaN, and -0 below +0, which C leaves open.
template <typename T>
inline T maximum_number(T a, T b) { return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b; }
template <typename T>
inline T minimum_number(T a, T b) { return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b; }

// What `#include <cuda_fp16.h>` declares of what kernels use. Conversions round to nearest, ties to even (IEEE 754).
namespace fp16 {

struct __half {
  unsigned short bits;
  __half() = default;
  explicit __half(float value);
};

inline __half __float2half_rn(float value) {
  const uint32_t all = bits_as<uint32_t>(value), sign = all >> 16 & 0x8000, size = all & 0x7fffffff;
  uint32_t half;
  if (size > 0x7f800000)
    half = 0x7fff;
  else if (size < 0x38800000)  // below 2^-14: a multiple of 2^-24
    half = (uint32_t)nearbyintf(bits_as<float>(size) * 16777216.0f);
  else if (size >= 0x47800000)  // from 2^16 on
    half = 0x7c00;
  else
    half = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10);
  __half result;
  result.bits = (unsigned short)(sign | half);
  return result;
}

inline float __half2float(__half value) {
  const uint32_t sign = (uint32_t)(value.bits & 0x8000) << 16, size = value.bits & 0x7fff;
  float result;
  if (size < 0x400)
    result = (float)size / 16777216.0f;
  else if (size >= 0x7c00)
    result = bits_as<float>(0x7f800000 | (size & 0x3ff) << 13);
  else
    result = bits_as<float>((size + (112 << 10)) << 13);
  return bits_as<float>(bits_as<uint32_t>(result) | sign);
}

inline __half::__half(float value) : bits(__float2half_rn(value).bits) {}

inline short __half_as_short(__half value) { return bits_as<short>(value); }
inline __half __short_as_half(short value) { return bits_as<__half>(value); }

}  // namespace fp16

// What `#include <cuda_bf16.h>` declares of what kernels use.
namespace bf16 {

struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value);
};

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const uint32_t all = bits_as<uint32_t>(value);
  __nv_bfloat16 result;
  result.bits = (unsigned short)(value != value ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16);
  return result;
}

inline float __bfloat162float(__nv_bfloat16 value) { return bits_as<float>((uint32_t)value.bits << 16); }

inline __nv_bfloat16::__nv_bfloat16(float value) : bits(__float2bfloat16_rn(value).bits) {}

inline short __bfloat16_as_short(__nv_bfloat16 value) { return bits_as<short>(value); }
inline __nv_bfloat16 __short_as_bfloat16(short value) { return bits_as<__nv_bfloat16>(value); }

}  // namespace bf16
}  // namespace host

inline int __float_as_int(float value) { return host::bits_as<int>(value); }
inline unsigned __float_as_uint(float value) { return host::bits_as<unsigned>(value); }
inline float __fsub_rn(float a, float b) {
  const float rest = a - b;
  return rest == rest ? rest : host::bits_as<float>(0x7fffffff);  // the NaN that a GPU gives
}
inline float __uint_as_float(unsigned value) { return host::bits_as<float>(value); }
inline float __int_as_float(int value) { return host::bits_as<float>(value); }
inline long long __double_as_longlong(double value) { return host::bits_as<long long>(value); }
inline double __longlong_as_double(long long value) { return host::bits_as<double>(value); }

inline int __clz(int value) { return value ? __builtin_clz((unsigned)value) : 32; }
inline int __clzll(long long value) { return value ? __builtin_clzll((unsigned long long)value) : 64; }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
inline unsigned __brev(unsigned value) {
  unsigned result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (value >> bit & 1u) << (31 - bit);
  return result;
}
inline unsigned long long __brevll(unsigned long long value) {
  return (unsigned long long)__brev((unsigned)value) << 32 | __brev((unsigned)(value >> 32));
}

inline float __fdividef(float a, float b) { return std::abs(b) > 0x1p126f && std::abs(b) < INFINITY ? a * 0.0f : a / b; }
inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline double rsqrt(double value) { return 1.0 / sqrt(value); }
