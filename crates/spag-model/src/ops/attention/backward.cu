// Causal attention over packed sequences, backward: dq, dk and dv, with probabilities computed again from the saved
// log-sum-exps (Dao 2023, FlashAttention-2).
//
// With P = exp(q·kᵀ·scale − lse), dP = dout·vᵀ and dS = P∘(dP − delta), delta = rowsum(out∘dout):
//   dv = Pᵀ·dout, dk = scale·dSᵀ·q, dq = scale·dS·k.
//
// Two passes, one over tiles of keys for dk and dv and one over tiles of queries for dq. Each sum is one block's, in one
// order, so that results are always the same bits, without atomic additions. Scores and dP are computed twice: 7 products
// of T²·dim FLOPs (the mask saves half of 2·T²·dim) for each query head, where 5 would do. One pass with 5 would have to
// add its part of dq to memory for every pair of tiles, in an order that it waits for, or keep all parts (T/128 times
// dq, in f32); 1.4 times the products costs less than that waiting where sequences are long, and short ones have too
// little to keep a device busy either way. A key/value head's group of query heads is summed inside its block.
//
// Floor: 7·T²·dim FLOPs for each query head: at T = 2048, dim 128 and 32 heads 120 GFLOP a sequence, 0.39 ms at the
// 312 TFLOP/s of an A100's tensor cores. Memory sees each tensor once or twice.
//
// Tiles for head sizes 64 and 128: the block's own 128 rows in 8 warps of 16, against 64 rows of the other side, two
// tiles of which are in shared memory so that one arrives while the other is used. The pass over keys computes the
// transposed scores k·qᵀ: a warp's results then are the A fragments of its next product as they are, and nothing passes
// through shared memory. 16 rows a warp, since dk and dv take 128 registers together. Shared memory: for dim 128, 72 KiB
// a warp and tile against 4·2·16·64·128 FLOPs, 576 clocks against 512 of an A100's tensor cores. Two passes of that kind
// take 128 KiB of shared memory (and 1 KiB of log-sum-exps), one block of 8 warps a multiprocessor.
#include "rows.cuh"

namespace {
using namespace attention;

// The block's own rows, and the rows of the other side that it takes at a time.
constexpr int OWN = 128, OTHERS = 64, WARPS = 8, THREADS = WARPS * WARP;
constexpr int N = OTHERS / 8;
static_assert(OWN == WARPS * 16, "16 rows a warp");

// delta = Σ over a row of out·dout. out, dout [rows, dim], delta [rows]. `lanes` of a warp, a power of two, share a row.
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

template <int DIM>
__device__ __forceinline__ void clear(float (&sums)[1][DIM / 8][4]) {
#pragma unroll
  for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[0][n][i] = 0;
}

// dk and dv. k, v, dk, dv [N, kv_heads·DIM], q, dout [N, heads·DIM], lse, delta [N, heads]. Items are tiles of keys;
// blocks lie as [item, key/value head].
template <int DIM>
__device__ __forceinline__ void keys_by_tiles(const bf16* q, const bf16* k, const bf16* v, const bf16* dout,
                                              const float* lse, const float* delta, const unsigned* work, bf16* dk,
                                              bf16* dv, unsigned heads, unsigned kv_heads, float scale) {
  DYNAMIC_SHARED(bf16, shared);
  bf16 *keys = shared, *values = keys + OWN * DIM, *others = values + OWN * DIM;
  float* rows = reinterpret_cast<float*>(others + 4 * OTHERS * DIM);
  const Item item = item_of(work, blockIdx.x / kv_heads);
  const unsigned kv = blockIdx.x % kv_heads, group = heads / kv_heads;
  const unsigned count = min(unsigned(OWN), item.end - item.first), length = item.end - item.begin;
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const size_t kv_at = item.first * size_t(kv_stride) + kv * DIM;
  // Queries before the tile see nothing of it. Tiles of keys begin where tiles of queries do.
  const unsigned first = item.first - item.begin, tiles = (length - first + OTHERS - 1) / OTHERS, steps = group * tiles;
  const int lane = threadIdx.x % WARP, t = lane % 4, warp = threadIdx.x / WARP;
  const int key_in_tile = warp * 16, key = int(first) + key_in_tile;

  // A step is a tile of queries of one head of the group. Buffers take turns.
  const auto copy_step = [&](unsigned step) {
    const unsigned head = kv * group + step / tiles, query = first + step % tiles * OTHERS;
    const size_t at = (item.begin + query) * size_t(q_stride) + head * DIM;
    bf16* to = others + step % 2 * (2 * OTHERS * DIM);
    copy_tile<DIM, OTHERS, THREADS>(to, q + at, q_stride, length - query);
    copy_tile<DIM, OTHERS, THREADS>(to + OTHERS * DIM, dout + at, q_stride, length - query);
    copy_async_commit();
  };
  // The step's log-sum-exps, in powers of 2, or deltas: a number for each of the first 128 threads. A query that does
  // not exist has an infinite sum, so that its probabilities are zeros.
  const auto load_row = [&](unsigned step) {
    const unsigned head = kv * group + step / tiles, query = first + step % tiles * OTHERS + threadIdx.x % OTHERS;
    const size_t at = (item.begin + query) * size_t(heads) + head;
    if (threadIdx.x < OTHERS) return query < length ? lse[at] * LOG2_E : INFINITY;
    return threadIdx.x < 2 * OTHERS && query < length ? delta[at] : 0.0f;
  };
  const auto store_row = [&](unsigned step, float value) {
    if (threadIdx.x < 2 * OTHERS) rows[step % 2 * (2 * OTHERS) + threadIdx.x] = value;
  };

  copy_tile<DIM, OWN, THREADS>(keys, k + kv_at, kv_stride, count);
  copy_tile<DIM, OWN, THREADS>(values, v + kv_at, kv_stride, count);
  copy_step(0);
  store_row(0, load_row(0));
  float key_sums[1][DIM / 8][4], value_sums[1][DIM / 8][4];
  clear<DIM>(key_sums);
  clear<DIM>(value_sums);
  for (unsigned step = 0; step < steps; ++step) {
    // The step's rows are here, and all have used the other buffer.
    copy_async_wait<0>();
    __syncthreads();
    const bool more = step + 1 < steps;
    float next = 0;
    if (more) {
      copy_step(step + 1);
      next = load_row(step + 1);
    }
    const int query = int(first + step % tiles * OTHERS);
    if (key_in_tile < int(count) && query + OTHERS - 1 >= key) {
      const bf16 *queries = others + step % 2 * (2 * OTHERS * DIM), *douts = queries + OTHERS * DIM;
      const float* row = rows + step % 2 * (2 * OTHERS);
      float p[1][N][4], ds[1][N][4];
      multiply_rows<DIM>(p, [&](uint32_t (&a)[1][4], int k) { load_left<DIM>(a[0], keys, key_in_tile, k); }, queries);
      const bool masked = query < key + 15;
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * n + 2 * t + i % 2;
          p[0][n][i] = exp2_fast(p[0][n][i] * (scale * LOG2_E) - row[column]);
          if (masked && query + column < key + 8 * (i / 2) + lane / 4) p[0][n][i] = 0;
        }
      multiply_add<DIM>(value_sums, p, douts);
      multiply_rows<DIM>(ds, [&](uint32_t (&a)[1][4], int k) { load_left<DIM>(a[0], values, key_in_tile, k); }, douts);
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) ds[0][n][i] = p[0][n][i] * (ds[0][n][i] - row[OTHERS + 8 * n + 2 * t + i % 2]);
      multiply_add<DIM>(key_sums, ds, queries);
    }
    if (more) store_row(step + 1, next);
  }
  if (key_in_tile >= int(count)) return;
  const size_t to = kv_at + key_in_tile * size_t(kv_stride);
  const int present = int(count) - key_in_tile;
  // Each warp reads its own keys and values alone.
  store_rows<DIM, 1>(keys, key_in_tile, key_sums, {{scale, scale}}, dk + to, kv_stride, present);
  store_rows<DIM, 1>(values, key_in_tile, value_sums, {{1.0f, 1.0f}}, dv + to, kv_stride, present);
}

// dq. As keys_by_tiles; dq [N, heads·DIM], items are tiles of queries; blocks lie as [item, head].
template <int DIM>
__device__ __forceinline__ void queries_by_tiles(const bf16* q, const bf16* k, const bf16* v, const bf16* dout,
                                                 const float* lse, const float* delta, const unsigned* work, bf16* dq,
                                                 unsigned heads, unsigned kv_heads, float scale) {
  DYNAMIC_SHARED(bf16, shared);
  bf16 *queries = shared, *douts = queries + OWN * DIM, *others = douts + OWN * DIM;
  const Item item = item_of(work, blockIdx.x / heads);
  const unsigned head = blockIdx.x % heads, kv = head / (heads / kv_heads);
  const unsigned count = min(unsigned(OWN), item.end - item.first), seen = item.first - item.begin + count;
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const size_t q_at = item.first * size_t(q_stride) + head * DIM, kv_at = item.begin * size_t(kv_stride) + kv * DIM;
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
  const int row_in_tile = warp * 16, row = int(item.first - item.begin) + row_in_tile;

  // Buffers take turns.
  const auto copy_keys = [&](unsigned key) {
    const size_t at = kv_at + key * size_t(kv_stride);
    bf16* to = others + key / OTHERS % 2 * (2 * OTHERS * DIM);
    copy_tile<DIM, OTHERS, THREADS>(to, k + at, kv_stride, seen - key);
    copy_tile<DIM, OTHERS, THREADS>(to + OTHERS * DIM, v + at, kv_stride, seen - key);
    copy_async_commit();
  };
  copy_tile<DIM, OWN, THREADS>(queries, q + q_at, q_stride, count);
  copy_tile<DIM, OWN, THREADS>(douts, dout + q_at, q_stride, count);
  copy_keys(0);
  // Of the thread's two rows. A row that does not exist has an infinite sum, so that its probabilities are zeros.
  float log_sum[2], row_delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned r = row_in_tile + 8 * half + g;
    const size_t at = (item.first + size_t(r)) * heads + head;
    log_sum[half] = r < count ? lse[at] * LOG2_E : INFINITY;
    row_delta[half] = r < count ? delta[at] : 0.0f;
  }
  float sums[1][DIM / 8][4];
  clear<DIM>(sums);
  for (unsigned tile = 0; tile < seen; tile += OTHERS) {
    // The keys are here, and all have used the other buffer.
    copy_async_wait<0>();
    __syncthreads();
    if (tile + OTHERS < seen) copy_keys(tile + OTHERS);
    const int key = int(tile);
    if (row_in_tile >= int(count) || key > row + 15) continue;
    const bf16 *keys = others + tile / OTHERS % 2 * (2 * OTHERS * DIM), *values = keys + OTHERS * DIM;
    float p[1][N][4], ds[1][N][4];
    multiply_rows<DIM>(p, [&](uint32_t (&a)[1][4], int k) { load_left<DIM>(a[0], queries, row_in_tile, k); }, keys);
    multiply_rows<DIM>(ds, [&](uint32_t (&a)[1][4], int k) { load_left<DIM>(a[0], douts, row_in_tile, k); }, values);
    const bool masked = key + OTHERS - 1 > row;
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float weight = exp2_fast(p[0][n][i] * (scale * LOG2_E) - log_sum[i / 2]);
        if (masked && key + 8 * n + 2 * t + i % 2 > row + 8 * (i / 2) + g) weight = 0;
        ds[0][n][i] = weight * (ds[0][n][i] - row_delta[i / 2]);
      }
    multiply_add<DIM>(sums, ds, keys);
  }
  if (row_in_tile >= int(count)) return;
  // Each warp reads its own queries alone.
  store_rows<DIM, 1>(queries, row_in_tile, sums, {{scale, scale}}, dq + q_at + row_in_tile * size_t(q_stride), q_stride,
                     int(count) - row_in_tile);
}

// As keys_by_tiles, for T and any head size, row by row. Items are tiles of OWN rows.
template <class T>
__device__ void keys_by_rows(const T* q, const T* k, const T* v, const T* dout, const float* lse, const float* delta,
                             const unsigned* work, T* dk, T* dv, unsigned heads, unsigned kv_heads, unsigned dim_,
                             float scale) {
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
  for (unsigned head = slice.head * group; head < (slice.head + 1) * group; ++head) {
    // Rows before the slice see nothing of it.
    for (unsigned first = slice.first; first < item.end; first += CHUNK) {
      __syncthreads();
      const size_t at = first * q_stride + head * dim;
      stage(queries, q + at, q_stride, item.end - first, dim);
      stage(douts, dout + at, q_stride, item.end - first, dim);
      __syncthreads();
      const unsigned query = first + lane;
      float p = 0, ds = 0;
      if (query < item.end && query >= row) {
        const size_t sum = query * size_t(heads) + head;
        p = expf(dot(own_key, queries + lane * staged_stride(dim), dim) * scale - lse[sum]);
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

// As queries_by_tiles, for T and any head size, row by row. Items are tiles of OWN rows.
template <class T>
__device__ void queries_by_rows(const T* q, const T* k, const T* v, const T* dout, const float* lse, const float* delta,
                                const unsigned* work, T* dq, unsigned heads, unsigned kv_heads, unsigned dim_,
                                float scale) {
  DYNAMIC_SHARED(float, shared);
  const int dim = int(dim_), lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, staged = CHUNK * staged_stride(dim);
  float *keys = shared, *values = keys + staged, *own_query = values + staged + warp * dim;
  float *own_dout = own_query + ROWS * dim, *weights = values + staged + 2 * ROWS * dim + warp * CHUNK;
  const Slice slice = slice_of(work, heads, OWN);
  if (slice.count == 0) return;
  const Item item = slice.item;
  const size_t kv_stride = size_t(kv_heads) * dim, row = slice.first + warp;
  const size_t q_at = (row * heads + slice.head) * dim, sum = row * heads + slice.head;
  const size_t kv_head = slice.head / (heads / kv_heads) * dim;
  const bool present = unsigned(warp) < slice.count;
  stage_own(own_query, q + q_at, present, dim);
  stage_own(own_dout, dout + q_at, present, dim);
  const float log_sum = present ? lse[sum] : 0.0f, row_delta = present ? delta[sum] : 0.0f;
  float sums[PARTS] = {};
  const unsigned end = slice.first + slice.count;
  for (unsigned first = item.begin; first < end; first += CHUNK) {
    __syncthreads();
    const size_t at = first * kv_stride + kv_head;
    stage(keys, k + at, kv_stride, end - first, dim);
    stage(values, v + at, kv_stride, end - first, dim);
    __syncthreads();
    float ds = 0;
    if (present && first + lane <= row) {
      const float p = expf(dot(own_query, keys + lane * staged_stride(dim), dim) * scale - log_sum);
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

#define EXPORT_TILES(DIM, blocks)                                                                                        \
  EXPORT_BOUNDS(attention_backward_keys_##DIM##_bf16, THREADS, blocks,                                                   \
                (const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* lse, const float* delta,     \
                 const unsigned* work, bf16* dk, bf16* dv, unsigned heads, unsigned kv_heads, float scale),               \
                keys_by_tiles<DIM>(q, k, v, dout, lse, delta, work, dk, dv, heads, kv_heads, scale))                      \
  EXPORT_BOUNDS(attention_backward_queries_##DIM##_bf16, THREADS, blocks,                                                \
                (const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* lse, const float* delta,     \
                 const unsigned* work, bf16* dq, unsigned heads, unsigned kv_heads, float scale),                         \
                queries_by_tiles<DIM>(q, k, v, dout, lse, delta, work, dq, heads, kv_heads, scale))
EXPORT_TILES(64, 1)
EXPORT_TILES(128, 1)

#define EXPORT_ROWS(T, suffix)                                                                                           \
  EXPORT_BOUNDS(attention_backward_keys_##suffix, ROWS* WARP, 2,                                                         \
                (const T* q, const T* k, const T* v, const T* dout, const float* lse, const float* delta,                 \
                 const unsigned* work, T* dk, T* dv, unsigned heads, unsigned kv_heads, unsigned dim, float scale),       \
                keys_by_rows<T>(q, k, v, dout, lse, delta, work, dk, dv, heads, kv_heads, dim, scale))                    \
  EXPORT_BOUNDS(attention_backward_queries_##suffix, ROWS* WARP, 2,                                                      \
                (const T* q, const T* k, const T* v, const T* dout, const float* lse, const float* delta,                 \
                 const unsigned* work, T* dq, unsigned heads, unsigned kv_heads, unsigned dim, float scale),              \
                queries_by_rows<T>(q, k, v, dout, lse, delta, work, dq, heads, kv_heads, dim, scale))                     \
  EXPORT_BOUNDS(attention_backward_delta_##suffix, 256, 4,                                                               \
                (const T* out, const T* dout, float* delta, unsigned rows, unsigned dim, unsigned lanes),                 \
                row_products<T>(out, dout, delta, rows, dim, lanes))
EXPORT_ROWS(float, f32)
EXPORT_ROWS(bf16, bf16)
