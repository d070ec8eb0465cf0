// Emulates the operations of cuda/wgmma.cuh: warpgroup products, barriers in shared memory, and turns.
//
// A product starts when all 128 threads of a warpgroup have reached it with the same operands. It runs when a warp waits for its group,
// so shared memory is read as late as on a GPU at worst, and until then the sums in registers are NaNs. For the race check, its reads
// last from the start to that wait. Copies that arrive at a barrier complete either at once, or only when no thread can run. If no
// thread can run at all, the launch fails with a list of what the threads wait for.
#pragma once

#include <cstdint>

namespace emulator {

// A thread's arguments of a product: sums, the left operand in registers or null, and descriptors.
struct Product {
  float* c;
  const uint32_t* a;
  uint64_t left, right;
  int columns;
  bool transposed, accumulate;
};
// A barrier's index in Block::phases, and the parity of a phase.
struct PhaseWait { size_t phases; unsigned parity; };
struct TurnWait { int id; unsigned threads; };

uint64_t describe(const void* at, int rows);
void init_barrier(uint64_t* barrier, unsigned arrivals);
void arrive(uint64_t* barrier);
void arrive_after_copies(uint64_t* barrier);
void wait_for_phase(uint64_t* barrier, unsigned parity);
void show_to_products();

}  // namespace emulator

namespace wgmma {

inline uint64_t descriptor(const bf16* at, int rows) { return emulator::describe(at, rows); }
template <int N, int TRANSPOSED>
inline void step(float (&c)[N / 8][4], uint64_t a, uint64_t b, int accumulate) {
  emulator::Product product{&c[0][0], nullptr, a, b, N, TRANSPOSED != 0, accumulate != 0};
  emulator::wait(emulator::Wait::Product, &product);
}
template <int N, int TRANSPOSED>
inline void step(float (&c)[N / 8][4], const uint32_t (&a)[4], uint64_t b) {
  emulator::Product product{&c[0][0], a, 0, b, N, TRANSPOSED != 0, true};
  emulator::wait(emulator::Wait::Product, &product);
}
inline void begin() { emulator::wait(emulator::Wait::Fence, nullptr); }
inline void commit() { emulator::wait(emulator::Wait::Commit, nullptr); }
template <int PENDING>
inline void wait() {
  unsigned pending = PENDING;
  emulator::wait(emulator::Wait::Products, &pending);
}
template <int N>
inline void settle(float (&)[N][4]) {}

inline void barrier_init(uint64_t* barrier, unsigned arrivals) { emulator::init_barrier(barrier, arrivals); }
inline void barrier_arrive(uint64_t* barrier) { emulator::arrive(barrier); }
inline void barrier_arrive_after_copies(uint64_t* barrier) { emulator::arrive_after_copies(barrier); }
inline void barrier_wait(uint64_t* barrier, unsigned parity) { emulator::wait_for_phase(barrier, parity); }
inline void show_to_products() { emulator::show_to_products(); }

template <int THREADS>
inline void turn_wait(int id) {
  emulator::TurnWait turn{id, THREADS};
  emulator::wait(emulator::Wait::TurnWait, &turn);
}
template <int THREADS>
inline void turn_give(int id) {
  emulator::TurnWait turn{id, THREADS};
  emulator::wait(emulator::Wait::TurnGive, &turn);
}

template <int COUNT>
inline void fewer_registers() { static_assert(COUNT % 8 == 0 && COUNT >= 24 && COUNT <= 256, "registers"); }
template <int COUNT>
inline void more_registers() { fewer_registers<COUNT>(); }

}  // namespace wgmma
