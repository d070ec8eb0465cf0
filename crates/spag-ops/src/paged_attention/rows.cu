// Attention of single rows without tensor cores, for any number format, page size and head size up to 256; and the
// combination of splits, which the tensor-core decode kernel uses too.
#include "tables.cuh"

namespace {

// Maximum dimensions per lane: head sizes up to 256.
constexpr unsigned MOST = 8;

template <class T>
__device__ __forceinline__ float dot(const float* query, const T* key, unsigned dim) {
  float sum = 0;
  if (dim % Vector<T>::SIZE == 0) {
    for (unsigned at = 0; at < dim; at += Vector<T>::SIZE) {
      const Vector<T> some = load_vector(key + at);
#pragma unroll
      for (int i = 0; i < Vector<T>::SIZE; ++i) sum += query[at + i] * to_float(some.at[i]);
    }
  } else {
    for (unsigned at = 0; at < dim; ++at) sum += query[at] * to_float(key[at]);
  }
  return sum;
}

// A block handles one split of the keys of one KV head for one row. Grid: (rows, KV heads, splits). Warps process the
// query heads of the KV head at about the same keys, which are read from memory once. Each lane computes the score of
// one of 32 keys, then sums its dimensions of the 32 values. Shared memory: the queries, [warps, dim].
template <class T>
__device__ void rows(const T* qkv, const T* keys, const T* values, const unsigned* table, T* out, float* stats,
                     float* sums, unsigned heads, unsigned kv_heads, unsigned tokens, unsigned dim, float scale,
                     attention::Special mask) {
  DYNAMIC_SHARED(float, shared);
  const unsigned* item = paged::entry(table, paged::DECODING, blockIdx.x, 4);
  if (item == nullptr) return;
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  const unsigned row = item[0], seen = item[1], splits = gridDim.z, kv = blockIdx.y, group = heads / kv_heads;
  const unsigned* pages = table + item[2];
  const unsigned first_key = mask.first_key(seen - 1);
  const paged::Splits all(first_key, seen, splits);
  const unsigned stripe = all.begin + blockIdx.z * all.each;
  const unsigned first = max(stripe * paged::STRIPE, first_key), end = min((stripe + all.each) * paged::STRIPE, seen);
  if (first >= end) return;
  float* query = shared + warp * dim;
  for (unsigned head = kv * group + warp; head < (kv + 1) * group; head += warps) {
    __syncwarp();
    for (unsigned at = lane; at < dim; at += WARP)
      query[at] = to_float(qkv[(size_t(row) * (heads + 2 * kv_heads) + head) * dim + at]) * scale;
    __syncwarp();
    // In units of log₂, like scale.
    const float slope = mask.slope(head) * attention::LOG2_E;
    float largest = -INFINITY, sum = 0, accumulated[MOST] = {};
    for (unsigned base = first; base < end; base += WARP) {
      const unsigned key = base + lane;
      unsigned place = 0;
      float score = -INFINITY;
      if (key < end) {
        place = (pages[key / tokens] * kv_heads + kv) * tokens + key % tokens;
        score = dot(query, keys + size_t(place) * dim, dim) - slope * float(seen - 1 - key);
      }
      const float now = fmaxf(largest, warp_max(score)), shrink = exp2f(largest - now);
      const float probability = exp2f(score - now);
      sum = sum * shrink + warp_sum(probability);
      largest = now;
#pragma unroll
      for (unsigned i = 0; i < MOST; ++i) accumulated[i] *= shrink;
      const unsigned count = min(unsigned(WARP), end - base);
      for (unsigned other = 0; other < count; ++other) {
        const float weight = __shfl_sync(ALL_LANES, probability, int(other));
        const T* value = values + size_t(__shfl_sync(ALL_LANES, place, int(other))) * dim;
#pragma unroll
        for (unsigned i = 0; i < MOST; ++i)
          if (lane + i * WARP < dim) accumulated[i] += weight * to_float(value[lane + i * WARP]);
      }
    }
    if (splits == 1) {
#pragma unroll
      for (unsigned i = 0; i < MOST; ++i)
        if (lane + i * WARP < dim)
          out[(size_t(row) * heads + head) * dim + lane + i * WARP] = from_float<T>(accumulated[i] / sum);
      continue;
    }
    const paged::Partial part = paged::partial_of(stats, sums, blockIdx.x, heads, head, splits, blockIdx.z, dim);
    if (lane == 0) {
      part.largest_and_sum[0] = largest;
      part.largest_and_sum[1] = sum;
    }
#pragma unroll
    for (unsigned i = 0; i < MOST; ++i)
      if (lane + i * WARP < dim) part.values[lane + i * WARP] = accumulated[i];
  }
}

// Combines the splits into rows of `out`. One warp per row and head; grid: (rows, heads by warps).
template <class T>
__device__ void combine(const float* stats, const float* sums, const unsigned* table, T* out, unsigned heads,
                        unsigned splits, unsigned dim, attention::Special mask) {
  const unsigned* item = paged::entry(table, paged::DECODING, blockIdx.x, 4);
  const unsigned lane = threadIdx.x % WARP, head = blockIdx.y * (blockDim.x / WARP) + threadIdx.x / WARP;
  if (item == nullptr || head >= heads) return;
  const unsigned used = paged::Splits(mask.first_key(item[1] - 1), item[1], splits).used();
  const size_t first = (size_t(blockIdx.x) * heads + head) * splits;
  float largest = -INFINITY;
  for (unsigned split = lane; split < used; split += WARP) largest = fmaxf(largest, stats[(first + split) * 2]);
  largest = warp_max(largest);
  // Each lane holds the weights of two of at most 64 splits.
  float weights[2], total = 0, accumulated[MOST] = {};
#pragma unroll
  for (unsigned i = 0; i < 2; ++i) {
    const unsigned split = lane + i * WARP;
    weights[i] = split < used ? exp2f(stats[(first + split) * 2] - largest) : 0.0f;
    if (split < used) total += weights[i] * stats[(first + split) * 2 + 1];
  }
  total = warp_sum(total);
  // Unrolled to keep loads of several splits in flight: a row has too few blocks to hide their latency.
#pragma unroll 4
  for (unsigned split = 0; split < used; ++split) {
    const float weight = __shfl_sync(ALL_LANES, split < WARP ? weights[0] : weights[1], split % WARP);
#pragma unroll
    for (unsigned i = 0; i < MOST; ++i)
      if (lane + i * WARP < dim) accumulated[i] += weight * sums[(first + split) * dim + lane + i * WARP];
  }
#pragma unroll
  for (unsigned i = 0; i < MOST; ++i)
    if (lane + i * WARP < dim)
      out[(size_t(item[0]) * heads + head) * dim + lane + i * WARP] = from_float<T>(accumulated[i] / total);
}

}  // namespace

#define EXPORT_FOR(T, suffix)                                                                                      \
  EXPORT_BOUNDS(paged_attention_rows_##suffix, 256, 4,                                                              \
                (const T* qkv, const T* keys, const T* values, const unsigned* table, T* out, float* stats,         \
                 float* sums, unsigned heads, unsigned kv_heads, unsigned tokens, unsigned dim, float scale,        \
                 const float* slopes, unsigned window),                                                             \
                rows<T>(qkv, keys, values, table, out, stats, sums, heads, kv_heads, tokens, dim, scale,            \
                        attention::Special{slopes, window}))                                                        \
  EXPORT_BOUNDS(paged_attention_combine_##suffix, 128, 8,                                                           \
                (const float* stats, const float* sums, const unsigned* table, T* out, unsigned heads,              \
                 unsigned splits, unsigned dim, const float* slopes, unsigned window),                              \
                combine<T>(stats, sums, table, out, heads, splits, dim, attention::Special{slopes, window}))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
