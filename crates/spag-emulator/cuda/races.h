// Finds accesses of two threads to the same byte that no barrier orders, of which one writes.
//
// Kernels are compiled with the instrumentation of ThreadSanitizer, which calls a function before each access to memory; these
// functions are the emulator's own. For each element of a launch's arguments, and every two bytes of shared memory, the last write and
// two reads are kept.
// Within a block, an access comes before another thread's if a barrier lies between, or if both are of a warp, a `__syncwarp`; accesses
// of different blocks are never ordered. Shuffles and other warp operations order nothing, and atomic operations are not checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

// Who accesses, and after how many barriers of its block and `__syncwarp` of its warp. Block 0 is nobody; others are counted from 1.
struct Stamp {
  uint64_t block : 24, thread : 10, barriers : 16, warp_barriers : 14;

  bool comes_before(const Stamp& later) const {
    if (block == 0) return true;
    if (block != later.block) return false;
    if (thread == later.thread || barriers < later.barriers) return true;
    return thread / 32 == later.thread / 32 && warp_barriers < later.warp_barriers;
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
  // An access. Returns a message if it is not ordered after an earlier one that conflicts with it, else an empty text.
  std::string access(const void* at, size_t bytes, bool writes, const Stamp& now);

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
