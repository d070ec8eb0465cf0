// Causal attention over packed sequences, backward: dq, dk and dv, with probabilities recomputed from the saved
// log-sum-exps (Dao 2023, FlashAttention-2).
//
// With P = exp(q·kᵀ·scale − lse), dP = dout·vᵀ and dS = P∘(dP − delta), delta = rowsum(out∘dout):
//   dv = Pᵀ·dout, dk = scale·dSᵀ·q, dq = scale·dS·k.
//
// Two passes: over tiles of keys for dk and dv, and over tiles of queries for dq. Each sum belongs to one block and has
// one order, so results are bitwise reproducible without atomics. Scores and dP are computed twice: 7 products of
// T²·dim FLOPs (the mask halves 2·T²·dim) per query head instead of 5. A single pass would have to add to dq in memory
// for every pair of tiles in a fixed order, or keep all parts (T/128 times dq, in f32). For long sequences, 1.4 times
// the products costs less than that synchronization; short ones do not fill a GPU either way. A key/value head's group
// of query heads is summed inside its block.
//
// Lower bound: 7·T²·dim FLOPs per query head. At T = 2048, dim 128 and 32 heads this is 120 GFLOP per sequence, 0.39 ms
// at the 312 TFLOP/s of an A100's tensor cores. Each tensor is read from memory once or twice.
//
// Tiles for head sizes 64 and 128. Clock counts are for an A100 and dim 128, per warp and pair of tiles.
//
// Keys: a block owns 128 keys, 8 warps of 16, and iterates over tiles of 64 queries, double-buffered in shared memory.
// It computes transposed scores k·qᵀ: a warp's results are the A fragments of its next product, without a round trip
// through shared memory. 16 rows per warp, because dk and dv take 128 registers; 72 KiB are read from shared memory
// (576 clocks) for 4·2·16·64·128 FLOPs (512). 129 KiB of shared memory for dim 128, one block per multiprocessor.
// Compute capabilities 8.6, 8.9 and 12.0 have 99 KiB. There, tiles have 32 queries, which takes 97 KiB and 11 % more reads
// from shared memory. Queries are added in the same order, so the variants have the same bits; half as many keys would leave
// a multiprocessor with 4 warps.
//
// Queries: a block owns 128 queries, 4 warps of 32, and iterates over tiles of 32 keys: dq takes 128 registers, scores
// and dP 32 each. 40 KiB are read from shared memory (320 clocks) for 3·2·32·32·128 FLOPs (384); 16 rows per warp would
// read 56. 81 KiB of shared memory for dim 128, so two blocks just fit on a multiprocessor of an A100. Values are
// loaded during the product with keys and keys during the product with values, one buffer each.
//
// Both initialize the scores' sums with −lse/scale and dP's with −delta, so that exp(scale·sum) is the probability.
#include "rows.cuh"

namespace {
using namespace attention;

// Rows owned by a block.
constexpr int OWN = 128, WARPS = 8, THREADS = WARPS * WARP;
static_assert(OWN == WARPS * 16, "16 rows a warp");
constexpr int QUERY_WARPS = 4;

// delta = Σ over a row of out·dout. out, dout [rows, dim], delta [rows]. `lanes` lanes of a warp, a power of two, share
// a row.
template <class T>
__device__ void row_products(const T* out, const T* dout, float* delta, unsigned rows, unsigned dim, unsigned lanes) {
  constexpr unsigned SIZE = Vector<T>::SIZE;
  const unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / lanes, lane = threadIdx.x % lanes;
  float sum = 0;
  if (row < rows) {
    out += size_t(row) * dim;
    dout += size_t(row) * dim;
    if (dim % SIZE == 0) {
      for (unsigned at = lane * SIZE; at < dim; at += lanes * SIZE) {
        const Vector<T> a = load_vector(out + at), b = load_vector(dout + at);
#pragma unroll
        for (unsigned i = 0; i < SIZE; ++i) sum += to_float(a.at[i]) * to_float(b.at[i]);
      }
    } else {
      for (unsigned at = lane; at < dim; at += lanes) sum += to_float(out[at]) * to_float(dout[at]);
    }
  }
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
  if (row < rows && lane == 0) delta[row] = sum;
}

// dk and dv. k, v, dk, dv [rows of keys, kv_heads·DIM], q, dout [N, heads·DIM], lse, delta [N, heads]. Items are tiles of keys;
// the grid is [item, key/value head]. A step has OTHERS queries.
template <int DIM, int OTHERS, class Mask>
__device__ __forceinline__ void keys_by_tiles(const bf16* q, const bf16* k, const bf16* v, const bf16* dout,
                                              const float* lse, const float* delta, const unsigned* work, bf16* dk,
                                              bf16* dv, unsigned heads, unsigned kv_heads, float scale, Mask mask) {
  constexpr int N = OTHERS / 8;
  DYNAMIC_SHARED(bf16, shared);
  bf16 *keys = shared, *values = keys + OWN * DIM, *others = values + OWN * DIM;
  float* numbers = reinterpret_cast<float*>(others + 4 * OTHERS * DIM);
  const Item item = item_of(work, blockIdx.x / kv_heads);
  const unsigned kv = blockIdx.x % kv_heads, group = heads / kv_heads;
  const unsigned count = min(unsigned(OWN), item.end - item.first), length = item.end - item.begin;
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const size_t kv_at = item.first * size_t(kv_stride) + kv * DIM;
  const unsigned first = item.first - item.begin;
  const int key_in_tile = int(threadIdx.x / WARP) * 16, key = int(first) + key_in_tile;
  const unsigned last = mask.end_of_queries(first + count - 1, length), from = max(first, item.queries - item.begin);
  // Where the sequence would begin among the rows of queries; wraps around.
  const unsigned begin = item.begin - item.shift;

  // A step is a tile of queries of one head of the group. Queries before the block's keys, or from `last` on, do not
  // attend to them; tiles of queries are aligned with tiles of keys or start at the first query. The buffers
  // alternate.
  const auto copy_step = [&](unsigned head, unsigned query, unsigned buffer) {
    const size_t at = (begin + query) * size_t(q_stride) + head * DIM;
    bf16* to = others + buffer * (2 * OTHERS * DIM);
    copy_tile<DIM, OTHERS, THREADS>(to, q + at, q_stride, length - query);
    copy_tile<DIM, OTHERS, THREADS>(to + OTHERS * DIM, dout + at, q_stride, length - query);
    copy_async_commit();
  };
  // Initial sums of the step's two products, −lse/scale and −delta: one number for each of the first 2·OTHERS threads. A
  // query out of range has an infinite log-sum-exp, so its probabilities are zero.
  const auto load_number = [&](unsigned head, unsigned query) {
    query += threadIdx.x % OTHERS;
    const size_t at = (begin + query) * size_t(heads) + head;
    if (threadIdx.x < OTHERS) return query < length ? -lse[at] / scale : -INFINITY;
    return threadIdx.x < 2 * OTHERS && query < length ? -delta[at] : 0.0f;
  };
  const auto store_number = [&](unsigned buffer, float value) {
    if (threadIdx.x < 2 * OTHERS) numbers[buffer * (2 * OTHERS) + threadIdx.x] = value;
  };

  copy_tile<DIM, OWN, THREADS>(keys, k + kv_at, kv_stride, count);
  copy_tile<DIM, OWN, THREADS>(values, v + kv_at, kv_stride, count);
  unsigned head = kv * group, query = from, buffer = 0;
  const unsigned end = head + group;
  copy_step(head, query, buffer);
  store_number(buffer, load_number(head, query));
  float key_sums[1][DIM / 8][4], value_sums[1][DIM / 8][4];
  clear(key_sums);
  clear(value_sums);
  while (head < end) {
    // The step's rows have arrived, and all warps have finished with the other buffer.
    copy_async_wait<0>();
    __syncthreads();
    const int row = int(query);
    [[maybe_unused]] const unsigned of_row = head;
    query += OTHERS;
    if (query >= last) {
      query = from;
      ++head;
    }
    float next = 0;
    if (head < end) {
      copy_step(head, query, buffer ^ 1);
      next = load_number(head, query);
    }
    if (key_in_tile < int(count) && !mask.hides_all(row - (key + 15), row + OTHERS - 1 - key)) {
      const bf16 *queries = others + buffer * (2 * OTHERS * DIM), *douts = queries + OTHERS * DIM;
      const int lane = recomputed(threadIdx.x % WARP), g = lane / 4, t = lane % 4;
      const float* of_query = numbers + buffer * (2 * OTHERS) + 2 * t;
      const auto start = [&](float (&c)[1][N][4], const float* from) {
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) c[0][n][i] = from[8 * n + i % 2];
      };
      float p[1][N][4], ds[1][N][4];
      start(p, of_query);
      multiply_rows<DIM>(
          p, [&](uint32_t (&a)[1][4], int k, int lane) { load_rows<DIM>(a[0], keys, key_in_tile, k, lane); }, queries);
      const bool masked = mask.hides_some(row - (key + 15), row + OTHERS - 1 - key);
      // The distance of the thread's first pair; others differ by constants.
      const int distance = row + 2 * t - key - g;
      if constexpr (Mask::SPECIAL) {
        const float slope = -mask.slope(of_row) / scale, start = slope * float(distance);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) p[0][n][i] += fmaf(slope, float(8 * n + i % 2 - 8 * (i / 2)), start);
      }
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p[0][n][i] = exp2_fast(p[0][n][i] * (scale * LOG2_E));
          if (masked && mask.hides(distance + 8 * n + i % 2 - 8 * (i / 2))) p[0][n][i] = 0;
        }
      multiply_add<DIM>(value_sums, p, douts);
      start(ds, of_query + OTHERS);
      multiply_rows<DIM>(
          ds, [&](uint32_t (&a)[1][4], int k, int lane) { load_rows<DIM>(a[0], values, key_in_tile, k, lane); }, douts);
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) ds[0][n][i] *= p[0][n][i];
      multiply_add<DIM>(key_sums, ds, queries);
    }
    buffer ^= 1;
    if (head < end) store_number(buffer, next);
  }
  if (key_in_tile >= int(count)) return;
  const size_t to = kv_at + key_in_tile * size_t(kv_stride);
  const int present = int(count) - key_in_tile;
  // Each warp reads only its own keys and values.
  store_rows<DIM, 1>(keys, key_in_tile, key_sums, {{scale, scale}}, dk + to, kv_stride, present);
  store_rows<DIM, 1>(values, key_in_tile, value_sums, {{1.0f, 1.0f}}, dv + to, kv_stride, present);
}

// dq. As keys_by_tiles; dq [N, heads·DIM], items are tiles of queries; the grid is [item, head].
template <int DIM, class Mask>
__device__ __forceinline__ void queries_by_tiles(const bf16* q, const bf16* k, const bf16* v, const bf16* dout,
                                                 const float* lse, const float* delta, const unsigned* work, bf16* dq,
                                                 unsigned heads, unsigned kv_heads, float scale, Mask mask) {
  constexpr int WARPS = QUERY_WARPS, THREADS = WARPS * WARP, M = OWN / WARPS / 16, KEYS = 32, N = KEYS / 8;
  DYNAMIC_SHARED(bf16, shared);
  bf16 *queries = shared, *douts = queries + OWN * DIM, *keys = douts + OWN * DIM, *values = keys + KEYS * DIM;
  float* numbers = reinterpret_cast<float*>(values + KEYS * DIM);
  static_assert(THREADS == OWN, "a thread for each row's numbers");
  const Item item = item_of(work, blockIdx.x / heads);
  const unsigned head = blockIdx.x % heads, kv = head / (heads / kv_heads);
  const unsigned count = min(unsigned(OWN), item.end - item.first), seen = item.first - item.begin + count;
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const size_t q_first = item.first - item.shift, q_at = q_first * size_t(q_stride) + head * DIM;
  const int row_in_tile = int(threadIdx.x / WARP) * 16 * M, row = int(item.first - item.begin) + row_in_tile;
  const bool idle = row_in_tile >= int(count);
  const unsigned begin = mask.first_key(item.first - item.begin) / KEYS * KEYS;

  copy_tile<DIM, OWN, THREADS>(queries, q + q_at, q_stride, count);
  copy_tile<DIM, OWN, THREADS>(douts, dout + q_at, q_stride, count);
  copy_tile<DIM, KEYS, THREADS>(values, v + (item.begin + begin) * size_t(kv_stride) + kv * DIM, kv_stride, seen - begin);
  copy_async_commit();
  // Initial sums of the two products, −lse/scale and −delta, in shared memory because registers are scarce. A row out
  // of range has an infinite log-sum-exp, so its probabilities are zero.
  {
    const size_t at = (q_first + threadIdx.x) * heads + head;
    numbers[threadIdx.x] = threadIdx.x < count ? -lse[at] / scale : -INFINITY;
    numbers[OWN + threadIdx.x] = threadIdx.x < count ? -delta[at] : 0.0f;
  }
  float sums[M][DIM / 8][4], ds[M][N][4];
  clear(sums);
  for (unsigned key = begin; key < seen; key += KEYS) {
    // The values have arrived, and all warps have finished with the previous keys.
    copy_async_wait<0>();
    __syncthreads();
    copy_tile<DIM, KEYS, THREADS>(keys, k + (item.begin + key) * size_t(kv_stride) + kv * DIM, kv_stride, seen - key);
    copy_async_commit();
    // Warps without queries, or whose queries see none of the tile's keys, only copy.
    const bool skip = idle || mask.hides_all(row - int(key + KEYS - 1), row + 16 * M - 1 - int(key));
    const auto left = [&](const bf16* tile) {
      return [=](uint32_t (&a)[M][4], int step, int lane) {
#pragma unroll
        for (int m = 0; m < M; ++m) load_rows<DIM>(a[m], tile, row_in_tile + 16 * m, step, lane);
      };
    };
    const auto start = [&](float (&c)[M][N][4], const float* from) {
      from += row_in_tile + recomputed(threadIdx.x % WARP) / 4;
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) c[m][n][i] = from[16 * m + 8 * (i / 2)];
    };
    if (!skip) {
      start(ds, numbers + OWN);
      multiply_rows<DIM>(ds, left(douts), values);
    }
    // The keys have arrived, and all warps have finished with the values.
    copy_async_wait<0>();
    __syncthreads();
    const unsigned next = key + KEYS;
    if (next < seen) {
      copy_tile<DIM, KEYS, THREADS>(values, v + (item.begin + next) * size_t(kv_stride) + kv * DIM, kv_stride, seen - next);
      copy_async_commit();
    }
    if (skip) continue;
    float p[M][N][4];
    start(p, numbers);
    multiply_rows<DIM>(p, left(queries), keys);
    const int lane = recomputed(threadIdx.x % WARP), g = lane / 4, t = lane % 4;
    const bool masked = mask.hides_some(row - (int(next) - 1), row + 16 * M - 1 - int(key));
    const int distance = row + g - int(key) - 2 * t;
    if constexpr (Mask::SPECIAL) {
      const float slope = mask.slope(head) / scale, start = -slope * float(distance);
#pragma unroll
      for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            p[m][n][i] += fmaf(slope, float(8 * n + i % 2 - 16 * m - 8 * (i / 2)), start);
    }
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float weight = exp2_fast(p[m][n][i] * (scale * LOG2_E));
          if (masked && mask.hides(distance - (8 * n + i % 2 - 16 * m - 8 * (i / 2)))) weight = 0;
          ds[m][n][i] *= weight;
        }
    multiply_add<DIM>(sums, ds, keys);
  }
  if (idle) return;
  float factor[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) factor[m][0] = factor[m][1] = scale;
  // Each warp reads only its own queries.
  store_rows<DIM>(queries, row_in_tile, sums, factor, dq + q_at + row_in_tile * size_t(q_stride), q_stride,
                  int(count) - row_in_tile);
}

// As keys_by_tiles, for any T, head size and mask, row by row. Items are tiles of OWN rows.
template <class T>
__device__ void keys_by_rows(const T* q, const T* k, const T* v, const T* dout, const float* lse, const float* delta,
                             const unsigned* work, T* dk, T* dv, unsigned heads, unsigned kv_heads, unsigned dim_,
                             float scale, Special mask) {
  DYNAMIC_SHARED(float, shared);
  const int dim = int(dim_), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, staged = CHUNK * staged_stride(dim);
  float *queries = shared, *douts = queries + staged, *own_key = douts + staged + warp * dim;
  float *own_value = own_key + ROWS * dim, *weights = douts + staged + 2 * ROWS * dim + warp * 2 * CHUNK;
  const Slice slice = slice_of(work, kv_heads, OWN);
  if (slice.count == 0) return;
  const Item item = slice.item;
  const size_t q_stride = size_t(heads) * dim, row = slice.first + warp;
  const size_t kv_at = row * kv_heads * dim + slice.head * dim;
  const bool present = unsigned(warp) < slice.count;
  stage_own(own_key, k + kv_at, present, dim);
  stage_own(own_value, v + kv_at, present, dim);
  float key_sums[PARTS] = {}, value_sums[PARTS] = {};
  const unsigned group = heads / kv_heads;
  // Rows before the slice, or a window after it, do not attend to it.
  const unsigned end = item.begin + mask.end_of_queries(slice.first - item.begin + slice.count - 1, item.end - item.begin);
  for (unsigned head = slice.head * group; head < (slice.head + 1) * group; ++head) {
    const float slope = mask.slope(head);
    for (unsigned first = max(slice.first, item.queries); first < end; first += CHUNK) {
      __syncthreads();
      const size_t at = (first - item.shift) * q_stride + head * dim;
      stage(queries, q + at, q_stride, item.end - first, dim);
      stage(douts, dout + at, q_stride, item.end - first, dim);
      __syncthreads();
      const unsigned query = first + lane;
      float p = 0, ds = 0;
      const int distance = int(query) - int(row);
      if (query < item.end && !mask.hides(distance)) {
        const size_t sum = (query - item.shift) * size_t(heads) + head;
        const float product = dot(own_key, queries + lane * staged_stride(dim), dim) * scale;
        p = expf(product - slope * float(distance) - lse[sum]);
        ds = p * (dot(own_value, douts + lane * staged_stride(dim), dim) - delta[sum]);
      }
      weights[lane] = p;
      weights[CHUNK + lane] = ds;
      __syncwarp();
      add_rows(value_sums, 1.0f, weights, douts, dim);
      add_rows(key_sums, 1.0f, weights + CHUNK, queries, dim);
      __syncwarp();
    }
  }
  if (!present) return;
  store_own(dk + kv_at, key_sums, scale, dim);
  store_own(dv + kv_at, value_sums, 1.0f, dim);
}

// As queries_by_tiles, for any T, head size and mask, row by row. Items are tiles of OWN rows.
template <class T>
__device__ void queries_by_rows(const T* q, const T* k, const T* v, const T* dout, const float* lse, const float* delta,
                                const unsigned* work, T* dq, unsigned heads, unsigned kv_heads, unsigned dim_,
                                float scale, Special mask) {
  DYNAMIC_SHARED(float, shared);
  const int dim = int(dim_), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, staged = CHUNK * staged_stride(dim);
  float *keys = shared, *values = keys + staged, *own_query = values + staged + warp * dim;
  float *own_dout = own_query + ROWS * dim, *weights = values + staged + 2 * ROWS * dim + warp * CHUNK;
  const Slice slice = slice_of(work, heads, OWN);
  if (slice.count == 0) return;
  const Item item = slice.item;
  const size_t kv_stride = size_t(kv_heads) * dim, key_row = slice.first + warp, row = key_row - item.shift;
  const size_t q_at = (row * heads + slice.head) * dim, sum = row * heads + slice.head;
  const size_t kv_head = slice.head / (heads / kv_heads) * dim;
  const bool present = unsigned(warp) < slice.count;
  stage_own(own_query, q + q_at, present, dim);
  stage_own(own_dout, dout + q_at, present, dim);
  const float log_sum = present ? lse[sum] : 0.0f, row_delta = present ? delta[sum] : 0.0f;
  float sums[PARTS] = {};
  const unsigned end = slice.first + slice.count;
  const float slope = mask.slope(slice.head);
  const unsigned begin = item.begin + mask.first_key(slice.first - item.begin) / CHUNK * CHUNK;
  for (unsigned first = begin; first < end; first += CHUNK) {
    __syncthreads();
    const size_t at = first * kv_stride + kv_head;
    stage(keys, k + at, kv_stride, end - first, dim);
    stage(values, v + at, kv_stride, end - first, dim);
    __syncthreads();
    float ds = 0;
    const int distance = int(key_row) - int(first + lane);
    if (present && !mask.hides(distance)) {
      const float product = dot(own_query, keys + lane * staged_stride(dim), dim) * scale;
      const float p = expf(product - slope * float(distance) - log_sum);
      ds = p * (dot(own_dout, values + lane * staged_stride(dim), dim) - row_delta);
    }
    weights[lane] = ds;
    __syncwarp();
    add_rows(sums, 1.0f, weights, keys, dim);
    __syncwarp();
  }
  if (present) store_own(dq + q_at, sums, scale, dim);
}

}  // namespace

#define INPUTS(T)                                                                                                        \
  const T *q, const T *k, const T *v, const T *dout, const float *lse, const float *delta, const unsigned *work

// `name` includes the step size, unless it is the same on every device.
#define EXPORT_KEYS(DIM, OTHERS, name)                                                                                   \
  EXPORT_BOUNDS(attention_backward_keys##name##_##DIM##_bf16, THREADS, 1,                                                \
                (INPUTS(bf16), bf16* dk, bf16* dv, unsigned heads, unsigned kv_heads, float scale),                       \
                (keys_by_tiles<DIM, OTHERS>(q, k, v, dout, lse, delta, work, dk, dv, heads, kv_heads, scale, Causal{})))  \
  EXPORT_BOUNDS(attention_backward_keys##name##_masked_##DIM##_bf16, THREADS, 1,                                         \
                (INPUTS(bf16), bf16* dk, bf16* dv, unsigned heads, unsigned kv_heads, float scale, const float* slopes,   \
                 unsigned window),                                                                                        \
                (keys_by_tiles<DIM, OTHERS>(q, k, v, dout, lse, delta, work, dk, dv, heads, kv_heads, scale,              \
                                            Special{slopes, window})))
EXPORT_KEYS(64, 64, )
EXPORT_KEYS(128, 64, )
EXPORT_KEYS(128, 32, _32)

#define EXPORT_QUERIES(DIM)                                                                                              \
  EXPORT_BOUNDS(attention_backward_queries_##DIM##_bf16, QUERY_WARPS * WARP, 2,                                          \
                (INPUTS(bf16), bf16* dq, unsigned heads, unsigned kv_heads, float scale),                                 \
                queries_by_tiles<DIM>(q, k, v, dout, lse, delta, work, dq, heads, kv_heads, scale, Causal{}))             \
  EXPORT_BOUNDS(attention_backward_queries_masked_##DIM##_bf16, QUERY_WARPS * WARP, 2,                                   \
                (INPUTS(bf16), bf16* dq, unsigned heads, unsigned kv_heads, float scale, const float* slopes,             \
                 unsigned window),                                                                                        \
                queries_by_tiles<DIM>(q, k, v, dout, lse, delta, work, dq, heads, kv_heads, scale,                        \
                                      Special{slopes, window}))
EXPORT_QUERIES(64)
EXPORT_QUERIES(128)

#define EXPORT_ROWS(T, suffix)                                                                                           \
  EXPORT_BOUNDS(attention_backward_keys_##suffix, ROWS* WARP, 2,                                                         \
                (INPUTS(T), T* dk, T* dv, unsigned heads, unsigned kv_heads, unsigned dim, float scale,                   \
                 const float* slopes, unsigned window),                                                                   \
                keys_by_rows<T>(q, k, v, dout, lse, delta, work, dk, dv, heads, kv_heads, dim, scale,                     \
                                Special{slopes, window}))                                                                 \
  EXPORT_BOUNDS(attention_backward_queries_##suffix, ROWS* WARP, 2,                                                      \
                (INPUTS(T), T* dq, unsigned heads, unsigned kv_heads, unsigned dim, float scale, const float* slopes,     \
                 unsigned window),                                                                                        \
                queries_by_rows<T>(q, k, v, dout, lse, delta, work, dq, heads, kv_heads, dim, scale,                      \
                                   Special{slopes, window}))                                                              \
  EXPORT_BOUNDS(attention_backward_delta_##suffix, 256, 4,                                                               \
                (const T* out, const T* dout, float* delta, unsigned rows, unsigned dim, unsigned lanes),                 \
                row_products<T>(out, dout, delta, rows, dim, lanes))
EXPORT_ROWS(float, f32)
EXPORT_ROWS(bf16, bf16)
