// Prefill attention on tensor cores: bf16, head sizes 64 and 128, pages of whole stripes.
//
// A block handles 64 queries of one KV head: as many consecutive rows of a span as fit with all query heads of the KV
// head, so that short spans fill it too and keys are read once for all heads. Each of its four warps owns 16 queries;
// all iterate over the keys together, 64 at a time, double-buffered. Grid: (tiles, KV heads).
#include "fragments.cuh"

namespace {

constexpr int WARPS = 4, STAGES = 2, QUERIES = 64, KEYS = 64, THREADS = WARPS * WARP;

template <int D, class Mask>
__device__ __forceinline__ void prefill(const bf16* qkv, const bf16* keys, const bf16* values, const unsigned* table,
                                        bf16* out, unsigned heads, unsigned kv_heads, unsigned tokens, float scale,
                                        Mask mask) {
  constexpr int CHUNKS = D / 8, AT_ONCE = THREADS / CHUNKS;
  DYNAMIC_SHARED(bf16, shared);
  const unsigned* item = paged::entry(table, paged::TILES, blockIdx.x, 4);
  if (item == nullptr) return;
  const unsigned row = item[0], position = item[2], kv = blockIdx.y, group = heads / kv_heads;
  const unsigned count = item[1] * group, seen = position + item[1];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  const size_t width = size_t(heads + 2 * kv_heads) * D;
  // The first key of the first tile: a window begins with the first query's.
  const unsigned begin = mask.first_key(position) / KEYS * KEYS;

  // Two stages of keys and values: rows stage·2·KEYS of one tile, values after keys.
  const paged::Tile<D> tile{shared};
  paged::Stripes<D> stripes{table + item[3], kv, kv_heads, tokens, begin / paged::STRIPE, 1,
                           (seen + paged::STRIPE - 1) / paged::STRIPE, 0};
  auto start = [&](unsigned index) {
    const int to = index % STAGES * 2 * KEYS;
#pragma unroll
    for (int i = 0; i < KEYS / AT_ONCE; ++i) {
      const int key = i * AT_ONCE + int(threadIdx.x) / CHUNKS, chunk = int(threadIdx.x) % CHUNKS;
      const unsigned stripe = index * (KEYS / paged::STRIPE) + i * AT_ONCE / paged::STRIPE;
      const size_t from = size_t(stripes.lookup(stripe)) * 8 + (key % paged::STRIPE) * D + chunk * 8;
      // Unattended slots may hold NaNs or infinities, and zero times those is not zero.
      const bool present = begin + index * KEYS + key < seen;
      copy_async_16(tile.chunk(to + key, chunk), keys + from, present);
      copy_async_16(tile.chunk(to + KEYS + key, chunk), values + from, present);
    }
    copy_async_commit();
  };

  // The queries pass through the second stage into registers: query v is head v % group of row v / group.
#pragma unroll
  for (int i = 0; i < QUERIES / AT_ONCE; ++i) {
    const int query = i * AT_ONCE + int(threadIdx.x) / CHUNKS, chunk = int(threadIdx.x) % CHUNKS;
    const bool present = query < int(count);
    const unsigned token = present ? query / group : 0, head = present ? query % group : 0;
    copy_async_16(tile.chunk(2 * KEYS + query, chunk), qkv + (row + token) * width + (kv * group + head) * D + chunk * 8,
                  present);
  }
  copy_async_commit();
  start(0);
  copy_async_wait<1>();
  __syncthreads();
  uint32_t queries[D / 16][4];
#pragma unroll
  for (int k = 0; k < D / 16; ++k) ldmatrix_x4(queries[k], tile.chunk(2 * KEYS + 16 * warp + lane % 16, 2 * k + lane / 16));

  const unsigned earliest = position + 16 * warp / group, tiles = (seen - begin + KEYS - 1) / KEYS;
  // ALiBi of the lane's two queries, divided by 1/√D.
  [[maybe_unused]] float slopes[2];
  if constexpr (Mask::SPECIAL) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      slopes[half] = mask.slope(kv * group + (16 * warp + g + 8 * half) % group) * (attention::LOG2_E / scale);
  }
  paged::Running<D> running;
  for (unsigned index = 0; index < tiles; ++index) {
    // All warps have finished reading what the next copies overwrite.
    __syncthreads();
    if (index + 1 < tiles) {
      start(index + 1);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    const int from = index % STAGES * 2 * KEYS;
    float scores[KEYS / 8][4];
    paged::score<D, KEYS>(scores, queries, tile, from);
    const unsigned key = begin + index * KEYS;
    if (Mask::SPECIAL || key + KEYS - 1 > earliest) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned at = position + (16 * warp + g + 8 * half) / group;
        float slope = 0;
        if constexpr (Mask::SPECIAL) slope = slopes[half];
        attention::mask_scores(scores, half, int(at) - int(key + 2 * t), slope, mask);
      }
    }
    running.template add<KEYS, Mask::SPECIAL>(scores, scale, tile, from + KEYS);
  }
  const float totals[2] = {running.rows[0].total(), running.rows[1].total()};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned query = 16 * warp + g + 8 * half;
    if (query >= count) continue;
    bf16* to = out + (size_t(row + query / group) * heads + kv * group + query % group) * D + 2 * t;
    const float inverse = 1.0f / totals[half];
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      *reinterpret_cast<uint32_t*>(to + 8 * n) =
          pack_bf16(running.values[n][2 * half] * inverse, running.values[n][2 * half + 1] * inverse);
    }
  }
}

}  // namespace

#define PARAMETERS                                                                                                  \
  const bf16 *qkv, const bf16 *keys, const bf16 *values, const unsigned *table, bf16 *out, unsigned heads,          \
      unsigned kv_heads, unsigned tokens, float scale

#define EXPORT_FOR(D)                                                                                               \
  EXPORT_BOUNDS(paged_attention_prefill_##D, 128, 3, (PARAMETERS),                                                   \
                prefill<D>(qkv, keys, values, table, out, heads, kv_heads, tokens, scale, attention::Causal{}))      \
  EXPORT_BOUNDS(paged_attention_prefill_masked_##D, 128, 3, (PARAMETERS, const float* slopes, unsigned window),      \
                prefill<D>(qkv, keys, values, table, out, heads, kv_heads, tokens, scale,                            \
                           attention::Special{slopes, window}))
EXPORT_FOR(64)
EXPORT_FOR(128)
