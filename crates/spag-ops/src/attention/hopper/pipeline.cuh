// Tiles, barriers and work distribution of warpgroup attention (compute capability 9.0): a producer warpgroup copies tiles
// to shared memory, and two consumer warpgroups of 64 rows each multiply.
#pragma once

#include "../../cuda/wgmma.cuh"
#include "../tiles.cuh"

namespace attention::hopper {

constexpr int CONSUMERS = 2, THREADS = (1 + CONSUMERS) * wgmma::GROUP;
// A multiprocessor's 65,536 registers: 128 threads with 24 and 256 with 240.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

// Offset of 8 elements of a row, from 8·chunk on, in panels of ROWS rows.
template <int ROWS>
__device__ __forceinline__ int panel_place(int row, int chunk) {
  return (chunk / 8) * (ROWS * wgmma::PANEL) + row * wgmma::PANEL + 8 * ((chunk ^ row) & 7);
}

// Starts copying ROWS rows with stride `stride` to panels, with all threads of a warpgroup; rows from `present` on become
// zeros.
template <int DIM, int ROWS>
__device__ __forceinline__ void copy_panels(bf16* to, const bf16* from, unsigned stride, unsigned present) {
  constexpr int CHUNKS = DIM / 8, STEP = wgmma::GROUP / CHUNKS;
  static_assert(ROWS % STEP == 0 && STEP % 8 == 0, "all threads copy as much");
  const unsigned thread = threadIdx.x % wgmma::GROUP, row = thread / CHUNKS, chunk = thread % CHUNKS;
  to += panel_place<ROWS>(row, chunk);
  from += row * size_t(stride) + 8 * chunk;
  // The producer has few registers.
#pragma unroll 2
  for (unsigned i = row; i < ROWS; i += STEP) {
    copy_async_16(to, from, i < present);
    to += STEP * wgmma::PANEL;
    from += size_t(STEP) * stride;
  }
}

template <int N>
__device__ __forceinline__ void clear_sums(float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n][i] = 0;
}

// c = a·bᵀ for 64 rows of a, from `row` of panels of A_ROWS rows on, and the 8·N rows of b.
template <int DIM, int A_ROWS, int N>
__device__ __forceinline__ void multiply_rows(float (&c)[N][4], const bf16* a, int row, const bf16* b) {
#pragma unroll
  for (int k = 0; k < DIM / 16; ++k) {
    const int panel = k / 4, column = k % 4 * 16;
    wgmma::step<8 * N, 0>(c, wgmma::descriptor(a + panel * (A_ROWS * wgmma::PANEL) + row * wgmma::PANEL + column, A_ROWS),
                          wgmma::descriptor(b + panel * (8 * N * wgmma::PANEL) + column, 8 * N), k > 0);
  }
}

// c += a·b with a in registers; b has 16·K rows.
template <int DIM, int K>
__device__ __forceinline__ void multiply_add(float (&c)[DIM / 8][4], const uint32_t (&a)[K][4], const bf16* b) {
#pragma unroll
  for (int k = 0; k < K; ++k)
    wgmma::step<DIM, 1>(c, a[k], wgmma::descriptor(b + k * 16 * wgmma::PANEL, 16 * K));
}

// Rounds sums to bf16: two columns of sums have the layout of a left operand.
template <int N>
__device__ __forceinline__ void round_left(uint32_t (&a)[N / 2][4], const float (&c)[N][4]) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* pair = &c[2 * k + i / 2][2 * (i % 2)];
      a[k][i] = pack_bf16(pair[0], pair[1]);
    }
}

// A ring of STAGES buffers. `step` counts the uses of producer or consumer.
template <int STAGES>
struct Ring {
  uint64_t *full, *empty;
  unsigned step = 0;

  __device__ __forceinline__ unsigned stage() const { return step % STAGES; }
  __device__ __forceinline__ unsigned parity() const { return step / STAGES & 1; }
  // Producer: waits until the consumers have released the buffer.
  __device__ __forceinline__ unsigned claim() const {
    wgmma::barrier_wait(empty + stage(), parity() ^ 1);
    return stage();
  }
  // Producer: marks the buffer full once the copies of all its threads are complete.
  __device__ __forceinline__ void fill() {
    wgmma::barrier_arrive_after_copies(full + stage());
    ++step;
  }
  // Consumer: waits until the buffer is full.
  __device__ __forceinline__ unsigned receive() const {
    wgmma::barrier_wait(full + stage(), parity());
    wgmma::show_to_products();
    return stage();
  }
  // Consumer: this warp releases the buffer.
  __device__ __forceinline__ void leave() {
    __syncwarp();
    if (threadIdx.x % WARP == 0) wgmma::barrier_arrive(empty + stage());
    ++step;
  }
  // Called by one thread before any use.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < STAGES; ++i) {
      wgmma::barrier_init(full + i, wgmma::GROUP);
      wgmma::barrier_init(empty + i, CONSUMERS * wgmma::GROUP / WARP);
    }
  }
};

// The block's share of `total` pieces of work, which are sorted by size: every gridDim.x-th, in alternating directions.
__device__ __forceinline__ unsigned work_of_round(unsigned round) {
  return round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
}

// Writes a warp's 16 rows of sums, scaled by factor[half], to `to` with stride `stride`. They pass through rows `row`.. of
// panels of ROWS rows that only this warp still uses. Rows from `present` on, counted from `row`, are skipped.
template <int DIM, int ROWS>
__device__ __forceinline__ void store_panels(bf16* panels, int row, const float (&c)[DIM / 8][4], const float (&factor)[2],
                                             bf16* to, size_t stride, int present) {
  constexpr int CHUNKS = DIM / 8;
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int n = 0; n < CHUNKS; ++n)
      *reinterpret_cast<uint32_t*>(panels + panel_place<ROWS>(row + 8 * half + g, n) + 2 * t) =
          pack_bf16(c[n][2 * half] * factor[half], c[n][2 * half + 1] * factor[half]);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * CHUNKS / WARP; ++i) {
    const int at = i * WARP + lane, r = at / CHUNKS, chunk = at % CHUNKS;
    if (r < present) copy_vector(to + r * stride + 8 * chunk, panels + panel_place<ROWS>(row + r, chunk));
  }
}

}  // namespace attention::hopper
