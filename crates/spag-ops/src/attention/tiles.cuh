// Tiles of rows of one head in shared memory, and their products on tensor cores.
//
// A tile is [rows, DIM] bf16. ldmatrix reads 16 bytes from each of eight consecutive rows at once. To avoid bank
// conflicts, the 16-byte chunks of row r are permuted by r % 8.
//
// Sums of products are in the C layout of mma.cuh: c[m][n] is rows 16·m.., columns 8·n.. of the warp's part.
#pragma once

#include "../cuda/mma.cuh"
#include "softmax.cuh"

namespace attention {

// A work item: a tile of rows of one sequence, five words in the host's list. Rows are those of keys and values.
//
// A sequence that follows shared rows has copies of their keys and values, so that its keys are consecutive; its queries
// are the last rows and are not copied. The row of a query, its output and its gradients is that of its key minus `shift`.
struct Item {
  unsigned begin, first, end;  // the sequence's first row, the tile's first row, one past the sequence's last
  unsigned queries;            // the first row with a query
  unsigned shift;
};
__device__ __forceinline__ Item item_of(const unsigned* work, unsigned index) {
  work += 5 * size_t(index);
  return {work[0], work[1], work[2], work[3], work[4]};
}

constexpr float LN_2 = 0.6931471805599453f;

// Hides from the compiler that x is loop-invariant: values derived from it are recomputed in each iteration instead of
// occupying registers.
__device__ __forceinline__ int recomputed(int x) {
#ifndef SPAG_EMULATOR
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// Offset in the tile of a row's 8 elements from 8·chunk on.
template <int DIM>
__device__ __forceinline__ int place(int row, int chunk) {
  return row * DIM + 8 * (chunk ^ (row & 7));
}

// Starts copying ROWS rows with stride `stride` to a tile; rows from `present` on become zeros.
template <int DIM, int ROWS, int THREADS>
__device__ __forceinline__ void copy_tile(bf16* tile, const bf16* from, unsigned stride, unsigned present) {
  constexpr int CHUNKS = DIM / 8, STEP = THREADS / CHUNKS;
  // Rows STEP apart have the same permutation, so a thread's addresses differ by constants.
  static_assert(ROWS % STEP == 0 && STEP % 8 == 0, "all threads copy as much");
  const unsigned thread = recomputed(threadIdx.x), row = thread / CHUNKS, chunk = thread % CHUNKS;
  bf16* to = tile + place<DIM>(row, chunk);
  from += row * size_t(stride) + 8 * chunk;
#pragma unroll
  for (unsigned i = 0; i < ROWS; i += STEP) {
    copy_async_16(to + i * DIM, from, row + i < present);
    from += STEP * stride;
  }
}

// The A fragment of rows `row`.. and columns 16·k.. of a tile. Registers 0 and 2 are the B fragment of its first 8 rows
// as columns, 1 and 3 that of the next 8: all products use one address pattern, which saves registers.
template <int DIM>
__device__ __forceinline__ void load_rows(uint32_t (&a)[4], const bf16* tile, int row, int k, int lane) {
  ldmatrix_x4(a, tile + place<DIM>(row + lane % 16, 2 * k + lane / 16));
}

template <int M, int N>
__device__ __forceinline__ void clear(float (&c)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
}

// c += left·rightᵀ. `left(fragments, k, lane)` provides the A fragments of columns 16·k..; `right` is a tile of 8·N
// rows.
template <int DIM, int M, int N, class Left>
__device__ __forceinline__ void multiply_rows(float (&c)[M][N][4], Left left, const bf16* right) {
  const int lane = recomputed(threadIdx.x % WARP);
  // For short tiles the compiler would load more steps ahead than registers allow.
  [[maybe_unused]] constexpr int STEPS = N < 8 ? 4 : DIM / 16;
#pragma unroll STEPS
  for (int k = 0; k < DIM / 16; ++k) {
    uint32_t a[M][4];
    left(a, k, lane);
#pragma unroll
    for (int n = 0; n < N / 2; ++n) {
      uint32_t b[4];
      load_rows<DIM>(b, right, 16 * n, k, lane);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma_16x8x16(c[m][2 * n], a[m], b[0], b[2]);
        mma_16x8x16(c[m][2 * n + 1], a[m], b[1], b[3]);
      }
    }
  }
}

// c += left·right. `left` is a result of multiply_rows, rounded to bf16: the C layout of two columns of results is the
// A layout of one step of this product. `right` is a tile of 8·N rows.
template <int DIM, int M, int N>
__device__ __forceinline__ void multiply_add(float (&c)[M][DIM / 8][4], const float (&left)[M][N][4], const bf16* right) {
  const int lane = recomputed(threadIdx.x % WARP);
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &left[m][2 * k + i / 2][2 * (i % 2)];
        a[m][i] = pack_bf16(pair[0], pair[1]);
      }
#pragma unroll
    for (int n = 0; n < DIM / 16; ++n) {
      uint32_t b[4];
      ldmatrix_x4_transposed(b, right + place<DIM>(16 * k + lane % 16, 2 * n + lane / 16));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma_16x8x16(c[m][2 * n], a[m], b[0], b[1]);
        mma_16x8x16(c[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Writes the warp's rows, scaled by factor[m][half] (rows 16·m + g and 8 rows further), to `to` with stride `stride`.
// They pass through rows `row`.. of a tile that only this warp still uses, so that 16 bytes are written at once. Rows
// from `present` on, counted from `row`, are skipped.
template <int DIM, int M>
__device__ __forceinline__ void store_rows(bf16* tile, int row, const float (&c)[M][DIM / 8][4], const float (&factor)[M][2],
                                           bf16* to, size_t stride, int present) {
  constexpr int CHUNKS = DIM / 8;
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = 0; n < CHUNKS; ++n) {
        bf16* at = tile + place<DIM>(row + 16 * m + 8 * half + g, n) + 2 * t;
        const float scale = factor[m][half];
        *reinterpret_cast<uint32_t*>(at) = pack_bf16(c[m][n][2 * half] * scale, c[m][n][2 * half + 1] * scale);
      }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * M * CHUNKS / WARP; ++i) {
    const int at = i * WARP + lane, r = at / CHUNKS, chunk = at % CHUNKS;
    if (r < present) copy_vector(to + r * stride + 8 * chunk, tile + place<DIM>(row + r, chunk));
  }
}

}  // namespace attention
