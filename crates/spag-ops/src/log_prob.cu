// Softmax over the vocabulary: log-probabilities of one target per row, and gradients of the logits.
#include "cuda/elements.cuh"
#include "cuda/logits.cuh"

// lse = ln Σ exp(logit), or `given` if that is not NaN, and value = logit[target] − lse of each row. logits [rows, v]; targets, given
// (or null), values, lse [rows].
//
// One block per row, which the second pass reads from the cache.
__device__ void rows(const float* logits, const unsigned* targets, const float* given, float* values, float* lse, unsigned v) {
  DYNAMIC_SHARED(float, scratch);
  logits += size_t(blockIdx.x) * v;
  float whole = given != nullptr ? given[blockIdx.x] : NAN;
  // Uniform over the threads of the block.
  if (!(whole == whole)) {
    float top = -INFINITY;
    each_logit(logits, v, 0, v, threadIdx.x, blockDim.x, [&](unsigned, float logit) { top = fmaxf(top, logit); });
    whole = log_sum_exp(logits, v, block_max(top, scratch), scratch);
  }
  if (threadIdx.x > 0) return;
  lse[blockIdx.x] = whole;
  values[blockIdx.x] = logits[targets[blockIdx.x]] - whole;
}

// The gradient of row r's logits, given that of its log-probability, upstream[r]: upstream·([target] − exp(logit − lse)).
//
// logits, gradients [rows, v]; they may be the same memory if T is float. Block (r, c) handles part c of row r.
template <class T>
__device__ void gradients(const float* logits, const unsigned* targets, const float* lse, const float* upstream,
                          T* gradients, unsigned v) {
  constexpr int N = Vector<T>::SIZE;
  const unsigned at = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, v);
  if (here == 0) return;
  const size_t first = size_t(blockIdx.x) * v + at;
  const float whole = lse[blockIdx.x], gradient = upstream[blockIdx.x];
  const unsigned target = targets[blockIdx.x];
  const auto some = load_several<N>(logits + first, here);
  Several<T, N> out;
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    const float of_target = at + i == target ? gradient : 0.0f;
    out.at[i] = from_float<T>(of_target - gradient * __expf(some.at[i] - whole));
  }
  store_several(gradients + first, out, here);
}

EXPORT_BOUNDS(log_prob_rows, 512, 2,
              (const float* logits, const unsigned* targets, const float* given, float* values, float* lse, unsigned v),
              rows(logits, targets, given, values, lse, v))
#define EXPORT_FOR(T, suffix)                                                                                    \
  EXPORT_BOUNDS(log_prob_gradients_##suffix, 256, 4,                                                             \
                (const float* logits, const unsigned* targets, const float* lse, const float* upstream, T* out,  \
                 unsigned v),                                                                                    \
                gradients<T>(logits, targets, lse, upstream, out, v))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
