// See races.h.
#include "races.h"

#include <sys/mman.h>

#include <stdexcept>

namespace emulator {

Races::~Races() {
  for (const Region& region : regions_) munmap(region.cells, region.cell_bytes());
}

void Races::watch(const void* begin, size_t bytes, size_t each, std::string name, bool of_block) {
  if (bytes == 0) return;
  Region region{static_cast<const unsigned char*>(begin), bytes, each, std::move(name), of_block, nullptr};
  // Zeros, which are no accesses; pages are mapped on first use.
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* cells = mmap(nullptr, region.cell_bytes(), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (cells == MAP_FAILED) throw std::runtime_error("no memory to find races");
  region.cells = static_cast<Cell*>(cells);
  regions_.push_back(std::move(region));
}

namespace {

std::string thread_of(const Stamp& stamp) {
  return "thread " + std::to_string(stamp.thread) + " of block " + std::to_string(stamp.block - 1);
}

}  // namespace

std::string Races::access(const void* at, size_t bytes, bool writes, const Stamp& now, const Clock& clock) {
  const auto* address = static_cast<const unsigned char*>(at);
  for (const Region& region : regions_) {
    if (address < region.begin || address >= region.begin + region.bytes) continue;
    const size_t first = size_t(address - region.begin), end = first + bytes < region.bytes ? first + bytes : region.bytes;
    for (size_t byte = first / region.each * region.each; byte < end; byte += region.each) {
      Cell& cell = region.cells[byte / region.each];
      if (region.of_block && (cell.write.block != now.block || cell.reads[0].block != now.block ||
                              cell.reads[1].block != now.block)) {
        for (Stamp* past : {&cell.write, &cell.reads[0], &cell.reads[1]})
          if (past->block != now.block) *past = Stamp{};
      }
      const auto race = [&](const Stamp& past, const char* did) {
        return "a race: " + thread_of(now) + (writes ? " writes" : " reads") + " byte " + std::to_string(byte) + " of " +
               region.name + ", which " + thread_of(past) + " has " + did + " with no barrier between";
      };
      if (!cell.write.comes_before(now, clock)) return race(cell.write, "written");
      if (writes) {
        for (const Stamp& read : cell.reads)
          if (!read.comes_before(now, clock)) return race(read, "read");
        cell.write = now;
        cell.reads[0] = cell.reads[1] = Stamp{};
        continue;
      }
      // Keeps the two reads that are furthest apart: a later write is unordered with at least one of them.
      Stamp& one = cell.reads[0];
      Stamp& other = cell.reads[1];
      if (one.comes_before(now, clock)) {
        one = now;
      } else if (other.comes_before(now, clock) || one.distance(now) > one.distance(other)) {
        other = now;
      }
    }
    return "";
  }
  return "";
}

}  // namespace emulator

// Called by ThreadSanitizer's instrumentation; `emulator_access` is in emulator.cpp.
extern "C" {
void emulator_access(const void* at, size_t bytes, bool writes);
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, size_t bytes) { emulator_access(at, bytes, false); }
void __tsan_write_range(void* at, size_t bytes) { emulator_access(at, bytes, true); }
#define ACCESSES(bytes)                                                                \
  void __tsan_read##bytes(void* at) { emulator_access(at, bytes, false); }             \
  void __tsan_write##bytes(void* at) { emulator_access(at, bytes, true); }             \
  void __tsan_unaligned_read##bytes(void* at) { emulator_access(at, bytes, false); }   \
  void __tsan_unaligned_write##bytes(void* at) { emulator_access(at, bytes, true); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
// Clang calls these instead of the C library functions.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  emulator_access(from, bytes, false);
  emulator_access(to, bytes, true);
  return __builtin_memcpy(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  emulator_access(to, bytes, true);
  return __builtin_memset(to, value, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  emulator_access(from, bytes, false);
  emulator_access(to, bytes, true);
  return __builtin_memmove(to, from, bytes);
}
}
