// Samples one token from each row of logits, or scores given ones; the GPU version of sample/row.rs. One block per row.
//
// Weights are fixed-point numbers in units of 2⁻⁴⁰ of the most likely token's weight, so that sums do not depend on the
// order of addition. Top-k and top-p need no sort, only positions in the order of likelihood (the k-th token, the first
// token that reaches a sum), which are found by bisecting the range of sort keys until few tokens are left to compare.
#include "cuda/logits.cuh"

namespace {

constexpr int THREADS = 512, WARPS = THREADS / WARP;
using wide = unsigned long long;

// Sampling parameters: SETTING words per row in `settings`.
constexpr unsigned SETTING = 10;
enum : unsigned { KIND, INVERSE_TEMPERATURE, TOP_K, BANNED_AT, BANNED, WHICH, TOP_P, UNIFORM = 8 };
enum : unsigned { GREEDY = 0, ALL = 1, MOST_LIKELY = 2 };
// Status of a row.
enum : unsigned { CHOSEN = 0, UNSOUND = 1, NOTHING_ALLOWED = 2 };

__device__ __forceinline__ double number(const unsigned* halves) {
  return __hiloint2double(int(halves[1]), int(halves[0]));
}

// Larger logits have larger keys; ties go to the lower token. No key is 0.
__device__ __forceinline__ wide key_of(float logit, unsigned token) {
  const unsigned bits = __float_as_uint(logit + 0.0f);  // Maps −0 to +0.
  return wide(bits >> 31 ? ~bits : bits | 0x80000000u) << 32 | wide(~token);
}
__device__ __forceinline__ unsigned token_of(wide key) { return ~unsigned(key); }
__device__ __forceinline__ float logit_of(wide key) {
  const unsigned bits = unsigned(key >> 32);
  return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

struct Measure {
  unsigned count;
  wide mass;
};

__device__ __forceinline__ wide shuffle_xor(wide x, int offset) {
  const unsigned low = __shfl_xor_sync(ALL_LANES, unsigned(x), offset);
  return wide(__shfl_xor_sync(ALL_LANES, unsigned(x >> 32), offset)) << 32 | low;
}
__device__ __forceinline__ wide warp_total(wide x) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += shuffle_xor(x, offset);
  return x;
}

struct Shared {
  float floats[WARP];
  wide wides[WARPS];
  unsigned counts[WARPS];
  wide candidates[THREADS];
  unsigned candidate_count;
  wide found;
  Measure reached;
};
// Must match sample/device.rs.
static_assert(sizeof(Shared) <= 4608, "more shared memory than a launch asks for");

// Block reduction; every thread gets the result.
__device__ __forceinline__ Measure block_total(Measure x, Shared& shared) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  x.mass = warp_total(x.mass);
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) x.count += __shfl_xor_sync(ALL_LANES, x.count, offset);
  __syncthreads();
  if (lane == 0) {
    shared.wides[warp] = x.mass;
    shared.counts[warp] = x.count;
  }
  __syncthreads();
  Measure all{0, 0};
  for (int i = 0; i < WARPS; ++i) {
    all.mass += shared.wides[i];
    all.count += shared.counts[i];
  }
  return all;
}
__device__ __forceinline__ wide block_largest(wide x, Shared& shared) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) x = max(x, shuffle_xor(x, offset));
  __syncthreads();
  if (lane == 0) shared.wides[warp] = x;
  __syncthreads();
  for (int i = 0; i < WARPS; ++i) x = max(x, shared.wides[i]);
  return x;
}

// A row and its allowed tokens.
template <class T>
struct Row {
  const T* logits;
  unsigned size;
  const unsigned* banned;
  unsigned banned_count;
  float top, inverse;

  __device__ __forceinline__ bool allowed(unsigned token) const {
    for (unsigned i = 0; i < banned_count; ++i)
      if (banned[i] == token) return false;
    return true;
  }
  __device__ __forceinline__ wide mass(float logit) const {
    return wide(expf((logit - top) * inverse) * 1099511627776.0f);
  }
  // As each_logit.
  template <class F>
  __device__ __forceinline__ void each(unsigned first, unsigned end, unsigned thread, unsigned threads, F f) const {
    each_logit(logits, size, first, end, thread, threads, f);
  }
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    each(0, size, threadIdx.x, THREADS, f);
  }
};

// The logarithm of a sum of masses.
__device__ __forceinline__ float log_of(wide mass) { return logf(float(mass) / 1099511627776.0f); }

// The first token in vocabulary order at which the sum of the masses exceeds uniform·total, and that sum.
template <class T>
__device__ __forceinline__ unsigned draw_of_all(const Row<T>& row, double uniform, wide& total, Shared& shared) {
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned first = 0, end = row.size;
  wide left = 0;
  for (bool whole = true; whole || end - first > 1; whole = false) {
    // One part per warp, whole vectors for large vocabularies; finally one token per thread.
    unsigned part = (end - first + WARPS - 1) / WARPS;
    if (part > 8) part = (part + 7) / 8 * 8;
    const unsigned from = min(first + warp * part, end), to = min(from + part, end);
    wide mass = 0;
    row.each(from, to, lane, WARP, [&](unsigned token, float logit) {
      if (row.allowed(token)) mass += row.mass(logit);
    });
    mass = warp_total(mass);
    __syncthreads();
    if (lane == 0) shared.wides[warp] = mass;
    __syncthreads();
    if (whole) {
      total = 0;
      for (int i = 0; i < WARPS; ++i) total += shared.wides[i];
      left = min(wide(uniform * double(total)), total - 1);
    }
    unsigned which = 0;
    while (which + 1 < WARPS && left >= shared.wides[which]) left -= shared.wides[which++];
    first += which * part;
    end = min(first + part, end);
  }
  return first;
}

// The keys in [low, high), and the number and mass of tokens from each bound on.
struct Range {
  wide low, high;
  Measure from_low, from_high;
};

enum class By { Count, Mass };

// The first token in order of likelihood at which count or mass, including its own, exceeds `target`; it must be in
// `range`. Stores the measure up to it in `reached`.
template <By BY, class T>
__device__ __forceinline__ wide find(const Row<T>& row, Range range, wide target, Measure& reached, Shared& shared) {
  auto exceeds = [&](const Measure& m) { return (BY == By::Count ? wide(m.count) : m.mass) > target; };
  while (range.from_low.count - range.from_high.count > THREADS) {
    const wide middle = range.low + (range.high - range.low) / 2;
    Measure above{0, 0};
    row.each([&](unsigned token, float logit) {
      const wide key = key_of(logit, token);
      if (key >= middle && key < range.high && row.allowed(token)) {
        above.count += 1;
        above.mass += row.mass(logit);
      }
    });
    above = block_total(above, shared);
    above.count += range.from_high.count;
    above.mass += range.from_high.mass;
    if (exceeds(above)) {
      range.low = middle;
      range.from_low = above;
    } else {
      range.high = middle;
      range.from_high = above;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) shared.candidate_count = 0;
  __syncthreads();
  // In arbitrary order: each is compared with all others.
  row.each([&](unsigned token, float logit) {
    const wide key = key_of(logit, token);
    if (key >= range.low && key < range.high && row.allowed(token))
      shared.candidates[atomicAdd(&shared.candidate_count, 1u)] = key;
  });
  __syncthreads();
  if (threadIdx.x < shared.candidate_count) {
    const wide mine = shared.candidates[threadIdx.x];
    Measure before = range.from_high;
    for (unsigned i = 0; i < shared.candidate_count; ++i) {
      const wide other = shared.candidates[i];
      if (other > mine) {
        before.count += 1;
        before.mass += row.mass(logit_of(other));
      }
    }
    const Measure with{before.count + 1, before.mass + row.mass(logit_of(mine))};
    if (!exceeds(before) && exceeds(with)) {
      shared.found = mine;
      shared.reached = with;
    }
  }
  __syncthreads();
  reached = shared.reached;
  return shared.found;
}

// The tokens kept by top-k and top-p; `best` is the key of the likeliest one.
template <class T>
__device__ __forceinline__ Range most_likely(const Row<T>& row, const unsigned* setting, wide best, Shared& shared) {
  Measure every{0, 0};
  row.each([&](unsigned token, float logit) {
    if (row.allowed(token)) {
      every.count += 1;
      every.mass += row.mass(logit);
    }
  });
  Range range{1, best + 1, block_total(every, shared), {0, 0}};
  if (setting[TOP_K] < range.from_low.count) {
    range.low = find<By::Count>(row, range, setting[TOP_K] - 1, range.from_low, shared);
  }
  const double share = number(setting + TOP_P);
  if (share < 1.0) {
    const wide reach = max(wide(ceil(share * double(range.from_low.mass))), wide(1));
    range.low = find<By::Mass>(row, range, min(reach, range.from_low.mass) - 1, range.from_low, shared);
  }
  return range;
}

// logits [rows, size]; settings as above, with the row sampled by each block, followed by the banned tokens; out [blocks, 4]: token,
// ln p under the model, ln p under the sampling distribution, status.
template <class T>
__device__ __forceinline__ void sample(const T* logits, const unsigned* settings, unsigned* out, unsigned size) {
  DYNAMIC_SHARED(Shared, all_shared);
  Shared& shared = *all_shared;
  const unsigned* setting = settings + size_t(blockIdx.x) * SETTING;
  Row<T> row{logits + size_t(setting[WHICH]) * size, size, settings + setting[BANNED_AT], setting[BANNED], 0,
             __uint_as_float(setting[INVERSE_TEMPERATURE])};
  float top = -INFINITY;
  wide best = 0;
  row.each([&](unsigned token, float logit) {
    top = fmaxf(top, logit);
    const wide key = key_of(logit, token);
    if (key > best && row.allowed(token)) best = key;
  });
  top = block_max(top, shared.floats);
  best = block_largest(best, shared);
  const float log_sum = log_sum_exp(row.logits, size, top, shared.floats);
  row.top = best == 0 ? 0.0f : logit_of(best);

  unsigned outcome = CHOSEN, token = token_of(best);
  float sampling = 0;
  if (!isfinite(log_sum)) {
    outcome = UNSOUND;
  } else if (best == 0 || !isfinite(row.top)) {
    outcome = NOTHING_ALLOWED;
  } else if (setting[KIND] != GREEDY) {
    wide total = 0;
    if (setting[KIND] == ALL) {
      token = draw_of_all(row, number(setting + UNIFORM), total, shared);
    } else {
      const Range range = most_likely(row, setting, best, shared);
      total = range.from_low.mass;
      Measure reached;
      const wide target = min(wide(number(setting + UNIFORM) * double(total)), total - 1);
      token = token_of(find<By::Mass>(row, range, target, reached, shared));
    }
    // Rounded before the subtraction, as in restrict_row.
    sampling = __fmul_rn(to_float(row.logits[token]) - row.top, row.inverse) - log_of(total);
  }
  if (threadIdx.x == 0) {
    const float model = outcome == CHOSEN ? to_float(row.logits[token]) - log_sum : 0.0f;
    *reinterpret_cast<uint4*>(out + size_t(blockIdx.x) * 4) =
        make_uint4(token, __float_as_uint(model), __float_as_uint(sampling), outcome);
  }
}

// Transforms a row's logits so that their softmax is its sampling distribution: (logit − top) / temperature, and −∞ for excluded
// tokens, except the target. log_sums receives the logarithm of the sum of their exponentials, bit-identical to that of `sample`.
// Greedy rows and non-finite rows are unchanged, with log_sums NaN.
//
// logits [rows, size], log_sums [rows]; settings as above, with the row's target, followed by the banned tokens.
__device__ __forceinline__ void restrict_row(float* logits, const unsigned* settings, float* log_sums, unsigned size) {
  DYNAMIC_SHARED(Shared, all_shared);
  Shared& shared = *all_shared;
  const unsigned* setting = settings + size_t(blockIdx.x) * SETTING;
  if (threadIdx.x == 0) log_sums[blockIdx.x] = NAN;
  if (setting[KIND] == GREEDY) return;
  logits += size_t(blockIdx.x) * size;
  Row<float> row{logits, size, settings + setting[BANNED_AT], setting[BANNED], 0,
                 __uint_as_float(setting[INVERSE_TEMPERATURE])};
  wide best = 0;
  row.each([&](unsigned token, float logit) {
    const wide key = key_of(logit, token);
    if (key > best && row.allowed(token)) best = key;
  });
  best = block_largest(best, shared);
  row.top = best == 0 ? 0.0f : logit_of(best);
  if (best == 0 || !isfinite(row.top)) return;
  const wide low = setting[KIND] == MOST_LIKELY ? most_likely(row, setting, best, shared).low : 1;
  const unsigned target = setting[WHICH];
  // Elements written by a thread are read by no other.
  Measure kept{0, 0};
  row.each([&](unsigned token, float logit) {
    const bool keep = token == target || (key_of(logit, token) >= low && row.allowed(token));
    if (keep) kept.mass += row.mass(logit);
    logits[token] = keep ? (logit - row.top) * row.inverse : -INFINITY;
  });
  kept = block_total(kept, shared);
  if (threadIdx.x == 0) log_sums[blockIdx.x] = log_of(kept.mass);
}

// Words of a row's adjustment. The data at the offsets ..._AT follow the words of all rows.
constexpr unsigned ADJUSTMENT = 8;
enum : unsigned { SOURCE, ALLOWED_AT, ALLOWED_WORDS, EDITS_AT, EDITS, BANS_AT, BANS, REACH };

// changed [blocks, size]: rows of logits with their adjustments applied (sample/adjust.rs). An edit holds a token, unique in its row,
// its bias, its repetition penalty and the subtracted penalty.
template <class T>
__device__ __forceinline__ void adjust(const T* logits, const unsigned* settings, float* changed, unsigned size) {
  DYNAMIC_SHARED(Shared, all_shared);
  Shared& shared = *all_shared;
  const unsigned* setting = settings + size_t(blockIdx.x) * ADJUSTMENT;
  const unsigned *allowed = settings + setting[ALLOWED_AT], *edits = settings + setting[EDITS_AT];
  logits += size_t(setting[SOURCE]) * size;
  changed += size_t(blockIdx.x) * size;
  const unsigned words = setting[ALLOWED_WORDS];
  for (unsigned token = threadIdx.x; token < size; token += THREADS) {
    const bool kept =
        words == ~0u || (token / 32 < words && (allowed[token / 32] >> (token % 32) & 1));
    changed[token] = kept ? to_float(logits[token]) : -INFINITY;
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < setting[EDITS]; i += THREADS) {
    const unsigned* edit = edits + 4 * i;
    const float biased = changed[edit[0]] + __uint_as_float(edit[1]), repetition = __uint_as_float(edit[2]);
    changed[edit[0]] = (biased > 0 ? biased / repetition : biased * repetition) - __uint_as_float(edit[3]);
  }
  const float reach = __uint_as_float(setting[REACH]);
  if (reach == INFINITY) return;
  __syncthreads();
  const Row<float> row{changed, size, settings + setting[BANS_AT], setting[BANS], 0, 1};
  float top = -INFINITY;
  row.each([&](unsigned token, float logit) {
    if (row.allowed(token)) top = fmaxf(top, logit);
  });
  top = block_max(top, shared.floats);
  // Elements written by a thread are read by no other.
  row.each([&](unsigned token, float logit) {
    if (top - logit > reach) changed[token] = -INFINITY;
  });
}

// logits [rows, size]; params: a row and a token per block; out [blocks, 2 + 2·most]: status and ln p of the token, then
// the `most` likeliest tokens with their ln p, found with one pass over the row each.
template <class T>
__device__ __forceinline__ void score(const T* logits, const unsigned* params, unsigned* out, unsigned size,
                                      unsigned most) {
  DYNAMIC_SHARED(Shared, all_shared);
  Shared& shared = *all_shared;
  const unsigned at = params[2 * blockIdx.x], token = params[2 * blockIdx.x + 1];
  const Row<T> row{logits + size_t(at) * size, size, params, 0, 0, 1};
  unsigned* result = out + size_t(blockIdx.x) * (2 + 2 * most);
  float top = -INFINITY;
  row.each([&](unsigned, float logit) { top = fmaxf(top, logit); });
  top = block_max(top, shared.floats);
  const float log_sum = log_sum_exp(row.logits, size, top, shared.floats);
  if (threadIdx.x == 0) {
    result[0] = isfinite(log_sum) ? CHOSEN : UNSOUND;
    result[1] = __float_as_uint(to_float(row.logits[token]) - log_sum);
  }
  wide last = ~wide(0);
  for (unsigned i = 0; i < most; ++i) {
    wide best = 0;
    row.each([&](unsigned other, float logit) {
      const wide key = key_of(logit, other);
      if (key < last && key > best) best = key;
    });
    last = block_largest(best, shared);
    if (threadIdx.x == 0) {
      result[2 + 2 * i] = token_of(last);
      result[3 + 2 * i] = __float_as_uint(logit_of(last) - log_sum);
    }
  }
}

}  // namespace

#define EXPORT_FOR(T, suffix)                                                                              \
  EXPORT_BOUNDS(sample_##suffix, THREADS, 2,                                                               \
                (const T* logits, const unsigned* settings, unsigned* out, unsigned size),                 \
                sample<T>(logits, settings, out, size))                                                    \
  EXPORT_BOUNDS(score_##suffix, THREADS, 2,                                                                \
                (const T* logits, const unsigned* params, unsigned* out, unsigned size, unsigned most),    \
                score<T>(logits, params, out, size, most))                                                 \
  EXPORT_BOUNDS(adjust_##suffix, THREADS, 2,                                                               \
                (const T* logits, const unsigned* settings, float* changed, unsigned size),                \
                adjust<T>(logits, settings, changed, size))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
EXPORT_BOUNDS(restrict_logits, THREADS, 2, (float* logits, const unsigned* settings, float* log_sums, unsigned size),
              restrict_row(logits, settings, log_sums, size))
