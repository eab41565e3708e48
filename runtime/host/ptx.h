// The instructions of PTX that printed kernels hold as inline assembly, each a function named after the instruction.
//
// Operands keep their order; `[x]` is an At, `[x, {a, b}]` a Box, and `{a, b}` a group of registers. Semantics: PTX ISA,
// "Data Movement and Conversion Instructions: cp.async", "Parallel Synchronization and Communication Instructions:
// mbarrier, bar, barrier.cluster, griddepcontrol", "Miscellaneous Instructions: setmaxnreg", "Warp Level Matrix Multiply-Accumulate
// Instructions" with its ldmatrix, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include <array>
#include <type_traits>

#include "engine.h"

namespace host {

template <typename T>
struct WideLocal;

}  // namespace host

namespace host::ptx {

struct At { uint64_t address; };
struct Box { uint64_t map; int rank; int corner[5]; };

// Operands by the letter of their constraint.
template <typename T>
inline uint32_t r(T value) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4, "the constraint r is for integers of 32 bits");
  return (uint32_t)value;
}
// A register of several narrow values, through one of several pointers: the extent is that of the last one.
template <typename T>
inline uint32_t r(const WideLocal<T>& value) {
  uint32_t bits;
  memcpy(&bits, value.place, sizeof(bits));
  return bits;
}
template <typename T>
inline uint64_t l(T value) {
  static_assert(sizeof(T) == 8 && (std::is_integral_v<T> || std::is_pointer_v<T>), "the constraint l is for 64 bits");
  return (uint64_t)value;
}
inline float f(float value) { return value; }
inline double d(double value) { return value; }
template <typename T>
inline float f(T) = delete;
template <typename T>
inline double d(T) = delete;

template <typename... Coordinates>
inline Box box(uint64_t map, Coordinates... coordinates) {
  return {map, sizeof...(coordinates), {(int)coordinates...}};
}

template <typename... Rest>
inline std::array<float*, 1 + sizeof...(Rest)> group(float& first, Rest&... rest) {
  return {&first, &rest...};
}
template <typename... Rest>
inline std::array<int*, 1 + sizeof...(Rest)> group(int& first, Rest&... rest) {
  return {&first, &rest...};
}
template <typename... Rest>
inline std::array<uint32_t, 1 + sizeof...(Rest)> group(uint32_t first, Rest... rest) {
  return {first, rest...};
}

template <typename T, typename... Rest>
inline std::array<T*, 1 + sizeof...(Rest)> group(const WideLocal<T>& first, const Rest&... rest) {
  return {first.place, rest.place...};
}

// With ".NaN" the canonical NaN where an operand is one, else the other operand.
inline void max_NaN_f32(float& to, float a, float b) {
  to = a != a || b != b ? __int_as_float(0x7fffffff) : maximum_number(a, b);
}
inline void min_NaN_f32(float& to, float a, float b) {
  to = a != a || b != b ? __int_as_float(0x7fffffff) : minimum_number(a, b);
}
inline void ex2_approx_ftz_f32(float& to, float power) {
  to = std::exp2(power);
  if (to < 0x1p-126f) to = 0;
}
inline void cvt_rn_tf32_f32(uint32_t& to, float value) { to = nearest_tf32(bits_as<uint32_t>(value)); }
inline void max_f64(double& to, double a, double b) { to = maximum_number(a, b); }
inline void min_f64(double& to, double a, double b) { to = minimum_number(a, b); }

void copy(const char* cache, At to, At from, unsigned bytes, unsigned read);
inline void cp_async_ca_shared_global(At to, At from, unsigned bytes, unsigned read) { copy("ca", to, from, bytes, read); }
inline void cp_async_ca_shared_global(At to, At from, unsigned bytes) { copy("ca", to, from, bytes, bytes); }
inline void cp_async_cg_shared_global(At to, At from, unsigned bytes, unsigned read) { copy("cg", to, from, bytes, read); }
inline void cp_async_cg_shared_global(At to, At from, unsigned bytes) { copy("cg", to, from, bytes, bytes); }
void cp_async_commit_group();
void cp_async_wait_group(unsigned pending);

void mbarrier_init_shared_b64(At barrier, unsigned arrivals);
void mbarrier_inval_shared_b64(At barrier);
void mbarrier_arrive_shared_b64(uint64_t& state, At barrier);
void mbarrier_arrive_expect_tx_shared_b64(uint64_t& state, At barrier, unsigned bytes);
void cp_async_mbarrier_arrive_noinc_shared_b64(At barrier);
void mbarrier_try_wait_parity_shared_b64(bool& done, At barrier, unsigned parity);
inline void mbarrier_test_wait_parity_shared_b64(bool& done, At barrier, unsigned parity) {
  mbarrier_try_wait_parity_shared_b64(done, barrier, parity);
}

void bar_sync(unsigned number, unsigned threads);
void bar_red_or_pred(bool& some, unsigned number, unsigned threads, bool vote);
inline void setp_ne_s32(bool& to, int a, int b) { to = a != b; }
inline void selp_s32(int& to, int a, int b, bool condition) { to = condition ? a : b; }
// Registers have no limit here.
void setmaxnreg(unsigned registers);
inline void setmaxnreg_dec_sync_aligned_u32(unsigned registers) { setmaxnreg(registers); }
inline void setmaxnreg_inc_sync_aligned_u32(unsigned registers) { setmaxnreg(registers); }

void fence_proxy_async_shared_cta();
void load_box(int rank, At to, const Box& box, At barrier);
#define HOST_LOAD(rank)                                                                                     \
  inline void cp_async_bulk_tensor_##rank##d_shared_cluster_global_tile_mbarrier_complete_tx_bytes( \
      At to, const Box& box, At barrier) {                                                                  \
    load_box(rank, to, box, barrier);                                                                       \
  }
void store_box(int rank, const Box& box, At from);
#define HOST_STORE(rank)                                                                                      \
  inline void cp_async_bulk_tensor_##rank##d_global_shared_cta_tile_bulk_group(const Box& box, At from) {     \
    store_box(rank, box, from);                                                                               \
  }
HOST_STORE(1)
HOST_STORE(2)
HOST_STORE(3)
HOST_STORE(4)
HOST_STORE(5)
#undef HOST_STORE
void cp_async_bulk_commit_group();
void cp_async_bulk_wait_group_read(unsigned pending);
HOST_LOAD(1)
HOST_LOAD(2)
HOST_LOAD(3)
HOST_LOAD(4)
HOST_LOAD(5)
#undef HOST_LOAD

using Fragment = std::array<float*, 4>;
void mma(const Fragment& sums, const std::array<uint32_t, 4>& left, const std::array<uint32_t, 2>& right, bool is_bf16);
inline void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(
    Fragment to, std::array<uint32_t, 4> left, std::array<uint32_t, 2> right, Fragment) {
  mma(to, left, right, true);
}
inline void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(
    Fragment to, std::array<uint32_t, 4> left, std::array<uint32_t, 2> right, Fragment) {
  mma(to, left, right, false);
}
void mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(
    Fragment to, std::array<uint32_t, 4> left, std::array<uint32_t, 2> right, Fragment);

using Integers = std::array<int*, 4>;
void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(
    Integers to, std::array<uint32_t, 4> left, std::array<uint32_t, 2> right, Integers);

// Lane 8 * i + r names row r of matrix i, of 16 bytes; lane 4 * g + t gets elements 2t and 2t + 1 of row g, or of column g.
void ldmatrix(uint32_t* const* to, int count, At row, bool is_transposed);
#define HOST_LDMATRIX(count)                                                                                      \
  inline void ldmatrix_sync_aligned_m8n8_x##count##_shared_b16(std::array<uint32_t*, count> to, At row) {         \
    ldmatrix(to.data(), count, row, false);                                                                       \
  }                                                                                                               \
  inline void ldmatrix_sync_aligned_m8n8_x##count##_trans_shared_b16(std::array<uint32_t*, count> to, At row) {   \
    ldmatrix(to.data(), count, row, true);                                                                        \
  }
HOST_LDMATRIX(1)
HOST_LDMATRIX(2)
HOST_LDMATRIX(4)
#undef HOST_LDMATRIX

// The sums are there at once, where the hardware has them at the wait. What `goes_on` goes on with sums, which else start
// anew.
enum class Type { bf16, f16, tf32 };
void wgmma(
    float* const* sums, int columns, uint64_t left, uint64_t right, Type type, bool goes_on, bool by_rows, bool by_columns);
// The left factor is in registers: each warp has 16 of its rows, as the left factor of mma.sync.
using Held = std::array<uint32_t, 4>;
void wgmma(
    float* const* sums, int columns, const Held& left, uint64_t right, Type type, bool goes_on, bool by_columns);
inline void wgmma_fence_sync_aligned() {}
inline void wgmma_commit_group_sync_aligned() {}
inline void wgmma_wait_group_sync_aligned(unsigned) {}
void wgmma(int* const* sums, int columns, uint64_t left, uint64_t right, bool goes_on);
#define HOST_WGMMA_OF_BYTES(columns)                                                                             \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k32_s32_s8_s8(                                         \
      std::array<int*, columns / 2> sums, uint64_t left, uint64_t right, int goes_on) {                          \
    wgmma(sums.data(), columns, left, right, goes_on);                                                           \
  }
#define HOST_WGMMA_OF(columns, type)                                                                             \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k16_f32_##type##_##type(                               \
      std::array<float*, columns / 2> sums, uint64_t left, uint64_t right, int goes_on, int, int, int a, int b) { \
    wgmma(sums.data(), columns, left, right, Type::type, goes_on, a, b);                                         \
  }                                                                                                              \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k16_f32_##type##_##type(                               \
      std::array<float*, columns / 2> sums, Held left, uint64_t right, int goes_on, int, int, int b) {           \
    wgmma(sums.data(), columns, left, right, Type::type, goes_on, b);                                            \
  }
#define HOST_WGMMA_OF_TF32(columns)                                                                              \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k8_f32_tf32_tf32(                                      \
      std::array<float*, columns / 2> sums, uint64_t left, uint64_t right, int goes_on, int, int) {              \
    wgmma(sums.data(), columns, left, right, Type::tf32, goes_on, false, false);                                 \
  }                                                                                                              \
  inline void wgmma_mma_async_sync_aligned_m64n##columns##k8_f32_tf32_tf32(                                      \
      std::array<float*, columns / 2> sums, Held left, uint64_t right, int goes_on, int, int) {                  \
    wgmma(sums.data(), columns, left, right, Type::tf32, goes_on, false);                                        \
  }
#define HOST_WGMMA(columns)    \
  HOST_WGMMA_OF(columns, bf16) \
  HOST_WGMMA_OF(columns, f16)  \
  HOST_WGMMA_OF_TF32(columns)
HOST_WGMMA(8)
HOST_WGMMA(16)
HOST_WGMMA(24)
HOST_WGMMA(32)
HOST_WGMMA(40)
HOST_WGMMA(48)
HOST_WGMMA(56)
HOST_WGMMA(64)
HOST_WGMMA(72)
HOST_WGMMA(80)
HOST_WGMMA(88)
HOST_WGMMA(96)
HOST_WGMMA(104)
HOST_WGMMA(112)
HOST_WGMMA(120)
HOST_WGMMA(128)
HOST_WGMMA(136)
HOST_WGMMA(144)
HOST_WGMMA(152)
HOST_WGMMA(160)
HOST_WGMMA(168)
HOST_WGMMA(176)
HOST_WGMMA(184)
HOST_WGMMA(192)
HOST_WGMMA(200)
HOST_WGMMA(208)
HOST_WGMMA(216)
HOST_WGMMA(224)
HOST_WGMMA(232)
HOST_WGMMA(240)
HOST_WGMMA(248)
HOST_WGMMA(256)
HOST_WGMMA_OF_BYTES(8)
HOST_WGMMA_OF_BYTES(16)
HOST_WGMMA_OF_BYTES(24)
HOST_WGMMA_OF_BYTES(32)
HOST_WGMMA_OF_BYTES(48)
HOST_WGMMA_OF_BYTES(64)
HOST_WGMMA_OF_BYTES(80)
HOST_WGMMA_OF_BYTES(96)
HOST_WGMMA_OF_BYTES(112)
HOST_WGMMA_OF_BYTES(128)
HOST_WGMMA_OF_BYTES(144)
HOST_WGMMA_OF_BYTES(160)
HOST_WGMMA_OF_BYTES(176)
HOST_WGMMA_OF_BYTES(192)
HOST_WGMMA_OF_BYTES(208)
HOST_WGMMA_OF_BYTES(224)
HOST_WGMMA_OF_BYTES(240)
HOST_WGMMA_OF_BYTES(256)
#undef HOST_WGMMA_OF_BYTES
#undef HOST_WGMMA
#undef HOST_WGMMA_OF

// Launches run one after the other on the host.
inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}

void barrier_cluster_arrive_release_aligned();
void barrier_cluster_wait_acquire_aligned();
uint64_t in_cta(uint64_t own, unsigned rank);
template <typename T>
inline void mapa_u64(T*& to, uint64_t own, unsigned rank) { to = reinterpret_cast<T*>(in_cta(own, rank)); }

}  // namespace host::ptx
