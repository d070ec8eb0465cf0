// The running block as seen by the parts of the emulator: threads, copies, barriers and products. Internal; see emulator.h.
#pragma once

#include "emulator.h"
#include "races.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

constexpr unsigned LANES = 32;

struct Entry;
class Guarded;

// An asynchronous copy. Its bytes are read when it starts.
struct Copy {
  void* to;
  size_t bytes;
  alignas(16) unsigned char data[16];
};

struct Thread {
  Index3 index;
  Wait wait = Wait::Nothing;
  void* data = nullptr;
  bool done = false;
  // Incremented at each point that orders its accesses for other threads: each `__syncwarp`, and with clocks also
  // each arrival.
  unsigned epoch = 1;
  // See races.h; empty if no barrier needs it.
  Clock clock;
  // Whether it has fenced memory for products since it last waited for a barrier in shared memory.
  bool shown = false;
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> groups;
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  unsigned char* stack = nullptr;
};

// A barrier in shared memory.
struct Phases {
  const uint64_t* at;
  unsigned arrivals, missing;
  // The current phase, counted from 0.
  uint64_t number;
  // The clocks joined by arrivals in this phase, and at the end of the last one.
  Clock arrived, ended;
};

// Copies of a thread that arrive at a barrier on completion.
struct Delivery {
  unsigned thread;
  std::vector<Copy> copies;
  size_t phases;
  Clock clock;
};

// A numbered barrier of the block for some of its warps.
struct Turn {
  // Expected threads; 0 if no warp has arrived.
  unsigned threads = 0;
  std::vector<unsigned> warps;
  Clock arrived;
};
constexpr unsigned TURNS = 16;

struct Products;

struct Block {
  Block();
  ~Block();
  Index3 index, size, grid;
  std::vector<Thread> threads;
  std::unique_ptr<Guarded> shared;
  unsigned char* shared_data = nullptr;
  size_t shared_bytes = 0;
  // The block's index in the grid, and the number of barriers passed.
  size_t number = 0;
  unsigned barriers = 0;
  std::vector<Phases> phases;
  std::deque<Delivery> deliveries;
  // Whether copies complete at once instead of as late as possible.
  bool deliver_early = false;
  Turn turns[TURNS];
  // Per warp.
  std::vector<Products> products;
  // The stacks of its threads.
  const unsigned char *stacks = nullptr, *stacks_end = nullptr;
  Thread* running = nullptr;
  const Entry* entry = nullptr;
  void** arguments = nullptr;
  std::string error;
#if defined(__x86_64__)
  void* scheduler = nullptr;
#else
  ucontext_t scheduler;
#endif
};

// The block of this OS thread.
Block& running_block();

// Ends the launch with an error. Called in the scheduler, or in a thread of the kernel, which is never resumed.
[[noreturn]] void fail(const std::string& why);
[[noreturn]] void stop(std::string why);
// Records an access of a thread; returns a message if it is a race with the running thread, which then stops.
std::string access(const Thread& thread, const void* at, size_t bytes, bool writes);
void access_or_stop(const void* at, size_t bytes, bool writes);
bool finds_races();

// barriers.cpp.
// Whether the phase that a thread at Wait::Phase waits for has ended.
bool phase_ended(const Thread& thread);
// Called when all lanes of a warp have passed a `__syncwarp`, or have reached Wait::TurnWait or Wait::TurnGive.
void pass_warp_barrier(Thread* lanes);
void reach_turn(Thread* lanes);
// Completes copies, oldest first, until a phase ends. Returns `false` if none ends.
bool deliver_until_a_phase_ends();
// Describes what the block's threads wait for.
std::string describe_waits();

// products.cpp.
// Called when all lanes of a warp have reached Wait::Product, Wait::Fence, Wait::Commit or Wait::Products.
void reach_product(Thread* lanes);
void pass_fence(Thread* lanes);
void commit_products(Thread* lanes);
void wait_for_products(Thread* lanes);
bool has_products(const Thread& thread);

}  // namespace emulator
