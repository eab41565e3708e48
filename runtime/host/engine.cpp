// The machine that runs CTAs: threads as fibers that run until they wait, in an order of priorities.
//
// A thread goes on until it waits for others or lets one of higher priority go on; so a barrier that is missing lets the
// thread of the highest priority run ahead as far as the text allows. Asynchronous copies land either at once or as
// late as they may: when their thread waits for them or, where nobody does, when no thread can go on. One order finds
// what is overwritten too early, the other what is read too early.
#include "engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "machine.h"
#include "ptx.h"

namespace host {

Machine machine;

namespace {

constexpr size_t stack_bytes = 128 << 10;
constexpr int warp_lanes = 32;
constexpr unsigned first_static = 1024, first_dynamic = 64 << 10, window_bytes = (64 + 256) << 10;
// Shared memory of a CTA as the addresses of 32 bits that PTX has for it: static buffers, then the pool. A CTA has at
// most 48 KiB of static and 227 KiB of all shared memory (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr unsigned most_static = 48 << 10;

// A copy of bytes to shared memory that a thread started; `read` of them come from global memory, the rest are zeros.
struct Copy {
  unsigned to;
  uintptr_t from;
  unsigned bytes, read;
  bool has_landed = false;
};
using Copies = std::vector<std::shared_ptr<Copy>>;

// A store of a box of shared memory that a thread started.
struct BoxStore {
  const Map* map;
  std::array<int, 5> corner;
  unsigned from;
};
using BoxStores = std::vector<BoxStore>;

struct Barrier {
  bool is_initialised = false, is_fenced = false;
  unsigned arrivals = 0, pending = 0, phase = 0;
  long long bytes = 0;  // expected and not yet come
  int initialiser = 0;
};

struct Meeting {
  int line = 0, count = 0, kind = 0;
};

enum State { fresh, ready, waiting, done };

struct Cta;

struct Fiber {
  ucontext_t context;
  jmp_buf where;
  bool has_started = false;
};

struct Thread {
  Cta* cta;
  unsigned index;
  int rank;
  State state;
  Fiber* fiber;
  Fences fences;
  Copies open;
  std::deque<Copies> groups;
  BoxStores open_stores;
  std::deque<BoxStores> store_groups;
  std::string waits_for;
  bool has_tested;  // whether it tested a phase that is not over, and has not waited since
  unsigned awaits;  // the shared address of the barrier with phases that it waits for, 0 for none
  unsigned exchanges;
  bool waits_for_cluster;
  unsigned cluster_phase;
  bool has_vote;   // what it brought to the barrier of a number that it met last
  bool some_vote;  // whether any thread there brought one
};

struct Warp {
  Meeting meeting;
  uint64_t values[2][warp_lanes];
};

struct Cta {
  unsigned block;
  char* window;
  unsigned statics, end, pool;
  std::map<int, Extent> extents;  // by line of their declaration
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::map<unsigned, Barrier> barriers;
  std::map<unsigned, std::vector<Thread*>> named;  // the threads that wait at the barrier of each number
  Meeting meeting;
  int predicate, predicate_before, running;
};

// What happens in the background: a box that lands, or the copies of a thread and then its arrival.
struct Event {
  Cta* cta;
  unsigned barrier;
  BoxData box;
  Copies copies;
  bool is_box;
  long long bytes;
};

struct Cluster {
  std::vector<Cta> ctas;
  int arrived = 0;
  unsigned phase = 0;
};

Cluster cluster;
std::vector<Thread*> by_rank;
std::vector<uint64_t> ready_ranks;
std::vector<Event> events;
std::vector<Fiber*> idle;
Thread* current;
jmp_buf scheduler;

Cta& cta() { return *current->cta; }

void make_ready(Thread& thread) {
  thread.state = thread.state == fresh ? fresh : ready;
  ready_ranks[thread.rank / 64] |= 1ull << thread.rank % 64;
}

int first_ready() {
  for (size_t word = 0; word < ready_ranks.size(); ++word)
    if (ready_ranks[word]) return (int)word * 64 + __builtin_ctzll(ready_ranks[word]);
  return -1;
}

void __attribute__((noinline)) switch_out() {
  if (!_setjmp(current->fiber->where)) _longjmp(scheduler, 1);
}

void wait_for(const std::string& what) {
  current->waits_for = what;
  current->state = waiting;
  switch_out();
}

// Let threads of a higher priority go on, after what may have released them.
void give_way() {
  const int first = first_ready();
  if (first < 0 || first > current->rank) return;
  make_ready(*current);
  current->state = ready;
  switch_out();
}

void fiber_main() {
  for (;;) {
    machine.kernel->call(machine.arguments);
    current->state = done;
    idle.push_back(current->fiber);
    if (--current->cta->running == 0) memset(current->cta->window, poison, current->cta->end);
    switch_out();
  }
}

Fiber* take_fiber() {
  if (!idle.empty()) {
    Fiber* fiber = idle.back();
    idle.pop_back();
    return fiber;
  }
  Fiber* fiber = new Fiber;
  getcontext(&fiber->context);
  void* stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) fault("there is no memory for the stack of a thread");
  mprotect(stack, 4096, PROT_NONE);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = stack_bytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, fiber_main, 0);
  return fiber;
}

void __attribute__((noinline)) resume(Thread& thread) {
  if (thread.state == fresh) thread.fiber = take_fiber();
  thread.state = ready;
  ready_ranks[thread.rank / 64] &= ~(1ull << thread.rank % 64);
  current = &thread;
  fences = &thread.fences;
  threadIdx = {thread.index, 0, 0};
  blockIdx = {thread.cta->block, 0, 0};
  if (_setjmp(scheduler)) return;
  if (thread.fiber->has_started) _longjmp(thread.fiber->where, 1);
  thread.fiber->has_started = true;
  setcontext(&thread.fiber->context);
}

const Extent* extent_of(const Cta& owner, const char* place) {
  for (const auto& [line, extent] : owner.extents)
    if (place >= extent.begin && place < extent.begin + extent.bytes) return &extent;
  return nullptr;
}

std::string name_of(const Cta& owner, unsigned address, int element_bytes) {
  const Extent* extent = extent_of(owner, owner.window + address);
  if (extent == nullptr) return "shared memory at " + std::to_string(address);
  const long long index = (owner.window + address - extent->begin) / element_bytes;
  return std::string(extent->name) + "[" + std::to_string(index) + "]";
}

void land(Cta& owner, Copy& copy) {
  if (copy.has_landed) return;
  copy.has_landed = true;
  if (copy.read) memcpy(owner.window + copy.to, reinterpret_cast<const char*>(copy.from), copy.read);
  memset(owner.window + copy.to + copy.read, 0, copy.bytes - copy.read);
}

void land(Cta& owner, const Copies& copies) {
  for (const auto& copy : copies) land(owner, *copy);
}

void complete_phase(Cta& owner, unsigned address, Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.arrivals;
  ++barrier.phase;
  for (Thread& thread : owner.threads)
    if (thread.state == waiting && thread.awaits == address) make_ready(thread);
}

void arrive(Cta& owner, unsigned address) {
  Barrier& barrier = owner.barriers[address];
  if (barrier.pending == 0) fault("more arrivals than %u at %s", barrier.arrivals, name_of(owner, address, 8).c_str());
  --barrier.pending;
  complete_phase(owner, address, barrier);
}

void happen(const Event& event) {
  for (size_t unit = 0; unit < event.box.to.size(); ++unit)
    memcpy(event.cta->window + event.box.to[unit], event.box.bytes.data() + unit * box_unit, box_unit);
  land(*event.cta, event.copies);
  if (event.is_box) {
    Barrier& barrier = event.cta->barriers[event.barrier];
    barrier.bytes -= event.bytes;
    complete_phase(*event.cta, event.barrier, barrier);
  } else {
    arrive(*event.cta, event.barrier);
  }
}

void add(Event event) {
  if (machine.lands_early)
    happen(event);
  else
    events.push_back(std::move(event));
}

[[noreturn]] void deadlock() {
  std::string text;
  std::map<std::string, std::pair<int, Thread*>> reasons;
  for (Thread* thread : by_rank)
    if (thread->state == waiting) ++reasons.try_emplace(thread->waits_for, 0, thread).first->second.first;
  for (const auto& [reason, found] : reasons)
    text += (text.empty() ? "" : "; ") + std::to_string(found.first) + " threads wait for " + reason + ", such as " +
            std::to_string(found.second->index) + " of block " + std::to_string(found.second->cta->block);
  current = nullptr;
  fault("no thread can go on: %s", text.c_str());
}

void start_cta(Cta& started, unsigned block) {
  started.block = block;
  started.statics = first_static;
  started.end = first_static;
  started.pool = 0;
  started.extents.clear();
  started.barriers.clear();
  started.named.clear();
  started.meeting = Meeting();
  started.predicate = started.predicate_before = 0;
  started.running = machine.threads;
  memset(started.window, poison, window_bytes);
  started.threads.resize(machine.threads);
  started.warps.assign((machine.threads + warp_lanes - 1) / warp_lanes, Warp());
  for (int index = 0; index < machine.threads; ++index) {
    Thread& thread = started.threads[index];
    thread.cta = &started;
    thread.index = index;
    thread.state = fresh;
    thread.fiber = nullptr;
    thread.fences = {false, false};
    thread.open.clear();
    thread.groups.clear();
    thread.open_stores.clear();
    thread.store_groups.clear();
    thread.awaits = 0;
    thread.has_tested = false;
    thread.exchanges = 0;
    thread.waits_for_cluster = false;
  }
}

// The priorities: lane 0 of all warps, then lane 1 and so on; or the last thread first.
void rank_threads(int ctas) {
  by_rank.clear();
  for (int index = 0; index < ctas; ++index)
    for (Thread& thread : cluster.ctas[index].threads) by_rank.push_back(&thread);
  if (machine.is_reversed)
    std::reverse(by_rank.begin(), by_rank.end());
  else
    std::stable_sort(by_rank.begin(), by_rank.end(), [](const Thread* one, const Thread* other) {
      return one->index % warp_lanes < other->index % warp_lanes;
    });
  ready_ranks.assign((by_rank.size() + 63) / 64, 0);
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    by_rank[rank]->rank = (int)rank;
    make_ready(*by_rank[rank]);
  }
}

void ensure_ctas(size_t count) {
  while (cluster.ctas.size() < count) {
    cluster.ctas.emplace_back();
    void* window = mmap(nullptr, window_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (window == MAP_FAILED) fault("there is no memory for the shared memory of a CTA");
    cluster.ctas.back().window = static_cast<char*>(window);
  }
}

}  // namespace

void run_cluster(unsigned first_block, int ctas) {
  ensure_ctas(ctas);
  cluster.arrived = 0;
  cluster.phase = 0;
  events.clear();
  for (int index = 0; index < ctas; ++index) start_cta(cluster.ctas[index], first_block + index);
  rank_threads(ctas);
  for (;;) {
    const int rank = first_ready();
    if (rank >= 0) {
      resume(*by_rank[rank]);
      continue;
    }
    if (std::all_of(by_rank.begin(), by_rank.end(), [](const Thread* thread) { return thread->state == done; })) break;
    if (events.empty()) deadlock();
    const Event last = std::move(events.back());
    events.pop_back();
    happen(last);
  }
  current = nullptr;
}

void run_alone(unsigned block, unsigned index) {
  ensure_ctas(1);
  start_cta(cluster.ctas[0], block);
  memset(cluster.ctas[0].window, 0, window_bytes);
  current = &cluster.ctas[0].threads[index];
  fences = &current->fences;
  threadIdx = {index, 0, 0};
  blockIdx = {block, 0, 0};
  machine.kernel->call(machine.arguments);
  current = nullptr;
}

void describe_current(char* text, size_t size) {
  const char* name = machine.kernel == nullptr ? "?" : machine.kernel->name;
  if (current == nullptr)
    snprintf(text, size, "@%s", name);
  else
    snprintf(text, size, "@%s, block %u, thread %u", name, current->cta->block, current->index);
}

void fault(const char* format, ...) {
  char where[300];
  describe_current(where, sizeof(where));
  fflush(stdout);
  fprintf(stderr, "%s: ", where);
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fprintf(stderr, "\n");
  fflush(stderr);
  _exit(2);
}

void outside(const char* name, long long index, long long elements) {
  fault("%s[%lld] lies outside of its %lld elements", name, index, elements);
}

Pool::Pool(int alignment) : alignment(alignment) {
  if (machine.shared == 0) fault("the launch gives no dynamic shared memory");
}

namespace {

// The first address from `first` on at a multiple of `alignment`, and of no larger power of two.
unsigned placed(unsigned first, unsigned alignment) {
  const unsigned start = (first + alignment - 1) / alignment * alignment;
  return start / alignment % 2 == 1 ? start : start + alignment;
}

const Extent* add_extent(const char* name, int line, unsigned start, long long bytes) {
  Cta& own = cta();
  own.end = std::max<unsigned>(own.end, start + (unsigned)bytes);
  return &(own.extents[line] = Extent{own.window + start, bytes, name});
}

}  // namespace

const Extent* declare_shared(const char* name, int line, long long bytes, int alignment) {
  Cta& own = cta();
  if (const auto known = own.extents.find(line); known != own.extents.end()) return &known->second;
  const unsigned start = placed(own.statics, (unsigned)alignment);
  own.statics = start + (unsigned)bytes;
  if (bytes > most_static || own.statics > first_dynamic) fault("%s exceeds static shared memory", name);
  return add_extent(name, line, start, bytes);
}

const Extent* declare_in_pool(const char* name, int line, const Pool& pool, long long first, long long bytes) {
  Cta& own = cta();
  if (const auto known = own.extents.find(line); known != own.extents.end()) return &known->second;
  if (own.pool == 0) own.pool = placed(first_dynamic, (unsigned)pool.alignment);
  if (first < 0 || bytes < 0 || first + bytes > machine.shared)
    fault("%s ends at byte %lld of the %d bytes of dynamic shared memory", name, first + bytes, machine.shared);
  return add_extent(name, line, own.pool + (unsigned)first, bytes);
}

namespace {

// Meet at a statement; the last one to come releases the others.
bool meet(Meeting& meeting, int line, int kind, int expected, const char* statement) {
  if (meeting.count == 0) {
    meeting.line = line;
    meeting.kind = kind;
  } else if (meeting.line != line || meeting.kind != kind) {
    fault("%s in line %d, where other threads wait in line %d", statement, line, meeting.line);
  }
  if (++meeting.count < expected) return false;
  meeting.count = 0;
  return true;
}

int sync_cta(int line, const char* statement, int predicate) {
  if (machine.is_alone) return predicate;
  Cta& own = cta();
  own.predicate |= predicate;
  if (!meet(own.meeting, line, 0, machine.threads, statement)) {
    wait_for(std::string(statement) + " in line " + std::to_string(line));
    return cta().predicate_before;
  }
  own.predicate_before = own.predicate;
  own.predicate = 0;
  for (Thread& thread : own.threads)
    if (thread.state == waiting) make_ready(thread);
  give_way();
  return cta().predicate_before;
}

void meet_warp(int line, int kind, const char* statement) {
  Cta& own = cta();
  const int first = (int)current->index / warp_lanes * warp_lanes;
  const int lanes = std::min(warp_lanes, machine.threads - first);
  if (!meet(own.warps[current->index / warp_lanes].meeting, line, kind, lanes, statement)) {
    wait_for(std::string(statement) + " in line " + std::to_string(line));
    return;
  }
  for (int lane = 0; lane < lanes; ++lane)
    if (own.threads[first + lane].state == waiting) make_ready(own.threads[first + lane]);
  give_way();
}

}  // namespace

void sync_threads(int line) { sync_cta(line, "__syncthreads()", 0); }

int sync_threads_or(int line, int predicate) { return sync_cta(line, "__syncthreads_or()", predicate != 0); }

void sync_warp(int line) {
  if (!machine.is_alone) meet_warp(line, 1, "__syncwarp()");
}

static unsigned own_lane() { return machine.is_alone ? 0 : current->index % warp_lanes; }

// The lane that a shuffle reads (CUDA C++ Programming Guide, "Warp Shuffle Functions").
unsigned lane_xor(unsigned mask) {
  if (mask == 0 || mask >= warp_lanes) fault("a shuffle with the mask %u", mask);
  return own_lane() ^ mask;
}

unsigned lane_up(unsigned delta) {
  if (delta == 0 || delta >= warp_lanes) fault("a shuffle with the delta %u", delta);
  const unsigned lane = own_lane();
  return lane < delta ? lane : lane - delta;
}

unsigned lane_of(unsigned lane, unsigned width) {
  if (width == 0 || warp_lanes % width != 0 || lane >= width) fault("a shuffle from lane %u of %u", lane, width);
  return own_lane() / width * width + lane;
}

uint64_t shuffle(int line, uint64_t bits, unsigned source) {
  if (machine.is_alone) return bits;
  const unsigned lane = current->index % warp_lanes, turn = current->exchanges++ % 2;
  Warp& warp = cta().warps[current->index / warp_lanes];
  warp.values[turn][lane] = bits;
  if (current->index - lane + source >= (unsigned)machine.threads) fault("a shuffle with a lane that the warp lacks");
  meet_warp(line, 2, "a shuffle");
  return cta().warps[current->index / warp_lanes].values[turn][source];
}

// The values of all lanes of a warp, which take part together.
void gather(uint64_t bits, uint64_t (&all)[32]) {
  const unsigned lane = current->index % warp_lanes, turn = current->exchanges++ % 2;
  std::fill(std::begin(all), std::end(all), bits);
  if (machine.is_alone) return;
  if (machine.threads % warp_lanes != 0) fault("a product of matrices by a warp that lacks lanes");
  cta().warps[current->index / warp_lanes].values[turn][lane] = bits;
  meet_warp(0, 3, "mma.sync");
  const auto& values = cta().warps[current->index / warp_lanes].values[turn];
  std::copy(std::begin(values), std::end(values), std::begin(all));
}

// The turn of a counter among CTAs. All threads have fenced what they stored before, and fence again before they read
// what other CTAs stored (CUDA C++ Programming Guide, "Memory Fence Functions").
unsigned atomic_inc(unsigned* counter, unsigned last) {
  if (machine.is_alone) return 0;
  const uintptr_t place = reinterpret_cast<uintptr_t>(counter);
  const Buffer* buffer = buffer_at(place);
  if (buffer == nullptr || place + 4 > buffer->begin + (uintptr_t)buffer->bytes)
    fault("atomicInc outside of all buffers");
  for (Thread& thread : cta().threads) {
    if (thread.fences.has_unfenced_store)
      fault("thread %u stores before the ticket without __threadfence()", thread.index);
    thread.fences.has_unfenced_ticket = true;
  }
  const unsigned before = *counter;
  *counter = before >= last ? 0 : before + 1;
  return before;
}

void fence() { *fences = {false, false}; }

unsigned shared_address(const void* address) {
  const char* place = static_cast<const char*>(address);
  const Cta& own = cta();
  if (place < own.window || place >= own.window + window_bytes) fault("an address that is none of shared memory");
  return (unsigned)(place - own.window);
}

const Buffer* buffer_at(uintptr_t place) {
  for (int number = 0; number < machine.kernel->arguments; ++number) {
    const Buffer* buffer = machine.arguments[number].buffer;
    if (buffer != nullptr && place >= buffer->begin && place < buffer->begin + (uintptr_t)buffer->bytes) return buffer;
  }
  return nullptr;
}

namespace ptx {

namespace {

void check_shared(unsigned address, unsigned bytes, unsigned alignment, const char* what) {
  const Cta& own = cta();
  const Extent* extent = extent_of(own, own.window + address);
  if (extent == nullptr) fault("%s at %u, outside of all shared buffers", what, address);
  if (own.window + address + bytes > extent->begin + extent->bytes)
    fault("%s of %u bytes at byte %s, which has %lld", what, bytes, name_of(own, address, 1).c_str(), extent->bytes);
  if (address % alignment != 0)
    fault("%s at byte %s, at no multiple of %u", what, name_of(own, address, 1).c_str(), alignment);
}

Barrier& barrier_at(At at, const char* what) {
  check_shared((unsigned)at.address, 8, 8, what);
  Barrier& barrier = cta().barriers[(unsigned)at.address];
  if (!barrier.is_initialised)
    fault("%s at %s, which is not initialised", what, name_of(cta(), (unsigned)at.address, 8).c_str());
  return barrier;
}

}  // namespace

void copy(const char* cache, At to, At from, unsigned bytes, unsigned read) {
  if (bytes != 16 && (cache[1] == 'g' || (bytes != 4 && bytes != 8))) fault("no cp.async.%s of %u bytes", cache, bytes);
  if (read > bytes) fault("cp.async reads %u of %u bytes", read, bytes);
  check_shared((unsigned)to.address, bytes, bytes, "cp.async");
  const Buffer* buffer = buffer_at(from.address);
  if (read != 0 && (buffer == nullptr || from.address + read > buffer->begin + (uintptr_t)buffer->bytes))
    fault("cp.async to %s reads outside of all buffers", name_of(cta(), (unsigned)to.address, 1).c_str());
  if (from.address % bytes != 0) fault("cp.async reads %u bytes at no multiple of them", bytes);
  if (buffer != nullptr && buffer->is_virtual) {
    if (read != 0) record(*buffer, (long long)(from.address - buffer->begin), bytes, false);
    return;
  }
  auto made = std::make_shared<Copy>(Copy{(unsigned)to.address, from.address, bytes, read});
  if (machine.lands_early) land(cta(), *made);
  current->open.push_back(std::move(made));
}

void cp_async_commit_group() {
  current->groups.push_back(std::move(current->open));
  current->open.clear();
}

void cp_async_wait_group(unsigned pending) {
  for (; current->groups.size() > pending; current->groups.pop_front()) land(cta(), current->groups.front());
}

void mbarrier_init_shared_b64(At at, unsigned arrivals) {
  check_shared((unsigned)at.address, 8, 8, "mbarrier.init");
  Barrier& barrier = cta().barriers[(unsigned)at.address];
  if (barrier.is_initialised)
    fault("mbarrier.init at %s, which is initialised", name_of(cta(), (unsigned)at.address, 8).c_str());
  if (arrivals == 0 || arrivals >= 1 << 20) fault("mbarrier.init with %u arrivals", arrivals);
  barrier = Barrier();
  barrier.is_initialised = true;
  barrier.arrivals = barrier.pending = arrivals;
  barrier.initialiser = (int)current->index;
}

void mbarrier_inval_shared_b64(At at) { barrier_at(at, "mbarrier.inval").is_initialised = false; }

void mbarrier_arrive_shared_b64(uint64_t& state, At at) {
  if (machine.is_alone) return;
  state = barrier_at(at, "mbarrier.arrive").phase;
  arrive(cta(), (unsigned)at.address);
  give_way();
}

void mbarrier_arrive_expect_tx_shared_b64(uint64_t& state, At at, unsigned bytes) {
  if (machine.is_alone) return;
  Barrier& barrier = barrier_at(at, "mbarrier.arrive.expect_tx");
  state = barrier.phase;
  barrier.bytes += bytes;
  arrive(cta(), (unsigned)at.address);
  give_way();
}

void cp_async_mbarrier_arrive_noinc_shared_b64(At at) {
  if (machine.is_alone) return;
  barrier_at(at, "cp.async.mbarrier.arrive");
  Event event{&cta(), (unsigned)at.address, {}, current->open, false, 0};
  for (const Copies& group : current->groups) event.copies.insert(event.copies.end(), group.begin(), group.end());
  current->open.clear();
  current->groups.clear();
  add(std::move(event));
  give_way();
}

void mbarrier_try_wait_parity_shared_b64(bool& done, At at, unsigned parity) {
  done = true;
  if (machine.is_alone) return;
  if (parity > 1) fault("mbarrier.try_wait with the parity %u", parity);
  const unsigned address = (unsigned)at.address;
  const Barrier& barrier = barrier_at(at, "mbarrier.try_wait");
  // The instruction may give up before the phase is over, and so it does at first.
  if (barrier.phase % 2 == parity && !current->has_tested) {
    current->has_tested = true;
    done = false;
    return;
  }
  current->has_tested = false;
  if (barrier.phase % 2 == parity) {
    current->awaits = address;
    wait_for("phase " + std::to_string(barrier.phase) + " of " + name_of(cta(), address, 8));
    current->awaits = 0;
  } else {
    give_way();
  }
  done = barrier_at(at, "mbarrier.try_wait").phase % 2 != parity;
}

// The current thread meets others at the barrier of a number: whether any of them votes.
static bool meet_named(unsigned number, unsigned threads, bool vote) {
  if (machine.is_alone) return vote;
  if (number == 0 || number > 15) fault("bar.sync at the barrier %u, where 1 to 15 are not of all threads", number);
  if (threads == 0 || threads % warp_lanes != 0) fault("bar.sync of %u threads, no whole warps", threads);
  std::vector<Thread*>& here = cta().named[number];
  current->has_vote = vote;
  here.push_back(current);
  if (here.size() < threads) {
    wait_for("bar.sync at the barrier " + std::to_string(number));
    return current->some_vote;
  }
  const bool some = std::any_of(here.begin(), here.end(), [](Thread* thread) { return thread->has_vote; });
  for (Thread* thread : here) {
    thread->some_vote = some;
    if (thread != current) make_ready(*thread);
  }
  here.clear();
  give_way();
  return some;
}

void bar_sync(unsigned number, unsigned threads) { meet_named(number, threads, false); }

void bar_red_or_pred(bool& some, unsigned number, unsigned threads, bool vote) {
  some = meet_named(number, threads, vote);
}

void setmaxnreg(unsigned registers) {
  if (registers < 24 || registers > 256 || registers % 8 != 0) fault("setmaxnreg to %u registers", registers);
}

void fence_proxy_async_shared_cta() {
  for (auto& [address, barrier] : cta().barriers)
    if (barrier.initialiser == (int)current->index) barrier.is_fenced = true;
}

namespace {

// Half of a register of two 16-bit values.
double factor(uint32_t bits, int half, bool is_bf16) {
  const unsigned short one = (unsigned short)(bits >> 16 * half);
  return is_bf16 ? bf16::__bfloat162float(bf16::__short_as_bfloat16((short)one))
                 : fp16::__half2float(fp16::__short_as_half((short)one));
}

// A sum rounded toward zero, as tensor cores are observed to do (see the simulator's mma.py).
float toward_zero(double exact) {
  const float near = (float)exact;
  return std::abs((double)near) > std::abs(exact) ? nextafterf(near, 0.0f) : near;
}

// The place in shared memory of an element of `size` bytes of a tile that a descriptor says: of its row, and along k. See
// codegen/wgmma.py.
unsigned tile_place(uint64_t descriptor, int row, int k, bool is_transposed, int size) {
  const unsigned start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
  const unsigned stride = (descriptor >> 32 & 0x3fff) << 4, mode = descriptor >> 62;
  if (mode == 0) fault("a tile without a swizzle");
  const int span = 256 >> mode, units = span / 16;
  const int line = is_transposed ? k : row, along = is_transposed ? row : k;
  unsigned address = start + line / 8 * stride + line % 8 * span + along % (span / size) * size;
  if (is_transposed) address += along / (span / size) * leading;
  address ^= (address >> 7) % units << 4;
  check_shared(address, size, size, "wgmma");
  return address;
}

// What TF32 keeps of a factor: tensor cores drop its last 13 bits.
double tf32_factor(uint32_t bits) {
  const uint32_t kept = bits & ~0x1fffu;
  float value;
  memcpy(&value, &kept, sizeof(value));
  return value;
}

double tile_factor(uint64_t descriptor, int row, int k, bool is_transposed, Type type) {
  const int size = type == Type::tf32 ? 4 : 2;
  const unsigned address = tile_place(descriptor, row, k, is_transposed, size);
  uint32_t bits = 0;
  memcpy(&bits, cta().window + address, size);
  return type == Type::tf32 ? tf32_factor(bits) : factor(bits, 0, type == Type::bf16);
}

}  // namespace

void mma(const Fragment& sums, const std::array<uint32_t, 4>& left, const std::array<uint32_t, 2>& right, bool is_bf16) {
  uint64_t a[4][32], b[2][32];
  for (int number = 0; number < 4; ++number) gather(left[number], a[number]);
  for (int number = 0; number < 2; ++number) gather(right[number], b[number]);
  const int group = current->index % warp_lanes / 4, lane = current->index % 4;
  for (int place = 0; place < 4; ++place) {
    double sum = *sums[place];
    for (int k = 0; k < 16; ++k) {
      const int step = k / 8, other = k % 8 / 2;
      sum += factor((uint32_t)a[step * 2 + place / 2][group * 4 + other], k % 2, is_bf16) *
             factor((uint32_t)b[step][(lane * 2 + place % 2) * 4 + other], k % 2, is_bf16);
    }
    *sums[place] = toward_zero(sum);
  }
}

void mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(
    Fragment to, std::array<uint32_t, 4> left, std::array<uint32_t, 2> right, Fragment) {
  uint64_t a[4][32], b[2][32];
  for (int number = 0; number < 4; ++number) gather(left[number], a[number]);
  for (int number = 0; number < 2; ++number) gather(right[number], b[number]);
  const int group = current->index % warp_lanes / 4, lane = current->index % 4;
  for (int place = 0; place < 4; ++place) {
    double sum = *to[place];
    for (int k = 0; k < 8; ++k) {
      const int step = k / 4, other = k % 4;
      sum += tf32_factor((uint32_t)a[step * 2 + place / 2][group * 4 + other]) *
             tf32_factor((uint32_t)b[step][(lane * 2 + place % 2) * 4 + other]);
    }
    *to[place] = toward_zero(sum);
  }
}

void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(
    Integers to, std::array<uint32_t, 4> left, std::array<uint32_t, 2> right, Integers) {
  uint64_t a[4][32], b[2][32];
  for (int number = 0; number < 4; ++number) gather(left[number], a[number]);
  for (int number = 0; number < 2; ++number) gather(right[number], b[number]);
  const int group = current->index % warp_lanes / 4, lane = current->index % 4;
  for (int place = 0; place < 4; ++place) {
    int64_t sum = *to[place];
    for (int k = 0; k < 32; ++k) {
      const int step = k / 16, other = k % 16 / 4, byte = k % 4 * 8;
      sum += (int64_t)(int8_t)(a[step * 2 + place / 2][group * 4 + other] >> byte) *
             (int8_t)(b[step][(lane * 2 + place % 2) * 4 + other] >> byte);
    }
    *to[place] = (int)sum;
  }
}

void ldmatrix(uint32_t* const* to, int count, At row, bool is_transposed) {
  check_shared((unsigned)row.address, 16, 16, "ldmatrix");
  uint64_t rows[32];
  gather(row.address, rows);
  const int group = current->index % warp_lanes / 4, lane = current->index % 4;
  for (int matrix = 0; matrix < count; ++matrix) {
    uint16_t pair[2];
    for (int place = 0; place < 2; ++place) {
      const int number = is_transposed ? lane * 2 + place : group, element = is_transposed ? group : lane * 2 + place;
      memcpy(&pair[place], cta().window + rows[matrix * 8 + number] + element * sizeof(uint16_t), sizeof(uint16_t));
    }
    memcpy(to[matrix], pair, sizeof(pair));
  }
}

// The products of a warpgroup: `left_factor` gives the left factor of one of the warp's 16 rows, along k.
template <typename Left>
static void multiply(
    float* const* sums, int columns, Left left_factor, uint64_t right, Type type, bool goes_on, bool by_columns) {
  if (machine.threads % 128 != 0) fault("a product of a warpgroup that lacks threads");
  const int lane = current->index % warp_lanes, depth = type == Type::tf32 ? 8 : 16;
  for (int place = 0; place < columns / 2; ++place) {
    const int row = place / 2 % 2 * 8 + lane / 4, column = place / 4 * 8 + lane % 4 * 2 + place % 2;
    double sum = goes_on ? *sums[place] : 0.0;
    for (int k = 0; k < depth; ++k) sum += left_factor(row, k) * tile_factor(right, column, k, by_columns, type);
    *sums[place] = toward_zero(sum);
  }
}

void wgmma(
    float* const* sums, int columns, uint64_t left, uint64_t right, Type type, bool goes_on, bool by_rows, bool by_columns) {
  if (machine.is_alone) return;
  const int first = current->index % 128 / warp_lanes * 16;
  const auto factor_of = [&](int row, int k) { return tile_factor(left, first + row, k, by_rows, type); };
  multiply(sums, columns, factor_of, right, type, goes_on, by_columns);
}

void wgmma(float* const* sums, int columns, const Held& left, uint64_t right, Type type, bool goes_on, bool by_columns) {
  if (machine.is_alone) return;
  uint64_t held[4][32];
  for (int number = 0; number < 4; ++number) gather(left[number], held[number]);
  const auto factor_of = [&](int row, int k) {
    const int packed = type == Type::tf32 ? 1 : 2, half = 4 * packed;
    const uint32_t bits = (uint32_t)held[k / half * 2 + row / 8][row % 8 * 4 + k % half / packed];
    return type == Type::tf32 ? tf32_factor(bits) : factor(bits, k % 2, type == Type::bf16);
  };
  multiply(sums, columns, factor_of, right, type, goes_on, by_columns);
}

void wgmma(int* const* sums, int columns, uint64_t left, uint64_t right, bool goes_on) {
  if (machine.is_alone) return;
  if (machine.threads % 128 != 0) fault("a product of a warpgroup that lacks threads");
  const int lane = current->index % warp_lanes, first = current->index % 128 / warp_lanes * 16;
  const auto byte = [](uint64_t tile, int row, int k) {
    return (int64_t)(int8_t)cta().window[tile_place(tile, row, k, false, 1)];
  };
  for (int place = 0; place < columns / 2; ++place) {
    const int row = place / 2 % 2 * 8 + lane / 4, column = place / 4 * 8 + lane % 4 * 2 + place % 2;
    int64_t sum = goes_on ? *sums[place] : 0;
    for (int k = 0; k < 32; ++k) sum += byte(left, first + row, k) * byte(right, column, k);
    *sums[place] = (int)sum;
  }
}

// The access of a box of a buffer without memory: where its first element lies.
static void record_corner(const Buffer& buffer, const Map& map, const Box& box, bool is_store) {
  long long first = 0, outer = 1;
  for (int dim = 0; dim < box.rank; ++dim) {
    first += box.corner[dim] * outer;
    outer *= (long long)map.extents[dim];
  }
  record(buffer, first * map.element, 0, is_store);
}

void load_box(int rank, At to, const Box& box, At at) {
  const Map& map = *reinterpret_cast<const Map*>(box.map);
  const unsigned address = (unsigned)to.address;
  if (box.rank != rank || map.rank != (unsigned)rank) fault("a box of rank %d of a map of rank %u", rank, map.rank);
  const Buffer* buffer = buffer_of(map);
  if (buffer->is_virtual) return record_corner(*buffer, map, box, false);
  const unsigned bytes = box_bytes(map);
  check_shared(address, bytes, 128, "a box");
  const Barrier& barrier = barrier_at(at, "a box");
  if (!barrier.is_fenced)
    fault("a box completes on %s, which no fence.proxy.async followed", name_of(cta(), (unsigned)at.address, 8).c_str());
  add({&cta(), (unsigned)at.address, box_data(map, *buffer, box.corner, address), {}, true, bytes});
  give_way();
}

// The box is read where its thread waits for the group; at once where copies land early.
void store_box(int rank, const Box& box, At from) {
  const Map& map = *reinterpret_cast<const Map*>(box.map);
  const unsigned address = (unsigned)from.address;
  if (box.rank != rank || map.rank != (unsigned)rank) fault("a box of rank %d of a map of rank %u", rank, map.rank);
  const Buffer* buffer = buffer_of(map);
  if (buffer->is_virtual) return record_corner(*buffer, map, box, true);
  check_shared(address, box_bytes(map), 128, "a box");
  BoxStore store{&map, {}, address};
  std::copy(box.corner, box.corner + rank, store.corner.begin());
  if (machine.lands_early)
    write_box(map, *buffer, store.corner.data(), cta().window, address);
  else
    current->open_stores.push_back(store);
}

void cp_async_bulk_commit_group() {
  current->store_groups.push_back(std::move(current->open_stores));
  current->open_stores.clear();
}

void cp_async_bulk_wait_group_read(unsigned pending) {
  for (; current->store_groups.size() > pending; current->store_groups.pop_front())
    for (const BoxStore& store : current->store_groups.front())
      write_box(*store.map, *buffer_of(*store.map), store.corner.data(), cta().window, store.from);
}

void barrier_cluster_arrive_release_aligned() {
  if (machine.is_alone) return;
  if (current->waits_for_cluster) fault("barrier.cluster.arrive before the wait for the one before");
  current->waits_for_cluster = true;
  current->cluster_phase = cluster.phase;
  if (++cluster.arrived < (int)by_rank.size()) return;
  cluster.arrived = 0;
  ++cluster.phase;
  for (Thread* thread : by_rank)
    if (thread->state == waiting && thread->waits_for_cluster) make_ready(*thread);
}

void barrier_cluster_wait_acquire_aligned() {
  if (machine.is_alone) return;
  if (!current->waits_for_cluster) fault("barrier.cluster.wait before an arrival");
  if (current->cluster_phase == cluster.phase)
    wait_for("the barrier of the cluster");
  else
    give_way();
  current->waits_for_cluster = false;
}

uint64_t in_cta(uint64_t own, unsigned rank) {
  if (machine.is_alone) return own;
  if (rank >= (unsigned)machine.kernel->cluster) fault("mapa to CTA %u of a cluster of %d", rank, machine.kernel->cluster);
  const unsigned address = shared_address(reinterpret_cast<const void*>(own));
  check_shared(address, 1, 1, "mapa");
  const Cta& other = cluster.ctas[rank];
  const char* place = other.window + address;
  touched = extent_of(other, place);
  if (touched == nullptr) fault("mapa to CTA %u, which has not come to the declaration there", rank);
  return reinterpret_cast<uint64_t>(place);
}

}  // namespace ptx
}  // namespace host
