// Detects data races: accesses of two threads to the same byte, at least one a write, without a barrier in between.
//
// Kernels are compiled with ThreadSanitizer's instrumentation, which calls a function before each memory access; the emulator provides
// these functions. It keeps the last write and two reads per element of a launch's arguments, and per two bytes of shared memory.
// Within a block, an access happens before another thread's if a barrier lies between, or within a warp a `__syncwarp`; accesses of
// different blocks are never ordered. Shuffles and other warp operations order nothing, and atomic operations are not checked.
// In a block with barriers in shared memory or turns of warpgroups, each thread has a vector clock, which arrivals, waits and
// `__syncwarp` join.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

// For each thread of a block, the last epoch whose accesses happen before the owner's next access. Empty without clocks.
using Tick = int16_t;
using Clock = std::vector<Tick>;
inline void join(Clock& to, const Clock& from) {
  if (to.empty()) to = from;
  // In chunks of a warp, which compilers vectorise.
  for (size_t first = 0; first < from.size(); first += 32)
    for (size_t i = first; i < first + 32; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
}

// The accessing thread, the number of barriers that its block has passed, and its epoch: the number of `__syncwarp` passed, and
// with clocks also of arrivals. Blocks are counted from 1; 0 means no access.
struct Stamp {
  uint64_t block : 24, thread : 10, barriers : 16, epoch : 14;

  // `clock` is that of the later thread.
  bool comes_before(const Stamp& later, const Clock& clock) const {
    if (block == 0) return true;
    if (block != later.block) return false;
    if (thread == later.thread || barriers < later.barriers) return true;
    if (!clock.empty()) return Tick(epoch) <= clock[thread];
    return thread / 32 == later.thread / 32 && epoch < later.epoch;
  }
  // The distance of two threads: 0 the same, 1 in a warp, 2 in a block, 3 in different blocks.
  int distance(const Stamp& other) const {
    if (block != other.block) return 3;
    return thread == other.thread ? 0 : thread / 32 == other.thread / 32 ? 1 : 2;
  }
};

// The accesses of one launch.
class Races {
 public:
  Races() = default;
  ~Races();
  Races(const Races&) = delete;
  Races& operator=(const Races&) = delete;

  // Watches memory with elements of `each` bytes; `name` is for messages. Memory private to a block forgets the accesses of other
  // blocks.
  void watch(const void* begin, size_t bytes, size_t each, std::string name, bool of_block);
  // Records an access of a thread with this clock. Returns a message if it conflicts with an unordered earlier access, else an
  // empty string.
  std::string access(const void* at, size_t bytes, bool writes, const Stamp& now, const Clock& clock);

 private:
  struct Cell {
    Stamp write, reads[2];
  };
  struct Region {
    const unsigned char* begin;
    size_t bytes, each;
    std::string name;
    bool of_block;
    Cell* cells;
    size_t cell_bytes() const { return (bytes + each - 1) / each * sizeof(Cell); }
  };
  std::vector<Region> regions_;
};

}  // namespace emulator
