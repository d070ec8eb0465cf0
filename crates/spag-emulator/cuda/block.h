// The block that runs, as the parts of the emulator see it: threads, copies, barriers and products. Internal; see emulator.h.
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
  // Counts what orders its accesses for others of its block: each `__syncwarp`, and with clocks also each arrival.
  unsigned epoch = 1;
  // See races.h; empty without barriers that need it.
  Clock clock;
  // Whether it has shown memory to products since it last waited for a barrier in shared memory.
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
  // The phase that has not ended, counted from 0.
  uint64_t number;
  // What comes before the end of this phase, and what came before that of the last.
  Clock arrived, ended;
};

// Copies of a thread after which it arrives at a barrier.
struct Delivery {
  unsigned thread;
  std::vector<Copy> copies;
  size_t phases;
  Clock clock;
};

// A barrier of the block with a number, for some of its warps.
struct Turn {
  // Threads that it expects, or 0 if no warp has arrived.
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
  // Counted from 0 over the grid, and how many barriers it has passed.
  size_t number = 0;
  unsigned barriers = 0;
  std::vector<Phases> phases;
  std::deque<Delivery> deliveries;
  // Whether copies are delivered at once instead of as late as possible.
  bool deliver_early = false;
  Turn turns[TURNS];
  // Of each warp.
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

// Ends the launch with an error: in the scheduler, and in a thread of the kernel, which is never resumed.
[[noreturn]] void fail(const std::string& why);
[[noreturn]] void stop(std::string why);
// An access of a thread; a message if it is a race. The other one is of the running thread, which a race stops.
std::string access(const Thread& thread, const void* at, size_t bytes, bool writes);
void access_or_stop(const void* at, size_t bytes, bool writes);
bool finds_races();

// barriers.cpp.
// Whether the phase has ended that a thread at Wait::Phase waits for.
bool phase_ended(const Thread& thread);
// All lanes of a warp have passed a `__syncwarp`, or have reached Wait::TurnWait or Wait::TurnGive.
void pass_warp_barrier(Thread* lanes);
void reach_turn(Thread* lanes);
// Completes copies, the oldest first, until a phase ends. Returns `false` if none does.
bool deliver_until_a_phase_ends();
// What the block's threads wait for.
std::string describe_waits();

// products.cpp.
// All lanes of a warp have reached Wait::Product, Wait::Fence, Wait::Commit or Wait::Products.
void reach_product(Thread* lanes);
void pass_fence(Thread* lanes);
void commit_products(Thread* lanes);
void wait_for_products(Thread* lanes);
bool has_products(const Thread& thread);

}  // namespace emulator
