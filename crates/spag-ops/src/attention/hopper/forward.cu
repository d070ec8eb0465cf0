// Causal attention over packed sequences, forward, with warpgroup products (Shah et al. 2024, FlashAttention-3).
//
// A block owns 128 queries, 64 per consumer, and reads 64 keys per step, like all attention kernels with bit-identical rows. A consumer's
// exponentials overlap with its previous step's product of weights and values, and with the other consumer's products: they take turns to
// start them. Blocks are persistent, so the keys of the next piece are loaded while the current one ends.
//
// Lower bound: as for forward.cu, at the warpgroup product rate. In a tile on the diagonal, half of the operations are for
// hidden pairs; at T = 500 that is a third of all.
#include "pipeline.cuh"

namespace {
using namespace attention;
using namespace attention::hopper;

constexpr int QUERIES = 128, KEYS = 64, STAGES = 4, N = KEYS / 8;

// Replaces the scores of a warp's rows `row`.. with the keys `key`.. by exponentials. `keep` receives the rescaling factors of
// the sums so far.
template <class Mask>
__device__ __forceinline__ void exponentials(float (&scores)[N][4], RunningRow (&rows)[2], float (&keep)[2], int row, int key,
                                             float scale, Mask mask, float slope) {
  const int lane = threadIdx.x % WARP, distance = row + lane / 4 - key - 2 * (lane % 4);
  if (Mask::SPECIAL || mask.hides_some(row - (key + KEYS - 1), row + 15 - key)) {
#pragma unroll
    for (int half = 0; half < 2; ++half) mask_scores(scores, half, distance + 8 * half, slope, mask);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) keep[half] = rows[half].template add<Mask::SPECIAL>(scores, half, scale);
}

// q, out [N, heads·DIM], k, v [rows of keys, kv_heads·DIM], lse [N, heads]. A piece of work is an item and a head. scale is
// 1/√dim·log₂e.
template <int DIM, class Mask>
__device__ __forceinline__ void forward(const bf16* q, const bf16* k, const bf16* v, const unsigned* work, unsigned total,
                                        bf16* out, float* lse, unsigned heads, unsigned kv_heads, float scale, Mask mask) {
  DYNAMIC_SHARED(bf16, queries);
  bf16 *keys = queries + QUERIES * DIM, *values = keys + STAGES * KEYS * DIM;
  uint64_t* barriers = reinterpret_cast<uint64_t*>(values + STAGES * KEYS * DIM);
  Ring<1> of_queries = {barriers, barriers + 1};
  Ring<STAGES> of_keys = {barriers + 2, barriers + 2 + STAGES};
  Ring<STAGES> of_values = {barriers + 2 + 2 * STAGES, barriers + 2 + 3 * STAGES};
  if (threadIdx.x == 0) {
    of_queries.init();
    of_keys.init();
    of_values.init();
  }
  __syncthreads();
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const int group = threadIdx.x / wgmma::GROUP;
  if (group == 0) {
    wgmma::fewer_registers<PRODUCER_REGISTERS>();
    for (unsigned round = 0, index; (index = work_of_round(round)) < total; ++round) {
      const Item item = item_of(work, index / heads);
      const unsigned head = index % heads, kv = head / (heads / kv_heads);
      const unsigned count = min(unsigned(QUERIES), item.end - item.first), seen = item.first - item.begin + count;
      const unsigned begin = mask.first_key(item.first - item.begin) / KEYS * KEYS;
      const size_t kv_at = item.begin * size_t(kv_stride) + kv * DIM;
      for (unsigned key = begin; key < seen; key += KEYS) {
        const size_t at = kv_at + key * size_t(kv_stride);
        copy_panels<DIM, KEYS>(keys + of_keys.claim() * (KEYS * DIM), k + at, kv_stride, seen - key);
        of_keys.fill();
        if (key == begin) {
          of_queries.claim();
          copy_panels<DIM, QUERIES>(queries, q + (item.first - item.shift) * size_t(q_stride) + head * DIM, q_stride, count);
          of_queries.fill();
        }
        copy_panels<DIM, KEYS>(values + of_values.claim() * (KEYS * DIM), v + at, kv_stride, seen - key);
        of_values.fill();
      }
    }
    return;
  }
  wgmma::more_registers<CONSUMER_REGISTERS>();
  const int of_group = (group - 1) * 64, of_warp = of_group + int(threadIdx.x % wgmma::GROUP) / WARP * 16;
  const int lane = threadIdx.x % WARP;
  if (group == 2) wgmma::turn_give<CONSUMERS * wgmma::GROUP>(3 - group);
  for (unsigned round = 0, index; (index = work_of_round(round)) < total; ++round) {
    const Item item = item_of(work, index / heads);
    const unsigned head = index % heads;
    const unsigned count = min(unsigned(QUERIES), item.end - item.first), seen = item.first - item.begin + count;
    const unsigned begin = mask.first_key(item.first - item.begin) / KEYS * KEYS;
    const int row = int(item.first - item.begin) + of_warp;
    const float slope = mask.slope(head) * (LOG2_E / scale);
    float sums[DIM / 8][4], scores[N][4], keep[2];
    uint32_t weights[N / 2][4];
    RunningRow rows[2];
    clear_sums(sums);
    // Both consumers execute all steps, since they take turns; one without queries works on zeros.
    of_queries.receive();
    const bf16* tile = keys + of_keys.receive() * (KEYS * DIM);
    wgmma::begin();
    multiply_rows<DIM, QUERIES>(scores, queries, of_group, tile);
    wgmma::commit();
    wgmma::wait<0>();
    wgmma::settle(scores);
    of_keys.leave();
    exponentials(scores, rows, keep, row, int(begin), scale, mask, slope);
    round_left(weights, scores);
    for (unsigned key = begin + KEYS; key < seen; key += KEYS) {
      tile = keys + of_keys.receive() * (KEYS * DIM);
      wgmma::settle(scores);
      wgmma::turn_wait<CONSUMERS * wgmma::GROUP>(group);
      wgmma::begin();
      multiply_rows<DIM, QUERIES>(scores, queries, of_group, tile);
      wgmma::commit();
      tile = values + of_values.receive() * (KEYS * DIM);
      wgmma::settle(sums);
      wgmma::begin();
      multiply_add<DIM>(sums, weights, tile);
      wgmma::commit();
      wgmma::turn_give<CONSUMERS * wgmma::GROUP>(3 - group);
      wgmma::wait<1>();
      wgmma::settle(scores);
      of_keys.leave();
      exponentials(scores, rows, keep, row, int(key), scale, mask, slope);
      wgmma::wait<0>();
      wgmma::settle(sums);
      of_values.leave();
#pragma unroll
      for (int n = 0; n < DIM / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] *= keep[i / 2];
      round_left(weights, scores);
    }
    tile = values + of_values.receive() * (KEYS * DIM);
    wgmma::settle(sums);
    wgmma::begin();
    multiply_add<DIM>(sums, weights, tile);
    wgmma::commit();
    wgmma::wait<0>();
    wgmma::settle(sums);
    of_values.leave();
    const size_t to = item.first - item.shift + of_warp;
    const int present = int(count) - of_warp;
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = rows[half].total();
      inverse[half] = 1.0f / sum;
      const int r = 8 * half + lane / 4;
      if (lane % 4 == 0 && r < present)
        lse[(to + r) * heads + head] = rows[half].top * scale * LN_2 + logf(sum);
    }
    store_panels<DIM, QUERIES>(queries, of_warp, sums, inverse, out + to * q_stride + head * DIM, q_stride, present);
    of_queries.leave();
  }
}

}  // namespace

#define EXPORT_TILES(DIM)                                                                                                \
  EXPORT_BOUNDS(attention_hopper_forward_##DIM##_bf16, hopper::THREADS, 1,                                               \
                (const bf16* q, const bf16* k, const bf16* v, const unsigned* work, unsigned total, bf16* out, float* lse, \
                 unsigned heads, unsigned kv_heads, float scale),                                                         \
                forward<DIM>(q, k, v, work, total, out, lse, heads, kv_heads, scale, Causal{}))                           \
  EXPORT_BOUNDS(attention_hopper_forward_masked_##DIM##_bf16, hopper::THREADS, 1,                                        \
                (const bf16* q, const bf16* k, const bf16* v, const unsigned* work, unsigned total, bf16* out, float* lse, \
                 unsigned heads, unsigned kv_heads, float scale, const float* slopes, unsigned window),                   \
                forward<DIM>(q, k, v, work, total, out, lse, heads, kv_heads, scale, Special{slopes, window}))
EXPORT_TILES(64)
EXPORT_TILES(128)
