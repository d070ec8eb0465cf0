// Causal attention over packed sequences, backward, with warpgroup products: the two passes and formulas of ../backward.cu. Each
// sum belongs to one warpgroup and has one order, so results are bitwise reproducible.
//
// Keys: a block owns 128 keys, 64 for each consumer, and takes 64 queries a step. Scores and dP are transposed, k·qᵀ and v·doutᵀ,
// so that a consumer's results are the left operands of its next products in its registers: 128 of them for the sums of dk and
// dv, 64 for scores and dP. Queries: a block owns 128 queries and takes 64 keys a step.
//
// One consumer's exponentials overlap with the other's products. Three steps are buffered.
#include "pipeline.cuh"

namespace {
using namespace attention;
using namespace attention::hopper;

// Rows owned by a block, and rows of a step.
constexpr int OWN = 128, OTHERS = 64, STAGES = 3, N = OTHERS / 8;

// dk and dv. k, v, dk, dv [rows of keys, kv_heads·DIM], q, dout [N, heads·DIM], lse, delta [N, heads]. A piece of work is a tile of
// keys and a key/value head. scale is 1/√dim.
template <int DIM, class Mask>
__device__ __forceinline__ void keys_pass(const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* lse,
                                          const float* delta, const unsigned* work, unsigned total, bf16* dk, bf16* dv,
                                          unsigned heads, unsigned kv_heads, float scale, Mask mask) {
  DYNAMIC_SHARED(bf16, keys);
  bf16 *values = keys + OWN * DIM, *others = values + OWN * DIM;
  float* numbers = reinterpret_cast<float*>(others + STAGES * 2 * OTHERS * DIM);
  uint64_t* barriers = reinterpret_cast<uint64_t*>(numbers + STAGES * 2 * OTHERS);
  Ring<1> own = {barriers, barriers + 1};
  Ring<STAGES> steps = {barriers + 2, barriers + 2 + STAGES};
  if (threadIdx.x == 0) {
    own.init();
    steps.init();
  }
  __syncthreads();
  const unsigned group = heads / kv_heads, q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const int role = threadIdx.x / wgmma::GROUP;
  if (role == 0) {
    wgmma::fewer_registers<PRODUCER_REGISTERS>();
    const unsigned thread = threadIdx.x;
    for (unsigned round = 0, index; (index = work_of_round(round)) < total; ++round) {
      const Item item = item_of(work, index / kv_heads);
      const unsigned kv = index % kv_heads, count = min(unsigned(OWN), item.end - item.first);
      const unsigned length = item.end - item.begin, first = item.first - item.begin;
      const unsigned last = mask.end_of_queries(first + count - 1, length), from = max(first, item.queries - item.begin);
      const unsigned begin = item.begin - item.shift;
      // No query sees the keys: their gradients are zero.
      if (from >= last) own.claim(), own.fill();
      for (unsigned head = kv * group; head < (kv + 1) * group; ++head)
        for (unsigned query = from; query < last; query += OTHERS) {
          const unsigned stage = steps.claim();
          bf16* to = others + stage * (2 * OTHERS * DIM);
          const size_t at = (begin + query) * size_t(q_stride) + head * DIM;
          copy_panels<DIM, OTHERS>(to, q + at, q_stride, length - query);
          copy_panels<DIM, OTHERS>(to + OTHERS * DIM, dout + at, q_stride, length - query);
          // Zeros for queries out of range, whose output gradients are zero, too.
          const unsigned row = query + thread % OTHERS;
          const size_t number = (begin + row) * size_t(heads) + head;
          copy_async_4(numbers + stage * (2 * OTHERS) + thread, (thread < OTHERS ? lse : delta) + number, row < length);
          steps.fill();
          if (head == kv * group && query == from) {
            own.claim();
            const size_t kv_at = item.first * size_t(kv_stride) + kv * DIM;
            copy_panels<DIM, OWN>(keys, k + kv_at, kv_stride, count);
            copy_panels<DIM, OWN>(values, v + kv_at, kv_stride, count);
            own.fill();
          }
        }
    }
    return;
  }
  wgmma::more_registers<CONSUMER_REGISTERS>();
  const int of_group = (role - 1) * 64, of_warp = of_group + int(threadIdx.x % wgmma::GROUP) / WARP * 16;
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  for (unsigned round = 0, index; (index = work_of_round(round)) < total; ++round) {
    const Item item = item_of(work, index / kv_heads);
    const unsigned kv = index % kv_heads, count = min(unsigned(OWN), item.end - item.first);
    const unsigned length = item.end - item.begin, first = item.first - item.begin;
    const unsigned last = mask.end_of_queries(first + count - 1, length), from = max(first, item.queries - item.begin);
    const int key_of_group = int(first) + of_group, key = int(first) + of_warp;
    float key_sums[DIM / 8][4], value_sums[DIM / 8][4];
    clear_sums(key_sums);
    clear_sums(value_sums);
    own.receive();
    for (unsigned head = kv * group; head < (kv + 1) * group; ++head)
      for (unsigned query = from; query < last; query += OTHERS) {
        const int row = int(query);
        const unsigned stage = steps.receive();
        if (of_group >= int(count) || mask.hides_all(row - (key_of_group + 63), row + OTHERS - 1 - key_of_group)) {
          steps.leave();
          continue;
        }
        const bf16 *queries = others + stage * (2 * OTHERS * DIM), *douts = queries + OTHERS * DIM;
        const float* of_query = numbers + stage * (2 * OTHERS) + 2 * t;
        float p[N][4], ds[N][4];
        uint32_t left[N / 2][4];
        wgmma::begin();
        multiply_rows<DIM, OWN>(p, keys, of_group, queries);
        wgmma::commit();
        multiply_rows<DIM, OWN>(ds, values, of_group, douts);
        wgmma::commit();
        wgmma::wait<1>();
        wgmma::settle(p);
        const int distance = row + 2 * t - key - g;
        if constexpr (Mask::SPECIAL) {
          const float slope = -mask.slope(head) / scale, start = slope * float(distance);
#pragma unroll
          for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) p[n][i] += fmaf(slope, float(8 * n + i % 2 - 8 * (i / 2)), start);
        }
#pragma unroll
        for (int n = 0; n < N; ++n) {
          const float2 of_pair = *reinterpret_cast<const float2*>(of_query + 8 * n);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            p[n][i] = exp2_fast(p[n][i] * (scale * LOG2_E) - (i % 2 ? of_pair.y : of_pair.x) * LOG2_E);
        }
        if (mask.hides_some(row - (key + 15), row + OTHERS - 1 - key)) {
#pragma unroll
          for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i)
              if (mask.hides(distance + 8 * n + i % 2 - 8 * (i / 2))) p[n][i] = 0;
        }
        round_left(left, p);
        wgmma::settle(value_sums);
        wgmma::begin();
        multiply_add<DIM>(value_sums, left, douts);
        wgmma::commit();
        wgmma::wait<1>();
        wgmma::settle(ds);
        uint32_t left_ds[N / 2][4];
#pragma unroll
        for (int n = 0; n < N; ++n) {
          const float2 of_pair = *reinterpret_cast<const float2*>(of_query + OTHERS + 8 * n);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float weight = p[n][i];
            ds[n][i] = weight * (ds[n][i] - (i % 2 ? of_pair.y : of_pair.x));
          }
        }
        round_left(left_ds, ds);
        wgmma::settle(key_sums);
        wgmma::begin();
        multiply_add<DIM>(key_sums, left_ds, queries);
        wgmma::commit();
        wgmma::wait<0>();
        wgmma::settle(key_sums);
        wgmma::settle(value_sums);
        steps.leave();
      }
    const size_t to = (item.first + of_warp) * size_t(kv_stride) + kv * DIM;
    const int present = int(count) - of_warp;
    store_panels<DIM, OWN>(keys, of_warp, key_sums, {scale, scale}, dk + to, kv_stride, present);
    store_panels<DIM, OWN>(values, of_warp, value_sums, {1.0f, 1.0f}, dv + to, kv_stride, present);
    own.leave();
  }
}

// dq, as keys_pass. dq [N, heads·DIM]. A piece of work is a tile of queries and a head.
template <int DIM, class Mask>
__device__ __forceinline__ void queries_pass(const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* lse,
                                             const float* delta, const unsigned* work, unsigned total, bf16* dq,
                                             unsigned heads, unsigned kv_heads, float scale, Mask mask) {
  DYNAMIC_SHARED(bf16, queries);
  bf16 *douts = queries + OWN * DIM, *others = douts + OWN * DIM;
  uint64_t* barriers = reinterpret_cast<uint64_t*>(others + STAGES * 2 * OTHERS * DIM);
  Ring<1> own = {barriers, barriers + 1};
  Ring<STAGES> steps = {barriers + 2, barriers + 2 + STAGES};
  if (threadIdx.x == 0) {
    own.init();
    steps.init();
  }
  __syncthreads();
  const unsigned q_stride = heads * DIM, kv_stride = kv_heads * DIM;
  const int role = threadIdx.x / wgmma::GROUP;
  if (role == 0) {
    wgmma::fewer_registers<PRODUCER_REGISTERS>();
    for (unsigned round = 0, index; (index = work_of_round(round)) < total; ++round) {
      const Item item = item_of(work, index / heads);
      const unsigned head = index % heads, kv = head / (heads / kv_heads);
      const unsigned count = min(unsigned(OWN), item.end - item.first), seen = item.first - item.begin + count;
      const unsigned begin = mask.first_key(item.first - item.begin) / OTHERS * OTHERS;
      for (unsigned key = begin; key < seen; key += OTHERS) {
        bf16* to = others + steps.claim() * (2 * OTHERS * DIM);
        const size_t at = (item.begin + key) * size_t(kv_stride) + kv * DIM;
        copy_panels<DIM, OTHERS>(to, k + at, kv_stride, seen - key);
        copy_panels<DIM, OTHERS>(to + OTHERS * DIM, v + at, kv_stride, seen - key);
        steps.fill();
        if (key == begin) {
          own.claim();
          const size_t q_at = (item.first - item.shift) * size_t(q_stride) + head * DIM;
          copy_panels<DIM, OWN>(queries, q + q_at, q_stride, count);
          copy_panels<DIM, OWN>(douts, dout + q_at, q_stride, count);
          own.fill();
        }
      }
    }
    return;
  }
  wgmma::more_registers<CONSUMER_REGISTERS>();
  const int of_group = (role - 1) * 64, of_warp = of_group + int(threadIdx.x % wgmma::GROUP) / WARP * 16;
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  for (unsigned round = 0, index; (index = work_of_round(round)) < total; ++round) {
    const Item item = item_of(work, index / heads);
    const unsigned head = index % heads;
    const unsigned count = min(unsigned(OWN), item.end - item.first), seen = item.first - item.begin + count;
    const unsigned begin = mask.first_key(item.first - item.begin) / OTHERS * OTHERS;
    const int row_of_group = int(item.first - item.begin) + of_group, row = int(item.first - item.begin) + of_warp;
    const size_t q_first = item.first - item.shift + of_warp;
    const int present = int(count) - of_warp;
    float sums[DIM / 8][4], of_lse[2], of_delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Rows out of range have zero queries and gradients.
      const bool has = 8 * half + g < present;
      const size_t at = (q_first + 8 * half + g) * heads + head;
      of_lse[half] = has ? lse[at] * LOG2_E : 0.0f;
      of_delta[half] = has ? delta[at] : 0.0f;
    }
    clear_sums(sums);
    own.receive();
    for (unsigned key = begin; key < seen; key += OTHERS) {
      const unsigned stage = steps.receive();
      if (of_group >= int(count) ||
          mask.hides_all(row_of_group - int(key + OTHERS - 1), row_of_group + 63 - int(key))) {
        steps.leave();
        continue;
      }
      const bf16 *keys = others + stage * (2 * OTHERS * DIM), *values = keys + OTHERS * DIM;
      float p[N][4], ds[N][4];
      uint32_t left[N / 2][4];
      wgmma::begin();
      multiply_rows<DIM, OWN>(p, queries, of_group, keys);
      wgmma::commit();
      multiply_rows<DIM, OWN>(ds, douts, of_group, values);
      wgmma::commit();
      wgmma::wait<1>();
      wgmma::settle(p);
      const int distance = row + g - int(key) - 2 * t;
      if constexpr (Mask::SPECIAL) {
        const float slope = mask.slope(head) / scale, start = -slope * float(distance);
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) p[n][i] += fmaf(slope, float(8 * n + i % 2 - 8 * (i / 2)), start);
      }
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[n][i] = exp2_fast(p[n][i] * (scale * LOG2_E) - of_lse[i / 2]);
      if (mask.hides_some(row - int(key + OTHERS - 1), row + 15 - int(key))) {
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (mask.hides(distance - (8 * n + i % 2 - 8 * (i / 2)))) p[n][i] = 0;
      }
      wgmma::wait<0>();
      wgmma::settle(ds);
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) ds[n][i] = p[n][i] * (ds[n][i] - of_delta[i / 2]);
      round_left(left, ds);
      wgmma::settle(sums);
      wgmma::begin();
      multiply_add<DIM>(sums, left, keys);
      wgmma::commit();
      wgmma::wait<0>();
      wgmma::settle(sums);
      steps.leave();
    }
    store_panels<DIM, OWN>(queries, of_warp, sums, {scale, scale}, dq + q_first * q_stride + head * DIM, q_stride, present);
    own.leave();
  }
}

}  // namespace

#define PARAMETERS                                                                                              \
  const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *dout, const float *lse, const float *delta,         \
      const unsigned *work, unsigned total
#define EXPORT_TILES(DIM)                                                                                                \
  EXPORT_BOUNDS(attention_hopper_backward_keys_##DIM##_bf16, hopper::THREADS, 1,                                         \
                (PARAMETERS, bf16 * dk, bf16 * dv, unsigned heads, unsigned kv_heads, float scale),                       \
                keys_pass<DIM>(q, k, v, dout, lse, delta, work, total, dk, dv, heads, kv_heads, scale, Causal{}))         \
  EXPORT_BOUNDS(attention_hopper_backward_keys_masked_##DIM##_bf16, hopper::THREADS, 1,                                  \
                (PARAMETERS, bf16 * dk, bf16 * dv, unsigned heads, unsigned kv_heads, float scale, const float* slopes,   \
                 unsigned window),                                                                                        \
                keys_pass<DIM>(q, k, v, dout, lse, delta, work, total, dk, dv, heads, kv_heads, scale,                    \
                               Special{slopes, window}))                                                                  \
  EXPORT_BOUNDS(attention_hopper_backward_queries_##DIM##_bf16, hopper::THREADS, 1,                                      \
                (PARAMETERS, bf16 * dq, unsigned heads, unsigned kv_heads, float scale),                                  \
                queries_pass<DIM>(q, k, v, dout, lse, delta, work, total, dq, heads, kv_heads, scale, Causal{}))          \
  EXPORT_BOUNDS(attention_hopper_backward_queries_masked_##DIM##_bf16, hopper::THREADS, 1,                               \
                (PARAMETERS, bf16 * dq, unsigned heads, unsigned kv_heads, float scale, const float* slopes,              \
                 unsigned window),                                                                                        \
                queries_pass<DIM>(q, k, v, dout, lse, delta, work, total, dq, heads, kv_heads, scale,                     \
                                  Special{slopes, window}))
EXPORT_TILES(64)
EXPORT_TILES(128)
