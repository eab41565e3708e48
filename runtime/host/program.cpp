// The process that runs a program: `PROGRAM PLAN INPUTS OUTPUTS SECONDS`.
//
// The plan is text, a line each: the number of the program, its buffers, its outputs, its launches, and how they run,
// `run REVERSED EARLY` (once for each result) or `alone LAUNCH BLOCK THREAD`.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "machine.h"

namespace host {
namespace {

constexpr uintptr_t first_virtual = 1ull << 44, virtual_bytes = 1ull << 42;

struct Space {
  long long bytes, offset, input;
};
struct Launch {
  const Kernel* kernel;
  int blocks, threads, shared;
  std::vector<std::string> arguments;
};
struct Run {
  bool is_reversed, lands_early;
};
struct Alone {
  int launch;
  unsigned block, thread;
};

struct Plan {
  const Program* program = nullptr;
  long long scratch = 0, counters = 0;
  std::vector<Space> spaces;
  std::vector<int> outputs;
  std::vector<Launch> launches;
  std::vector<Run> runs;
  std::vector<Alone> alone;
};

std::vector<Buffer> buffers;
FILE* results;

const Kernel* kernel_named(const Program& program, const std::string& name) {
  for (int number = 0; number < program.count; ++number)
    if (name == program.kernels[number].name) return &program.kernels[number];
  fault("the text has no kernel @%s", name.c_str());
}

Launch read_launch(const Program& program, std::istringstream& line) {
  Launch launch;
  std::string name, argument;
  line >> name >> launch.blocks >> launch.threads >> launch.shared;
  launch.kernel = machine.kernel = kernel_named(program, name);
  while (line >> argument) launch.arguments.push_back(argument);
  if ((int)launch.arguments.size() != launch.kernel->arguments)
    fault("the kernel takes %d arguments, the launch gives %zu", launch.kernel->arguments, launch.arguments.size());
  if (launch.threads > launch.kernel->threads)
    fault("a launch of %d threads, more than its bound of %d", launch.threads, launch.kernel->threads);
  if (launch.blocks % launch.kernel->cluster != 0)
    fault("a launch of %d blocks in clusters of %d", launch.blocks, launch.kernel->cluster);
  return launch;
}

Plan read_plan(const char* path) {
  Plan plan;
  std::ifstream file(path);
  std::string text, word;
  while (std::getline(file, text)) {
    std::istringstream line(text);
    line >> word;
    if (word == "program") {
      int number;
      line >> number;
      plan.program = &programs[number];
    } else if (word == "scratch") {
      line >> plan.scratch >> plan.counters;
    } else if (word == "buffer") {
      Space space;
      line >> space.bytes >> space.offset >> space.input;
      plan.spaces.push_back(space);
    } else if (word == "output") {
      int number;
      line >> number;
      plan.outputs.push_back(number);
    } else if (word == "launch") {
      plan.launches.push_back(read_launch(*plan.program, line));
    } else if (word == "run") {
      Run run;
      line >> run.is_reversed >> run.lands_early;
      plan.runs.push_back(run);
    } else if (word == "alone") {
      Alone alone;
      line >> alone.launch >> alone.block >> alone.thread;
      plan.alone.push_back(alone);
    }
  }
  return plan;
}

// Memory that starts at a multiple of 16 bytes, and of no larger power of two: what buffers are known to have.
char* allocate(long long bytes) {
  char* memory = static_cast<char*>(aligned_alloc(32, (size_t)(bytes + 95) / 32 * 32));
  if (memory == nullptr) fault("there is no memory for a buffer of %lld bytes", bytes);
  memset(memory, poison, (size_t)(bytes + 95) / 32 * 32);
  return memory + 16;
}

std::vector<char> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Scratch memory starts at a multiple of 512 bytes on a GPU; the offsets of its buffers are multiples of 256.
void make_buffers(const Plan& plan, const std::vector<char>& inputs) {
  char* scratch = allocate(plan.scratch);
  memset(scratch + plan.scratch - plan.counters, 0, (size_t)plan.counters);
  buffers.clear();
  for (size_t number = 0; number < plan.spaces.size(); ++number) {
    const Space& space = plan.spaces[number];
    if (!plan.alone.empty()) {
      buffers.push_back({first_virtual + number * virtual_bytes, space.bytes, (int)number, true});
      continue;
    }
    char* memory = space.offset >= 0 ? scratch + space.offset : allocate(space.bytes);
    if (space.offset >= 0 && space.offset + space.bytes > plan.scratch) fault("buffer %zu ends outside of scratch", number);
    if (space.input >= 0) memcpy(memory, inputs.data() + space.input, (size_t)space.bytes);
    buffers.push_back({reinterpret_cast<uintptr_t>(memory), space.bytes, (int)number, false});
  }
}

Argument argument_of(const std::string& text) {
  Argument argument = {};
  if (text[0] == 'b') {
    argument.buffer = &buffers.at(std::stoul(text.substr(1)));
    return argument;
  }
  for (size_t byte = 0; byte < sizeof(argument.map); ++byte)
    argument.map[byte] = (unsigned char)std::stoul(text.substr(1 + 2 * byte, 2), nullptr, 16);
  return argument;
}

std::vector<Argument> start_launch(const Launch& launch) {
  std::vector<Argument> arguments;
  for (const std::string& text : launch.arguments) arguments.push_back(argument_of(text));
  machine.kernel = launch.kernel;
  machine.threads = launch.threads;
  machine.shared = launch.shared;
  return arguments;
}

void run_launch(const Launch& launch) {
  const std::vector<Argument> arguments = start_launch(launch);
  machine.arguments = arguments.data();
  const int size = launch.kernel->cluster, clusters = launch.blocks / size;
  for (int turn = 0; turn < clusters; ++turn)
    run_cluster((unsigned)((machine.is_reversed ? clusters - 1 - turn : turn) * size), size);
}

void check_counters(const Plan& plan) {
  for (size_t number = 0; number < plan.spaces.size(); ++number) {
    if (plan.spaces[number].offset < plan.scratch - plan.counters || plan.spaces[number].offset < 0) continue;
    for (long long byte = 0; byte < plan.spaces[number].bytes; ++byte)
      if (reinterpret_cast<const char*>(buffers[number].begin)[byte] != 0) fault("the program leaves a counter above 0");
  }
}

void on_signal(int number) {
  char where[300], text[400];
  describe_current(where, sizeof(where));
  const char* reason = number == SIGALRM ? "the kernel does not end"
                       : number == SIGFPE ? "an integer is divided by zero, or its quotient overflows"
                       : number == SIGABRT ? "undefined behaviour, see above"
                                           : "an access of memory that is no buffer's";
  const int length = snprintf(text, sizeof(text), "%s: %s\n", where, reason);
  if (write(2, text, (size_t)length) != length) _exit(3);
  _exit(2);
}

void watch(int seconds) {
  static char stack[64 << 10];
  const stack_t alternate = {stack, 0, sizeof(stack)};
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (int number : {SIGALRM, SIGFPE, SIGABRT, SIGSEGV, SIGBUS, SIGILL}) sigaction(number, &action, nullptr);
  alarm((unsigned)seconds);
}

void run_together(const Plan& plan, const std::vector<char>& inputs) {
  for (const Run& run : plan.runs) {
    machine.is_reversed = run.is_reversed;
    machine.lands_early = run.lands_early;
    make_buffers(plan, inputs);
    for (const Launch& launch : plan.launches) run_launch(launch);
    check_counters(plan);
    for (int number : plan.outputs)
      fwrite(reinterpret_cast<const char*>(buffers[number].begin), 1, (size_t)buffers[number].bytes, results);
  }
}

void run_one_by_one(const Plan& plan, const std::vector<char>& inputs) {
  machine.is_alone = true;
  make_buffers(plan, inputs);
  for (const Alone& alone : plan.alone) {
    const std::vector<Argument> arguments = start_launch(plan.launches[alone.launch]);
    machine.arguments = arguments.data();
    const long long start[4] = {-1, alone.launch, alone.block, alone.thread};
    fwrite(start, sizeof(start), 1, results);
    run_alone(alone.block, alone.thread);
  }
}

}  // namespace

void record(const Buffer& buffer, long long first, long long bytes, bool is_store) {
  const long long access[4] = {buffer.number, first, bytes, is_store};
  fwrite(access, sizeof(access), 1, results);
}

const Buffer* buffer_of(const Map& map) {
  if (map.buffer >= buffers.size()) fault("a tensor map that nobody encoded");
  return &buffers[map.buffer];
}

unsigned box_bytes(const Map& map) {
  uint64_t bytes = map.element;
  for (int dim = 0; dim < map.rank; ++dim) bytes *= map.box[dim];
  return (unsigned)bytes;
}

// What to do with each element of a box whose corner may lie anywhere that is inside of the buffer: with its first byte in
// the box, and in the buffer.
template <typename Use>
static void for_elements(const Map& map, const Buffer& buffer, const int* corner, Use use) {
  const unsigned bytes = box_bytes(map);
  for (unsigned first = 0; first < bytes; first += map.element) {
    uint64_t rest = first / map.element;
    long long at_byte = 0;
    bool is_inside = true;
    for (int dim = 0; dim < map.rank; ++dim) {
      const long long at = corner[dim] + (long long)(rest % map.box[dim]);
      rest /= map.box[dim];
      is_inside = is_inside && at >= 0 && at < (long long)map.extents[dim];
      at_byte += at * (dim == 0 ? (long long)map.element : (long long)map.strides[dim - 1]);
    }
    if (!is_inside) continue;
    if (at_byte + map.element > buffer.bytes) fault("a box has byte %lld of a buffer of %lld", at_byte, buffer.bytes);
    use(first, at_byte);
  }
}

// Where a byte of a box lies in shared memory. A swizzle of 128 bytes exchanges units of 16 bytes by the address: bits 4
// to 6 are combined with bits 7 to 9 by an exclusive or, those of 64 and 32 bytes with one and two bits less (CUDA C++
// Programming Guide, "Tensor Memory Access": swizzle patterns).
static unsigned place_of(const Map& map, unsigned address, unsigned first) {
  const unsigned to = address + first, span = map.swizzle ? map.swizzle / box_unit - 1u : 0u;
  return to ^ (to >> 7 & span) << 4;
}

// The bytes of a box; what lies outside of the buffer is zeros.
BoxData box_data(const Map& map, const Buffer& buffer, const int* corner, unsigned address) {
  BoxData data;
  data.bytes.assign(box_bytes(map), 0);
  for_elements(map, buffer, corner, [&](unsigned first, long long from) {
    char* const to = data.bytes.data() + first;
    memcpy(to, reinterpret_cast<const char*>(buffer.begin) + from, map.element);
    if (!map.is_tf32) return;
    uint32_t bits;
    memcpy(&bits, to, sizeof(bits));
    bits = nearest_tf32(bits);
    memcpy(to, &bits, sizeof(bits));
  });
  for (unsigned first = 0; first < data.bytes.size(); first += box_unit)
    data.to.push_back(place_of(map, address, first));
  return data;
}

void write_box(const Map& map, const Buffer& buffer, const int* corner, const char* window, unsigned address) {
  for_elements(map, buffer, corner, [&](unsigned first, long long to) {
    memcpy(reinterpret_cast<char*>(buffer.begin) + to, window + place_of(map, address, first), map.element);
  });
}

int run_program(int count, char** words) {
  if (count != 5) return 64;
  results = fopen(words[3], "wb");
  watch(atoi(words[4]));
  const Plan plan = read_plan(words[1]);
  const std::vector<char> inputs = read_file(words[2]);
  run_together(plan, inputs);
  if (!plan.alone.empty()) run_one_by_one(plan, inputs);
  fclose(results);
  return 0;
}

}  // namespace host

int main(int count, char** words) { return host::run_program(count, words); }
