// Finds accesses of two threads to the same byte that no barrier orders, of which one writes.
//
// Kernels are compiled with the instrumentation of ThreadSanitizer, which calls a function before each access to memory; these
// functions are the emulator's own. For each element of a launch's arguments, and every two bytes of shared memory, the last write and
// two reads are kept.
// Within a block, an access comes before another thread's if a barrier lies between, or if both are of a warp, a `__syncwarp`; accesses
// of different blocks are never ordered. Shuffles and other warp operations order nothing, and atomic operations are not checked.
// In a block with barriers in shared memory or turns of warpgroups, each thread has a vector clock, which arrivals, waits and
// `__syncwarp` join.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

// For each thread of a block, the last of its epochs whose accesses come before what a thread does. Empty without clocks.
using Tick = int16_t;
using Clock = std::vector<Tick>;
inline void join(Clock& to, const Clock& from) {
  if (to.empty()) to = from;
  // In pieces of a warp, which compilers vectorise.
  for (size_t first = 0; first < from.size(); first += 32)
    for (size_t i = first; i < first + 32; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
}

// Who accesses, after how many barriers of its block, and in which epoch: how many `__syncwarp` it has passed, and with clocks also
// arrivals. Block 0 is nobody; others are counted from 1.
struct Stamp {
  uint64_t block : 24, thread : 10, barriers : 16, epoch : 14;

  // `clock`: of the later thread.
  bool comes_before(const Stamp& later, const Clock& clock) const {
    if (block == 0) return true;
    if (block != later.block) return false;
    if (thread == later.thread || barriers < later.barriers) return true;
    if (!clock.empty()) return Tick(epoch) <= clock[thread];
    return thread / 32 == later.thread / 32 && epoch < later.epoch;
  }
  // How far apart two threads are: 0 the same, 1 in a warp, 2 in a block, 3 in different blocks.
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

  // Watches memory of elements of `each` bytes, which is named in messages. Memory that a block has alone forgets the accesses of
  // other blocks.
  void watch(const void* begin, size_t bytes, size_t each, std::string name, bool of_block);
  // An access of a thread with this clock. Returns a message if it is not ordered after an earlier one that conflicts with it, else
  // an empty text.
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
