// Causal attention over packed sequences, forward, without materializing the T×T matrix (Dao 2023, FlashAttention-2).
//
// Lower bound: the two products take 4·T²·dim FLOPs per query head of a sequence of T tokens, half of which the mask
// saves. Key/value tiles come from the second-level cache; q, k, v and out are read or written once. At T = 2048, dim
// 128 and 32 heads this is 34 GFLOP per sequence: 0.11 ms at the 312 TFLOP/s of an A100's tensor cores, about half of
// that on an H100 with mma.sync.
//
// Tiles for head sizes 64 and 128: 128 queries in 4 warps of 32, and 64 keys. A warp reads every key and value from
// shared memory: for dim 128, 32 KiB and its queries' 8 KiB for 2·2·32·64·128 FLOPs, 320 clocks of shared memory
// against 512 of an A100's tensor cores. With 16 rows per warp it would be 288 against 256, bound by shared memory. 32
// rows take 128 registers of sums and 64 of scores, so queries stay in shared memory. 64 KiB of shared memory and at
// most 255 registers let two blocks share a multiprocessor, on an A100 too: one computes its exponentials while the
// other multiplies. Keys are loaded during the product with values and values during the scores, one buffer each.
#include "rows.cuh"

namespace {
using namespace attention;

constexpr int QUERIES = 128, KEYS = 64, WARPS = 4, THREADS = WARPS * WARP;
// 16-row tiles of a warp, and 8-column tiles of its scores.
constexpr int M = QUERIES / WARPS / 16, N = KEYS / 8;

// Replaces scores by exponentials and rescales `sums` to the new maxima. `row` is the warp's first query, `key` the
// tile's first key, both relative to the sequence. scale is 1/√dim·log₂e; the slope is divided by 1/√dim.
template <int DIM, class Mask>
__device__ __forceinline__ void exponentials(float (&scores)[M][N][4], float (&sums)[M][DIM / 8][4],
                                             RunningRow (&rows)[M][2], int row, int key, float scale, Mask mask,
                                             float slope) {
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  // Only tiles that cross the diagonal, or the window's end, need a mask. Keys after the sequence's end come after all
  // its queries.
  if (Mask::SPECIAL || mask.hides_some(row - (key + KEYS - 1), row + 16 * M - 1 - key)) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        mask_scores(scores[m], half, row + 16 * m + 8 * half + g - key - 2 * t, slope, mask);
  }
  float keep[M][2];
  bool changed = false;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = rows[m][half].top;
      // Without a window every query attends to key 0 of the first tile.
      keep[m][half] = rows[m][half].template add<Mask::SPECIAL>(scores[m], half, scale);
      changed |= rows[m][half].top != before;
    }
  // After the first tiles the maxima seldom change.
  if (!__any_sync(ALL_LANES, changed)) return;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] *= keep[m][i / 2];
}

// q, out [N, heads·DIM], k, v [rows of keys, kv_heads·DIM], lse [N, heads]. The grid is [item, head], so that heads that share
// keys run concurrently. scale is 1/√dim·log₂e.
template <int DIM, class Mask>
__device__ __forceinline__ void by_tiles(const bf16* q, const bf16* k, const bf16* v, const unsigned* work, bf16* out,
                                         float* lse, unsigned heads, unsigned kv_heads, float scale, Mask mask) {
  DYNAMIC_SHARED(bf16, shared);
  bf16 *queries = shared, *keys = queries + QUERIES * DIM, *values = keys + KEYS * DIM;
  const Item item = item_of(work, blockIdx.x / heads);
  const unsigned head = blockIdx.x % heads, kv = head / (heads / kv_heads);
  const unsigned count = min(unsigned(QUERIES), item.end - item.first), seen = item.first - item.begin + count;
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const size_t kv_at = item.begin * size_t(kv_stride) + kv * DIM;
  const int warp = threadIdx.x / WARP, row_in_tile = warp * 16 * M, row = int(item.first - item.begin) + row_in_tile;
  const bool idle = unsigned(row_in_tile) >= count;
  const unsigned begin = mask.first_key(item.first - item.begin) / KEYS * KEYS;
  const float slope = mask.slope(head) * (LOG2_E / scale);

  copy_tile<DIM, QUERIES, THREADS>(queries, q + (item.first - item.shift) * size_t(q_stride) + head * DIM, q_stride, count);
  copy_tile<DIM, KEYS, THREADS>(keys, k + kv_at + begin * size_t(kv_stride), kv_stride, seen - begin);
  copy_async_commit();
  float sums[M][DIM / 8][4], scores[M][N][4];
  RunningRow rows[M][2];
  clear(sums);
  for (unsigned key = begin; key < seen; key += KEYS) {
    // The keys have arrived, and all warps have finished with the previous values.
    copy_async_wait<0>();
    __syncthreads();
    copy_tile<DIM, KEYS, THREADS>(values, v + kv_at + key * size_t(kv_stride), kv_stride, seen - key);
    copy_async_commit();
    // Warps without queries, or whose queries see none of the tile's keys, only copy.
    const bool skip = idle || mask.hides_all(row - int(key + KEYS - 1), row + 16 * M - 1 - int(key));
    if (!skip) {
      clear(scores);
      multiply_rows<DIM>(
          scores,
          [&](uint32_t (&a)[M][4], int step, int lane) {
#pragma unroll
            for (int m = 0; m < M; ++m) load_rows<DIM>(a[m], queries, row_in_tile + 16 * m, step, lane);
          },
          keys);
    }
    // The values have arrived, and all warps have finished with the keys.
    copy_async_wait<0>();
    __syncthreads();
    if (key + KEYS < seen) {
      const unsigned next = key + KEYS;
      copy_tile<DIM, KEYS, THREADS>(keys, k + kv_at + next * size_t(kv_stride), kv_stride, seen - next);
      copy_async_commit();
    }
    if (!skip) {
      exponentials<DIM>(scores, sums, rows, row, int(key), scale, mask, slope);
      multiply_add<DIM>(sums, scores, values);
    }
  }
  if (idle) return;
  const int lane = threadIdx.x % WARP;
  // Read again, since registers are scarce.
  const Item own = item_of(work, blockIdx.x / heads);
  const size_t first = own.first - own.shift + row_in_tile;
  const int present = int(count) - row_in_tile;
  float inverse[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = rows[m][half].total();
      inverse[m][half] = 1.0f / sum;
      const int r = 16 * m + 8 * half + lane / 4;
      if (lane % 4 == 0 && r < present)
        lse[(first + r) * heads + head] = rows[m][half].top * scale * LN_2 + logf(sum);
    }
  // Each warp reads only its own queries.
  store_rows<DIM, M>(queries, row_in_tile, sums, inverse, out + first * q_stride + head * DIM, q_stride, present);
}

// As by_tiles, for any T, head size and mask, row by row. Items are tiles of QUERIES rows. scale is 1/√dim.
template <class T>
__device__ void by_rows(const T* q, const T* k, const T* v, const unsigned* work, T* out, float* lse, unsigned heads,
                        unsigned kv_heads, unsigned dim_, float scale, Special mask) {
  DYNAMIC_SHARED(float, shared);
  const int dim = int(dim_), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  float *keys = shared, *values = keys + CHUNK * staged_stride(dim), *own = values + CHUNK * staged_stride(dim);
  float* weights = own + ROWS * dim;
  const Slice slice = slice_of(work, heads, QUERIES);
  if (slice.count == 0) return;
  own += warp * dim;
  weights += warp * CHUNK;
  const size_t q_stride = size_t(heads) * dim, kv_stride = size_t(kv_heads) * dim;
  const size_t row = slice.first - slice.item.shift + warp, q_at = row * q_stride + slice.head * dim;
  const size_t kv_at = slice.item.begin * kv_stride + slice.head / (heads / kv_heads) * dim;
  const bool present = unsigned(warp) < slice.count;
  const unsigned position = slice.first - slice.item.begin + warp, seen = slice.first - slice.item.begin + slice.count;
  stage_own(own, q + q_at, present, dim);
  const float slope = mask.slope(slice.head);
  float top = -INFINITY, sum = 0, sums[PARTS] = {};
  for (unsigned key = mask.first_key(slice.first - slice.item.begin) / CHUNK * CHUNK; key < seen; key += CHUNK) {
    __syncthreads();
    stage(keys, k + kv_at + key * kv_stride, kv_stride, seen - key, dim);
    stage(values, v + kv_at + key * kv_stride, kv_stride, seen - key, dim);
    __syncthreads();
    const float product = dot(own, keys + lane * staged_stride(dim), dim) * scale;
    const int distance = int(position) - int(key + lane);
    const float score = mask.hides(distance) ? -INFINITY : product - slope * float(distance);
    // -∞ until the window begins.
    const float larger = fmaxf(top, warp_max(score)), finite = larger == -INFINITY ? 0.0f : larger;
    const float keep = expf(top - finite), weight = expf(score - finite);
    top = larger;
    sum = sum * keep + weight;
    weights[lane] = weight;
    __syncwarp();
    add_rows(sums, keep, weights, values, dim);
    __syncwarp();
  }
  sum = warp_sum(sum);
  if (!present) return;
  store_own(out + q_at, sums, 1.0f / sum, dim);
  if (lane == 0) lse[row * heads + slice.head] = top + logf(sum);
}

}  // namespace

#define EXPORT_TILES(DIM, blocks)                                                                                        \
  EXPORT_BOUNDS(attention_forward_##DIM##_bf16, THREADS, blocks,                                                         \
                (const bf16* q, const bf16* k, const bf16* v, const unsigned* work, bf16* out, float* lse,                \
                 unsigned heads, unsigned kv_heads, float scale),                                                         \
                by_tiles<DIM>(q, k, v, work, out, lse, heads, kv_heads, scale, Causal{}))                                 \
  EXPORT_BOUNDS(attention_forward_masked_##DIM##_bf16, THREADS, blocks,                                                  \
                (const bf16* q, const bf16* k, const bf16* v, const unsigned* work, bf16* out, float* lse,                \
                 unsigned heads, unsigned kv_heads, float scale, const float* slopes, unsigned window),                   \
                by_tiles<DIM>(q, k, v, work, out, lse, heads, kv_heads, scale, Special{slopes, window}))
EXPORT_TILES(64, 2)
EXPORT_TILES(128, 2)

#define EXPORT_ROWS(T, suffix)                                                                                           \
  EXPORT_BOUNDS(attention_forward_##suffix, ROWS* WARP, 2,                                                               \
                (const T* q, const T* k, const T* v, const unsigned* work, T* out, float* lse, unsigned heads,            \
                 unsigned kv_heads, unsigned dim, float scale, const float* slopes, unsigned window),                     \
                by_rows<T>(q, k, v, work, out, lse, heads, kv_heads, dim, scale, Special{slopes, window}))
EXPORT_ROWS(float, f32)
EXPORT_ROWS(bf16, bf16)
