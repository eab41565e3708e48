// The machine that runs CTAs on the host: threads as fibers, barriers, shared memory, and the checks of accesses.
#pragma once

#include <cstdint>
#include <cstring>

#include "types.h"

inline uint3 threadIdx, blockIdx;

namespace host {

constexpr unsigned char poison = 0xff;
// What fills memory that nobody has written: NaN in floats.

// A buffer in global memory. A virtual one has addresses only: its accesses are recorded, and read as zeros.
struct Buffer {
  uintptr_t begin;
  long long bytes;
  int number;
  bool is_virtual;
};

// A shared buffer of a CTA, or an array in registers.
struct Extent {
  char* begin;
  long long bytes;
  const char* name;
};

// The declaration `extern __shared__ __align__(alignment) unsigned char shared_memory_ALIGNMENT[]`.
struct Pool {
  explicit Pool(int alignment);
  int alignment;
};

// The buffer whose element was named last: an address that a cast takes lies in it.
inline const Extent* touched;

// What a thread must do before others rely on its accesses of global memory; see `__threadfence` and `atomicInc`.
struct Fences {
  bool has_unfenced_store, has_unfenced_ticket;
};
inline Fences* fences;

[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void outside(const char* name, long long index, long long elements);
void check_span(const char* name, long long first, long long bytes, long long size, uintptr_t address, int alignment);
void record(const Buffer& buffer, long long first, long long bytes, bool is_store);

const Extent* declare_shared(const char* name, int line, long long bytes, int alignment);
const Extent* declare_in_pool(const char* name, int line, const Pool& pool, long long first, long long bytes);

template <typename Value>
inline Value access_load(const Buffer& buffer, const char* name, long long first, bool is_const) {
  check_span(name, first, sizeof(Value), buffer.bytes, buffer.begin + (uintptr_t)first, alignof(Value));
  if (!is_const && fences->has_unfenced_ticket) fault("%s is read after a ticket without __threadfence()", name);
  Value value;
  if (buffer.is_virtual) {
    record(buffer, first, sizeof(Value), false);
    memset(static_cast<void*>(&value), 0, sizeof(Value));
  } else {
    memcpy(static_cast<void*>(&value), reinterpret_cast<const char*>(buffer.begin) + first, sizeof(Value));
  }
  return value;
}

template <typename Value>
inline void access_store(const Buffer& buffer, const char* name, long long first, const Value& value) {
  check_span(name, first, sizeof(Value), buffer.bytes, buffer.begin + (uintptr_t)first, alignof(Value));
  fences->has_unfenced_store = true;
  if (buffer.is_virtual)
    record(buffer, first, sizeof(Value), true);
  else
    memcpy(reinterpret_cast<char*>(buffer.begin) + first, &value, sizeof(Value));
}

inline void check_span(
    const char* name, long long first, long long bytes, long long size, uintptr_t address, int alignment) {
  if (first < 0 || first > size - bytes)
    fault("bytes %lld to %lld of %s, which has %lld", first, first + bytes - 1, name, size);
  if (address % (uintptr_t)alignment != 0)
    fault("byte %lld of %s is accessed %d bytes wide, at no multiple of them", first, name, alignment);
}

// Barriers and exchanges of threads, each with the line of the text that it stands in.
void sync_threads(int line);
int sync_threads_or(int line, int predicate);
void sync_warp(int line);
unsigned lane_xor(unsigned mask);
unsigned lane_up(unsigned delta);
unsigned lane_of(unsigned lane, unsigned width);
uint64_t shuffle(int line, uint64_t bits, unsigned source);
void gather(uint64_t bits, uint64_t (&all)[32]);
unsigned atomic_inc(unsigned* counter, unsigned last);
void fence();
unsigned shared_address(const void* address);

template <typename T>
inline T shuffle(int line, unsigned threads, T value, unsigned source) {
  if (threads != 0xffffffffu) fault("a shuffle of some lanes of a warp, 0x%08x", threads);
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = shuffle(line, bits, source);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

// What a program of printed kernels registers: how each kernel is called.
struct Argument;
struct Kernel {
  const char* name;
  int arguments, threads, cluster;
  void (*call)(const Argument*);
};
struct Program {
  const Kernel* kernels;
  int count;
};

}  // namespace host

// Defined by the translation unit of the printed text.
extern const host::Program programs[];
extern const int program_count;
