// The instructions of PTX that printed kernels hold as inline assembly, each a function named after the instruction.
//
// Operands keep their order; `[x]` is an At, and `[x, {a, b}]` a Box. Semantics: PTX ISA, "Data Movement and Conversion
// Instructions: cp.async", "Parallel Synchronization and Communication Instructions: mbarrier, barrier.cluster".
#pragma once

#include <type_traits>

#include "engine.h"

namespace host::ptx {

struct At { uint64_t address; };
struct Box { uint64_t map; int rank; int corner[5]; };

// Operands by the letter of their constraint.
template <typename T>
inline uint32_t r(T value) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4, "the constraint r is for integers of 32 bits");
  return (uint32_t)value;
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

// With ".NaN" the canonical NaN where an operand is one, else the other operand.
inline void max_NaN_f32(float& to, float a, float b) {
  to = a != a || b != b ? __int_as_float(0x7fffffff) : maximum_number(a, b);
}
inline void min_NaN_f32(float& to, float a, float b) {
  to = a != a || b != b ? __int_as_float(0x7fffffff) : minimum_number(a, b);
}
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

void fence_proxy_async_shared_cta();
void load_box(int rank, At to, const Box& box, At barrier);
#define HOST_LOAD(rank)                                                                                     \
  inline void cp_async_bulk_tensor_##rank##d_shared_cluster_global_tile_mbarrier_complete_tx_bytes( \
      At to, const Box& box, At barrier) {                                                                  \
    load_box(rank, to, box, barrier);                                                                       \
  }
HOST_LOAD(1)
HOST_LOAD(2)
HOST_LOAD(3)
HOST_LOAD(4)
HOST_LOAD(5)
#undef HOST_LOAD

void barrier_cluster_arrive_release_aligned();
void barrier_cluster_wait_acquire_aligned();
uint64_t in_cta(uint64_t own, unsigned rank);
template <typename T>
inline void mapa_u64(T*& to, uint64_t own, unsigned rank) { to = reinterpret_cast<T*>(in_cta(own, rank)); }

}  // namespace host::ptx
