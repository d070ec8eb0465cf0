// Fibers, scheduler and guarded memory of the emulator. See emulator.h.
#include "products.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
// Saves the callee-saved registers on the stack and the stack pointer in *from, and continues at `to`.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.globl emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
)");
#endif

namespace emulator {
namespace {

constexpr size_t STACK = 256 << 10;
// Maximum elements of an argument checked for races, at 24 bytes each.
constexpr size_t MOST_WATCHED = 4 << 20;
// Maximum launches of a kernel per process checked for races, which makes them about three times slower: tests of whole models
// have thousands of identical launches.
constexpr unsigned MOST_WATCHED_LAUNCHES = 256;
// Cache colouring: each thread's stack starts this many bytes further down than the one before, up to a limit. At equal
// distances, the stack tops would share a few cache sets.
constexpr size_t COLOUR = 9 * 64, MOST_COLOUR = 64 << 10;

}  // namespace

struct Entry {
  std::string parameters;
  void (*call)(void*, void**);
  void* function;
  // Number of launches checked for races.
  mutable std::atomic<unsigned> watched{0};
};

namespace {

std::map<std::string, Entry>& kernels() {
  static std::map<std::string, Entry> all;
  return all;
}

}  // namespace

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

// Memory that ends (or starts) at a guard page.
class Guarded {
 public:
  // The address is a multiple of 16 plus `offset` (< 16) bytes.
  Guarded(size_t bytes, bool at_end, size_t offset = 0) : bytes_(bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + offset + page - 1) / page * page;
    if (inner_ == 0) inner_ = page;
    total_ = inner_ + 2 * page;
    base_ = static_cast<unsigned char*>(mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) fail("no memory for an argument");
    mprotect(base_ + page, inner_, PROT_READ | PROT_WRITE);
    memset(base_ + page, 0xff, inner_);
    data_ = base_ + page + offset + (at_end ? (inner_ - bytes - offset) / 16 * 16 : 0);
  }
  ~Guarded() { munmap(base_, total_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  unsigned char* data() { return data_; }
  // Whether the bytes around the data are unchanged.
  bool whole() const {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    for (unsigned char* at = base_ + page; at < data_; ++at)
      if (*at != 0xff) return false;
    for (unsigned char* at = data_ + bytes_; at < base_ + page + inner_; ++at)
      if (*at != 0xff) return false;
    return true;
  }

 private:
  size_t bytes_, inner_, total_;
  unsigned char *base_, *data_;
};

Block::Block() = default;
Block::~Block() = default;

namespace {

// The stacks of a block's threads.
class Stacks {
 public:
  ~Stacks() { munmap(base, bytes_); }
  void reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    if (base != nullptr) munmap(base, bytes_);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    base = memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
    bytes_ = base == nullptr ? 0 : bytes;
    if (base == nullptr) fail("no memory for the threads");
  }
  unsigned char* base = nullptr;

 private:
  size_t bytes_ = 0;
};

thread_local Block* block = nullptr;
thread_local const char* kernel_name = "";
// Set if the launch is checked for races.
thread_local Races* races = nullptr;

}  // namespace

Block& running_block() { return *block; }
bool finds_races() { return races != nullptr; }

std::string access(const Thread& thread, const void* at, size_t bytes, bool writes) {
  if (races == nullptr) return "";
  const Stamp now{block->number + 1, thread.index.x, block->barriers, thread.epoch};
  return races->access(at, bytes, writes, now, thread.clock);
}

namespace {

void to_fiber(Thread& thread) {
  block->running = &thread;
#if defined(__x86_64__)
  emulator_switch(&block->scheduler, thread.stack_pointer);
#else
  swapcontext(&block->scheduler, &thread.context);
#endif
}
void to_scheduler(Thread& thread) {
#if defined(__x86_64__)
  emulator_switch(&thread.stack_pointer, block->scheduler);
#else
  swapcontext(&thread.context, &block->scheduler);
#endif
}

void fiber() {
  Thread& thread = *block->running;
  block->entry->call(block->entry->function, block->arguments);
  thread.done = true;
  if (!thread.open.empty() || !thread.groups.empty()) block->error = "a thread ended with asynchronous copies under way";
  if (has_products(thread)) block->error = "a thread ended with products that it has not waited for";
  to_scheduler(thread);
  abort();
}

void prepare(Thread& thread) {
  thread.done = false;
  thread.epoch = 1;
  thread.clock.clear();
  thread.shown = false;
  thread.wait = Wait::Nothing;
  thread.open.clear();
  thread.groups.clear();
  const size_t size = STACK - thread.index.x * COLOUR % MOST_COLOUR;
#if defined(__x86_64__)
  auto** top = reinterpret_cast<void**>(thread.stack + size);
  // The return address of `fiber`, with the stack alignment expected by a called function.
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&fiber);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  thread.stack_pointer = top;
#else
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack;
  thread.context.uc_stack.ss_size = size;
  thread.context.uc_link = nullptr;
  makecontext(&thread.context, fiber, 0);
#endif
}

float low(uint32_t pair) { return __bfloat162float({uint16_t(pair & 0xffff)}); }
float high(uint32_t pair) { return __bfloat162float({uint16_t(pair >> 16)}); }

// c[16×8] += a[16×16]·b[16×8], on the lanes' registers.
void multiply(Thread* lanes) {
  float a[16][16], b[16][8];
  for (unsigned lane = 0; lane < LANES; ++lane) {
    const auto& m = *static_cast<Mma*>(lanes[lane].data);
    const int g = int(lane) / 4, t = int(lane) % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
      a[row][column] = low(m.a[i]);
      a[row][column + 1] = high(m.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[2 * t + 8 * i][g] = low(m.b[i]);
      b[2 * t + 8 * i + 1][g] = high(m.b[i]);
    }
  }
  for (unsigned lane = 0; lane < LANES; ++lane) {
    const auto& m = *static_cast<Mma*>(lanes[lane].data);
    const int g = int(lane) / 4, t = int(lane) % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      m.c[i] += sum;
    }
  }
}

void load_matrices(Thread* lanes, bool transposed) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint16_t elements[8][8];
    for (int row = 0; row < 8; ++row) {
      const void* from = static_cast<Matrix*>(lanes[8 * matrix + row].data)->row;
      const auto* at = static_cast<const unsigned char*>(from);
      const unsigned char* shared = block->shared_data;
      if (at < shared || at + 16 > shared + block->shared_bytes) fail("ldmatrix reads outside shared memory");
      if (reinterpret_cast<uintptr_t>(from) % 16) fail("ldmatrix reads a row that is not on 16 bytes");
      const std::string race = access(lanes[8 * matrix + row], from, 16, false);
      if (!race.empty()) fail(race);
      memcpy(elements[row], from, 16);
    }
    for (unsigned lane = 0; lane < LANES; ++lane) {
      const int g = int(lane) / 4, t = int(lane) % 4;
      const uint16_t first = transposed ? elements[2 * t][g] : elements[g][2 * t];
      const uint16_t second = transposed ? elements[2 * t + 1][g] : elements[g][2 * t + 1];
      static_cast<Matrix*>(lanes[lane].data)->r[matrix] = uint32_t(first) | uint32_t(second) << 16;
    }
  }
}

// Executes the operation reached by all lanes of a warp.
void complete(Thread* lanes) {
  switch (lanes[0].wait) {
    case Wait::Shuffle: {
      for (unsigned lane = 0; lane < LANES; ++lane) {
        auto& shuffle = *static_cast<Shuffle*>(lanes[lane].data);
        shuffle.result = static_cast<Shuffle*>(lanes[shuffle.source & 31].data)->value;
      }
      break;
    }
    case Wait::Ballot: {
      uint32_t all = 0;
      for (unsigned lane = 0; lane < LANES; ++lane)
        if (static_cast<Ballot*>(lanes[lane].data)->predicate) all |= 1u << lane;
      for (unsigned lane = 0; lane < LANES; ++lane) static_cast<Ballot*>(lanes[lane].data)->result = all;
      break;
    }
    case Wait::Mma: multiply(lanes); break;
    case Wait::Matrix: load_matrices(lanes, false); break;
    case Wait::MatrixTransposed: load_matrices(lanes, true); break;
    case Wait::SyncWarp: pass_warp_barrier(lanes); break;
    case Wait::Fence: pass_fence(lanes); break;
    case Wait::Commit: commit_products(lanes); break;
    case Wait::Products: wait_for_products(lanes); break;
    // Other warps may have to arrive first.
    case Wait::Product: return reach_product(lanes);
    case Wait::TurnWait:
    case Wait::TurnGive: return reach_turn(lanes);
    case Wait::Barrier:
    case Wait::Phase:
    case Wait::Turn:
    case Wait::Group:
    case Wait::Nothing: break;
  }
  for (unsigned lane = 0; lane < LANES; ++lane) lanes[lane].wait = Wait::Nothing;
}

// Whether a lane waits for more than the other lanes of its warp.
bool is_held(Wait wait) {
  return wait == Wait::Barrier || wait == Wait::Phase || wait == Wait::Turn || wait == Wait::Group;
}

// Runs a warp's lanes until all wait for other warps or have ended. Returns whether any ran.
bool run_warp(Thread* lanes, unsigned schedule) {
  for (bool ran = false;;) {
    bool now = false;
    for (unsigned i = 0; i < LANES; ++i) {
      Thread& lane = lanes[schedule % 2 ? LANES - 1 - i : i];
      if (lane.wait == Wait::Phase && phase_ended(lane)) lane.wait = Wait::Nothing;
      if (!lane.done && lane.wait == Wait::Nothing) {
        to_fiber(lane);
        now = true;
      }
      if (!block->error.empty()) fail(block->error);
    }
    ran |= now;
    unsigned done = 0, held = 0, at_phases = 0;
    Wait operation = Wait::Nothing;
    for (unsigned i = 0; i < LANES; ++i) {
      done += lanes[i].done;
      if (lanes[i].done) continue;
      held += is_held(lanes[i].wait);
      at_phases += lanes[i].wait == Wait::Phase;
      if (!is_held(lanes[i].wait)) operation = lanes[i].wait;
    }
    // The arrival of one lane may end the phase that another waits for.
    if (at_phases > 0 && now) continue;
    if (done + held == LANES) return ran;
    for (unsigned i = 0; i < LANES; ++i) {
      if (lanes[i].done) fail("a lane has ended while others of its warp are at a warp operation");
      if (lanes[i].wait != operation && lanes[i].wait != Wait::Phase)
        fail("lanes of a warp are at different warp operations");
    }
    if (at_phases > 0) return ran;
    complete(lanes);
    ran = true;
  }
}

void run_block(unsigned schedule) {
  const size_t threads = block->threads.size(), warps = threads / LANES;
  for (Thread& thread : block->threads) prepare(thread);
  block->barriers = 0;
  block->phases.clear();
  block->deliveries.clear();
  block->deliver_early = schedule & 1;
  for (Turn& turn : block->turns) turn = Turn{};
  block->products.clear();
  block->products.resize(warps);
  for (;;) {
    bool ran = false;
    for (size_t i = 0; i < warps; ++i) {
      const size_t warp = schedule / 2 % 2 ? warps - 1 - i : i;
      ran |= run_warp(&block->threads[warp * LANES], schedule);
    }
    size_t done = 0, at_barrier = 0;
    for (Thread& thread : block->threads) {
      done += thread.done;
      at_barrier += !thread.done && thread.wait == Wait::Barrier;
    }
    if (done == threads) {
      if (!block->deliveries.empty()) fail("a block ended with asynchronous copies under way");
      return;
    }
    if (done + at_barrier == threads) {
      if (done > 0) fail("a barrier is missed by threads that have ended");
      ++block->barriers;
      for (Thread& thread : block->threads) thread.wait = Wait::Nothing;
      continue;
    }
    if (!ran && !deliver_until_a_phase_ends()) fail("no thread can run: " + describe_waits());
  }
}

void on_fault(int, siginfo_t* info, void*) {
  char text[256];
  if (block != nullptr) {
    const int n = snprintf(text, sizeof text,
                           "emulator: kernel %s reads or writes outside its memory at %p (block %u,%u,%u)\n", kernel_name,
                           info->si_addr, block->index.x, block->index.y, block->index.z);
    if (write(2, text, size_t(n)) < 0) _exit(70);
    _exit(70);
  }
  signal(SIGSEGV, SIG_DFL);
}

void watch_faults() {
  static const bool once = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    return true;
  }();
  (void)once;
}

}  // namespace

Kernel::Kernel(const char* name, std::string parameters, void (*call)(void*, void**), void* function) {
  Entry& entry = kernels()[name];
  entry.parameters = std::move(parameters);
  entry.call = call;
  entry.function = function;
}

Thread& current() { return *block->running; }
const Index3& thread_index() { return block->running->index; }
const Index3& block_index() { return block->index; }
const Index3& block_size() { return block->size; }
const Index3& grid_size() { return block->grid; }
unsigned char* dynamic_shared() { return block->shared_data; }

void wait(Wait what, void* data) {
  Thread& thread = current();
  thread.wait = what;
  thread.data = data;
  to_scheduler(thread);
}

uint32_t shuffle(uint32_t value, int source) {
  Shuffle shuffle{value, source, 0};
  wait(Wait::Shuffle, &shuffle);
  return shuffle.result;
}

void stop(std::string why) {
  block->error = std::move(why);
  to_scheduler(current());
  abort();
}

void access_or_stop(const void* at, size_t bytes, bool writes) {
  std::string race = access(current(), at, bytes, writes);
  if (!race.empty()) stop(std::move(race));
}

void need_alignment(const void* at, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(at) % bytes == 0) return;
  stop("a vector of " + std::to_string(bytes) + " bytes is not aligned");
}

void copy_later(void* to, const void* from, bool present, size_t bytes) {
  Copy copy{to, bytes, {}};
  if (reinterpret_cast<uintptr_t>(to) % bytes || (present && reinterpret_cast<uintptr_t>(from) % bytes))
    stop("an asynchronous copy is not on " + std::to_string(bytes) + " bytes");
  if (present) {
    access_or_stop(from, bytes, false);
    memcpy(copy.data, from, bytes);
  }
  // It may be written at any time until the wait.
  access_or_stop(to, bytes, true);
  current().open.push_back(copy);
}
void commit_copies() {
  Thread& thread = current();
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}
void wait_for_copies(int but) {
  auto& groups = current().groups;
  while (groups.size() > size_t(but)) {
    for (const Copy& copy : groups.front()) {
      access_or_stop(copy.to, copy.bytes, true);
      memcpy(copy.to, copy.data, copy.bytes);
    }
    groups.erase(groups.begin());
  }
}

}  // namespace emulator

// A memory access of a kernel (see races.cpp).
extern "C" void emulator_access(const void* at, size_t bytes, bool writes) {
  using namespace emulator;
  if (races == nullptr) return;
  const auto* address = static_cast<const unsigned char*>(at);
  if (address < block->stacks || address >= block->stacks_end) access_or_stop(at, bytes, writes);
}

// An argument: `bytes` at `data`, either memory passed as a pointer, or the value itself.
struct EmulatedArgument {
  void* data;
  size_t bytes;
  uint32_t kind;    // 0 value, 1 input memory, 2 output memory
  uint32_t offset;  // of the memory's address from a multiple of 16: views may begin at any element
  uint32_t letter;  // of its type; see emulator.h
};

namespace {

// Whether an argument of this letter may be passed for a parameter: a null pointer for any, and writable memory for a
// read-only pointer. Writes through an input's pointer are detected when they happen.
bool fits(char argument, char parameter) {
  const auto lower = [](char letter) { return letter >= 'A' && letter <= 'Z' ? char(letter + ('a' - 'A')) : letter; };
  const bool pointer = lower(parameter) >= 'a' && lower(parameter) <= 'z';
  return argument == '0' ? pointer : lower(argument) == lower(parameter);
}

// Bytes of an element of memory of this letter.
size_t size_of(char letter) {
  switch (letter | 0x20) {
    case 'b': return 1;
    case 'h': return 2;
    case 'd':
    case 'i': return 8;
    default: return 4;
  }
}

// A device reads the parameter's size of each argument, whatever was passed.
void check_arguments(const std::string& parameters, const std::string& passed) {
  bool all = passed.size() == parameters.size();
  for (size_t i = 0; all && i < passed.size(); ++i) all = fits(passed[i], parameters[i]);
  if (!all) emulator::fail("it is passed (" + passed + ") for the parameters (" + parameters + "); see emulator.h");
}

const emulator::Entry& kernel_of(const char* name) {
  const auto found = emulator::kernels().find(name);
  if (found == emulator::kernels().end()) emulator::fail(std::string("there is no kernel ") + name);
  return found->second;
}

}  // namespace

// Checks that the kernel exists and that arguments with these letters fit its parameters, without running it. Returns 0, or 1
// with a message in `error`.
extern "C" int emulator_check(const char* name, const char* letters, char* error, size_t error_bytes) {
  try {
    check_arguments(kernel_of(name).parameters, letters);
    return 0;
  } catch (const std::exception& e) {
    snprintf(error, error_bytes, "%s", e.what());
    return 1;
  }
}

namespace {

// Runs all blocks of a kernel whose parameters have these values.
void run_grid(const char* name, const emulator::Entry& kernel, const uint32_t* grid, const uint32_t* size,
              size_t shared_bytes, void** values, unsigned schedule) {
  using namespace emulator;
  const size_t threads = size_t(size[0]) * size[1] * size[2];
  if (threads == 0 || threads > 1024 || threads % LANES || size[1] != 1 || size[2] != 1)
    fail("a block of " + std::to_string(threads) + " threads");
  Block running;
  running.size = {size[0], size[1], size[2]};
  running.grid = {grid[0], grid[1], grid[2]};
  running.entry = &kernel;
  running.arguments = values;
  running.shared_bytes = shared_bytes;
  running.threads.resize(threads);
  // Reused by later launches: fresh memory costs more than many kernels.
  static thread_local Stacks stacks;
  stacks.reserve(threads * STACK);
  running.stacks = stacks.base;
  running.stacks_end = stacks.base + threads * STACK;
  running.shared = std::make_unique<Guarded>(shared_bytes, true);
  running.shared_data = running.shared->data();
  if (races != nullptr) races->watch(running.shared_data, shared_bytes, 2, "shared memory", true);
  for (size_t i = 0; i < threads; ++i) {
    running.threads[i].index = {unsigned(i), 0, 0};
    running.threads[i].stack = stacks.base + i * STACK;
  }
  struct Leave {
    ~Leave() { block = nullptr; }
  } leave;
  block = &running;
  kernel_name = name;
  const size_t blocks = size_t(grid[0]) * grid[1] * grid[2];
  for (size_t i = 0; i < blocks; ++i) {
    const size_t at = schedule & 4 ? blocks - 1 - i : i;
    running.number = at;
    running.index = {unsigned(at % grid[0]), unsigned(at / grid[0] % grid[1]), unsigned(at / grid[0] / grid[1])};
    // Refilled with NaNs for every block.
    memset(running.shared_data, 0xff, shared_bytes);
    run_block(schedule);
  }
}

}  // namespace

// The letters of a kernel's parameters (see emulator.h), valid for the lifetime of the process; null if the kernel does
// not exist.
extern "C" const char* emulator_parameters(const char* name) {
  const auto found = emulator::kernels().find(name);
  return found == emulator::kernels().end() ? nullptr : found->second.parameters.c_str();
}

// Runs a kernel in place on memory: `values` points to the value of each parameter, as for the driver. Errors and `schedule`
// as in `emulator_launch`; arguments have only their owner's guard pages.
extern "C" int emulator_launch_in_place(const char* name, const uint32_t* grid, const uint32_t* size, size_t shared_bytes,
                                        void** values, unsigned schedule, char* error, size_t error_bytes) {
  try {
    emulator::watch_faults();
    run_grid(name, kernel_of(name), grid, size, shared_bytes, values, schedule);
    return 0;
  } catch (const std::exception& e) {
    snprintf(error, error_bytes, "%s", e.what());
    return 1;
  }
}

// Runs a kernel. `schedule`: bit 0 reverses the lanes, bit 1 the warps, bit 2 the blocks; bit 3 puts the guard page
// before the arguments instead of after. Returns 0, or 1 with a message in `error`.
extern "C" int emulator_launch(const char* name, const uint32_t* grid, const uint32_t* size, size_t shared_bytes,
                               const EmulatedArgument* arguments, size_t count, unsigned schedule, char* error,
                               size_t error_bytes) {
  using namespace emulator;
  try {
    watch_faults();
    const Entry& kernel = kernel_of(name);
    std::string letters;
    for (size_t i = 0; i < count; ++i) letters += char(arguments[i].letter);
    check_arguments(kernel.parameters, letters);
    std::vector<std::unique_ptr<Guarded>> memory;
    std::vector<void*> pointers(count), values(count);
    for (size_t i = 0; i < count; ++i) {
      const EmulatedArgument& argument = arguments[i];
      if (argument.kind == 0) {
        values[i] = argument.data;
        continue;
      }
      memory.push_back(std::make_unique<Guarded>(argument.bytes, (schedule & 8) == 0, argument.offset));
      memcpy(memory.back()->data(), argument.data, argument.bytes);
      pointers[i] = argument.data == nullptr ? nullptr : memory.back()->data();
      values[i] = &pointers[i];
    }
    {
      Races found;
      for (size_t i = 0, used = 0; i < count; ++i)
        if (arguments[i].kind != 0) {
          const size_t bytes = arguments[i].bytes, each = size_of(char(arguments[i].letter));
          // Mapped on first use.
          if (bytes / each <= MOST_WATCHED)
            found.watch(memory[used]->data(), bytes, each, "argument " + std::to_string(i), false);
          ++used;
        }
      struct Watch {
        ~Watch() { races = nullptr; }
      } watch;
      if (kernel.watched.fetch_add(1, std::memory_order_relaxed) < MOST_WATCHED_LAUNCHES) races = &found;
      run_grid(name, kernel, grid, size, shared_bytes, values.data(), schedule);
    }
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
      if (arguments[i].kind == 0) continue;
      Guarded& each = *memory[used++];
      if (!each.whole()) fail("it writes outside argument " + std::to_string(i));
      if (arguments[i].kind == 2) memcpy(arguments[i].data, each.data(), arguments[i].bytes);
      else if (memcmp(arguments[i].data, each.data(), arguments[i].bytes))
        fail("it writes to argument " + std::to_string(i) + ", which it may only read");
    }
    return 0;
  } catch (const std::exception& e) {
    snprintf(error, error_bytes, "%s", e.what());
    return 1;
  }
}
