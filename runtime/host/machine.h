// What the engine and the program that drives it share.
#pragma once

#include <stddef.h>

#include <vector>

#include "memory.h"

namespace host {

// The launch that runs, and how.
struct Machine {
  const Kernel* kernel = nullptr;
  const Argument* arguments = nullptr;
  int threads = 0, shared = 0;
  bool is_reversed = false;   // whether the last thread and the last CTA come first
  bool lands_early = false;   // whether asynchronous copies land when they are issued
  bool is_alone = false;      // whether a thread runs alone: it waits for nobody, and its accesses are recorded
};
extern Machine machine;

// The bytes of a tensor map as the harness encodes them: what cuTensorMapEncodeTiled is told, sizes in bytes.
struct Map {
  uint64_t buffer;
  uint8_t rank, swizzle, element, is_tf32, unused[4];
  uint64_t extents[5], strides[4], box[5];
};
static_assert(sizeof(Map) == 128, "a tensor map has 128 bytes");

constexpr int box_unit = 16;

// A box in units of 16 bytes, and where each goes in shared memory.
struct BoxData {
  std::vector<unsigned> to;
  std::vector<char> bytes;
};
BoxData box_data(const Map& map, const Buffer& buffer, const int* corner, unsigned address);
// Writes a box that lies at an address of shared memory to the buffer, but for what lies outside of that.
void write_box(const Map& map, const Buffer& buffer, const int* corner, const char* window, unsigned address);
unsigned box_bytes(const Map& map);

// The buffer in which an address lies, of those that the running kernel gets; null if none.
const Buffer* buffer_at(uintptr_t place);
// The buffer of a tensor map.
const Buffer* buffer_of(const Map& map);

void run_cluster(unsigned first_block, int ctas);
void run_alone(unsigned block, unsigned thread);
void describe_current(char* text, size_t size);

}  // namespace host
