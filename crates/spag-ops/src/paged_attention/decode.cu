// Decode attention on tensor cores: bf16, head sizes 64 and 128, pages of whole stripes.
//
// Bound by memory: keys and values are read once. A block handles one split of the keys of one KV head for one row, for
// all query heads of the KV head (at most 16, the rows of the fragments). Each of its four warps processes every fourth
// stripe of 16 keys independently and copies its next stripe while it computes. Finally the warps' results are
// combined. Grid: (rows, KV heads, splits).
#include "fragments.cuh"

namespace {

constexpr int WARPS = 4, STAGES = 2, ROWS = 16, KEYS = 16;

template <int D, class Mask>
__device__ __forceinline__ void decode(const bf16* qkv, const bf16* keys, const bf16* values, const unsigned* table,
                                       bf16* out, float* stats, float* sums, unsigned heads, unsigned kv_heads,
                                       unsigned tokens, float scale, Mask mask) {
  DYNAMIC_SHARED(bf16, shared);
  const unsigned* item = paged::entry(table, paged::DECODING, blockIdx.x, 4);
  if (item == nullptr) return;
  const unsigned row = item[0], seen = item[1], splits = gridDim.z, kv = blockIdx.y, group = heads / kv_heads;
  const unsigned first_key = mask.first_key(seen - 1);
  const paged::Splits all(first_key, seen, splits);
  const unsigned first = all.begin + blockIdx.z * all.each, end = min(first + all.each, all.end);
  if (first >= end) return;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;

  // The queries as fragments; rows beyond the group are zeros.
  const bf16* query = qkv + (size_t(row) * (heads + 2 * kv_heads) + kv * group) * D;
  uint32_t queries[D / 16][4];
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned head = g + i % 2 * 8, column = 16 * k + i / 2 * 8 + 2 * t;
      queries[k][i] = head < group ? *reinterpret_cast<const uint32_t*>(query + head * D + column) : 0u;
    }
  }

  const paged::Tile<D> mine{shared + warp * STAGES * 2 * KEYS * D};
  paged::Stripes<D> stripes{table + item[2], kv, kv_heads, tokens, first + warp, WARPS, end, 0};
  // Copies the warp's stripe `index`: the keys, followed by the values.
  auto start = [&](unsigned index) {
    const unsigned stripe = first + warp + index * WARPS;
    const size_t from = size_t(stripes.lookup(index)) * 8;
    const int to = index % STAGES * 2 * KEYS;
    if (stripe < end) {
#pragma unroll
      for (int i = 0; i < KEYS * D / 8 / WARP; ++i) {
        const int at = i * WARP + lane, key = at / (D / 8), chunk = at % (D / 8);
        // Unattended slots may hold NaNs or infinities, and zero times those is not zero.
        const unsigned position = stripe * paged::STRIPE + key;
        const bool present = position < seen && (!Mask::SPECIAL || position >= first_key);
        copy_async_16(mine.chunk(to + key, chunk), keys + from + at * 8, present);
        copy_async_16(mine.chunk(to + KEYS + key, chunk), values + from + at * 8, present);
      }
    }
    copy_async_commit();
  };
  // ALiBi of the lane's two heads, divided by 1/√D.
  [[maybe_unused]] float slopes[2];
  if constexpr (Mask::SPECIAL) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned head = g + 8 * half;
      slopes[half] = head < group ? mask.slope(kv * group + head) * (attention::LOG2_E / scale) : 0.0f;
    }
  }
  paged::Running<D> running;
  start(0);
  for (unsigned index = 0, stripe = first + warp; stripe < end; ++index, stripe += WARPS) {
    // All lanes have finished reading what the next copies overwrite.
    __syncwarp();
    start(index + 1);
    copy_async_wait<1>();
    __syncwarp();
    const int from = index % STAGES * 2 * KEYS;
    float scores[KEYS / 8][4];
    paged::score<D, KEYS>(scores, queries, mine, from);
    if (Mask::SPECIAL || (stripe + 1) * paged::STRIPE > seen) {
      const int distance = int(seen) - 1 - int(stripe * paged::STRIPE + 2 * t);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float slope = 0;
        if constexpr (Mask::SPECIAL) slope = slopes[half];
        attention::mask_scores(scores, half, distance, slope, mask);
      }
    }
    running.template add<KEYS>(scores, scale, mine, from + KEYS);
  }
  copy_async_wait<0>();
  const float totals[2] = {running.rows[0].total(), running.rows[1].total()};

  // The warps' results, [warps, rows, D], their maxima and sums, [warps, rows], in the memory of the stripes.
  __syncthreads();
  float* parts = reinterpret_cast<float*>(shared);
  float *largest = parts + WARPS * ROWS * D, *sum = largest + WARPS * ROWS;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = g + 8 * half;
    if (head < int(group)) {
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        *reinterpret_cast<float2*>(parts + (warp * ROWS + head) * D + 8 * n + 2 * t) =
            make_float2(running.values[n][2 * half], running.values[n][2 * half + 1]);
      }
      if (t == 0) {
        largest[warp * ROWS + head] = running.rows[half].top * scale;
        sum[warp * ROWS + head] = totals[half];
      }
    }
  }
  __syncthreads();
  for (unsigned at = threadIdx.x; at < group * (D / 4); at += WARPS * WARP) {
    const unsigned head = at / (D / 4), column = at % (D / 4) * 4;
    float top = -INFINITY;
#pragma unroll
    for (int part = 0; part < WARPS; ++part) top = fmaxf(top, largest[part * ROWS + head]);
    float total = 0;
    float4 value = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int part = 0; part < WARPS; ++part) {
      // 0 for a warp without stripes.
      const float weight = exp2f(largest[part * ROWS + head] - top);
      const float4 some = *reinterpret_cast<const float4*>(parts + (part * ROWS + head) * D + column);
      total += weight * sum[part * ROWS + head];
      value.x += weight * some.x;
      value.y += weight * some.y;
      value.z += weight * some.z;
      value.w += weight * some.w;
    }
    if (splits == 1) {
      const float inverse = 1.0f / total;
      uint2 rounded;
      rounded.x = pack_bf16(value.x * inverse, value.y * inverse);
      rounded.y = pack_bf16(value.z * inverse, value.w * inverse);
      *reinterpret_cast<uint2*>(out + (size_t(row) * heads + kv * group + head) * D + column) = rounded;
      continue;
    }
    const paged::Partial part =
        paged::partial_of(stats, sums, blockIdx.x, heads, kv * group + head, splits, blockIdx.z, D);
    *reinterpret_cast<float4*>(part.values + column) = value;
    if (column == 0) {
      part.largest_and_sum[0] = top;
      part.largest_and_sum[1] = total;
    }
  }
}

}  // namespace

#define PARAMETERS                                                                                                 \
  const bf16 *qkv, const bf16 *keys, const bf16 *values, const unsigned *table, bf16 *out, float *stats,           \
      float *sums, unsigned heads, unsigned kv_heads, unsigned tokens, float scale

#define EXPORT_FOR(D)                                                                                              \
  EXPORT_BOUNDS(paged_attention_decode_##D, 128, 3, (PARAMETERS),                                                   \
                decode<D>(qkv, keys, values, table, out, stats, sums, heads, kv_heads, tokens, scale,               \
                          attention::Causal{}))                                                                     \
  EXPORT_BOUNDS(paged_attention_decode_masked_##D, 128, 3, (PARAMETERS, const float* slopes, unsigned window),      \
                decode<D>(qkv, keys, values, table, out, stats, sums, heads, kv_heads, tokens, scale,               \
                          attention::Special{slopes, window}))
EXPORT_FOR(64)
EXPORT_FOR(128)
