// Shared by decode and prefill on tensor cores: stripes of 16 keys in pages, tiles in shared memory, and one step of
// the online softmax.
#pragma once

#include "../attention/softmax.cuh"
#include "../cuda/mma.cuh"
#include "tables.cuh"

namespace paged {

// Rows of D bf16 in shared memory. The 16-byte chunks of each row are swizzled, so that the eight rows of an ldmatrix
// are in different banks.
template <int D>
struct Tile {
  static constexpr int CHUNKS = D / 8;
  bf16* at;

  __device__ __forceinline__ bf16* chunk(int row, int chunk) const { return at + row * D + (chunk ^ (row & 7)) * 8; }
};

// Offsets of stripes in the pages of one KV head, in units of 16 bytes; each lane looks one up in advance, 32 in all.
// Stripe `index` of the caller is stripe first + index·step of the sequence; those from `end` on are absent.
template <int D>
struct Stripes {
  const unsigned* pages;
  unsigned kv, kv_heads, tokens, first, step, end, held;

  __device__ __forceinline__ unsigned lookup(unsigned index) {
    if (index % WARP == 0) {
      const unsigned stripe = first + (index + threadIdx.x % WARP) * step, of_page = tokens / STRIPE;
      held = 0;
      if (stripe < end)
        held = ((pages[stripe / of_page] * kv_heads + kv) * tokens + stripe % of_page * STRIPE) * Tile<D>::CHUNKS;
    }
    return __shfl_sync(ALL_LANES, held, int(index % WARP));
  }
};

// A warp's state of the attention of 16 rows: a lane's rows g and g + 8, and their running sums of values. `scale` is log₂e/√dim
// throughout.
template <int D>
struct Running {
  attention::RunningRow rows[2];
  float values[D / 8][4] = {};

  // Adds KEYS keys: their scores, and their values in `tile` from row `row` on. Masked keys have the score -∞. Each row
  // attends to at least one key so far, or with MAYBE_NONE at least one in the end.
  template <int KEYS, bool MAYBE_NONE = false>
  __device__ __forceinline__ void add(float (&scores)[KEYS / 8][4], float scale, const Tile<D>& tile, int row) {
    const int lane = threadIdx.x % WARP;
    float shrink[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) shrink[half] = rows[half].template add<MAYBE_NONE>(scores, half, scale);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) values[n][i] *= shrink[i / 2];
    }
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
      const uint32_t a[4] = {
          pack_bf16(scores[2 * k][0], scores[2 * k][1]), pack_bf16(scores[2 * k][2], scores[2 * k][3]),
          pack_bf16(scores[2 * k + 1][0], scores[2 * k + 1][1]), pack_bf16(scores[2 * k + 1][2], scores[2 * k + 1][3])};
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        uint32_t b[4];
        ldmatrix_x4_transposed(b, tile.chunk(row + 16 * k + lane % 16, 2 * n + lane / 16));
        mma_16x8x16(values[2 * n], a, b[0], b[1]);
        mma_16x8x16(values[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
};

// Scores of 16 queries with KEYS keys of `tile` from row `row` on.
template <int D, int KEYS>
__device__ __forceinline__ void score(float (&scores)[KEYS / 8][4], const uint32_t (&queries)[D / 16][4],
                                      const Tile<D>& tile, int row) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = 0;
  }
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
#pragma unroll
    for (int n = 0; n < KEYS / 16; ++n) {
      // Matrices: 8 keys by 8 dimensions, the dimensions first.
      uint32_t b[4];
      ldmatrix_x4(b, tile.chunk(row + 16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      mma_16x8x16(scores[2 * n], queries[k], b[0], b[1]);
      mma_16x8x16(scores[2 * n + 1], queries[k], b[2], b[3]);
    }
  }
}

}  // namespace paged
