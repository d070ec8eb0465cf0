// Softmax over the vocabulary: log-probabilities of one target per row, and gradients of the logits.
#include "cuda/elements.cuh"

constexpr int LOGITS = 4;  // of a thread at a time: 16 bytes

// The running maximum and Σ exp(value − maximum).
struct Softmax {
  // Finite, to avoid ∞ − ∞.
  float largest = -3.0e38f;
  float sum = 0.0f;
};

// lse = ln Σ exp(logit) and value = logit[target] − lse of each row. logits [rows, v]; targets, values, lse [rows].
//
// One block per row, which is read once; the sum is rescaled when the maximum grows. __expf is accurate enough: its
// error grows with the distance from the maximum, as the term's share in the sum falls.
__device__ void rows(const float* logits, const unsigned* targets, float* values, float* lse, unsigned v) {
  DYNAMIC_SHARED(float, scratch);
  logits += size_t(blockIdx.x) * v;
  Softmax own;
  for (unsigned at = threadIdx.x * LOGITS; at < v; at += blockDim.x * LOGITS) {
    const unsigned here = present<LOGITS>(at, v);
    const auto some = load_several<LOGITS>(logits + at, here);
    float largest = own.largest;
#pragma unroll
    for (unsigned i = 0; i < LOGITS; ++i)
      if (i < here) largest = fmaxf(largest, some.at[i]);
    float sum = own.sum * __expf(own.largest - largest);
#pragma unroll
    for (unsigned i = 0; i < LOGITS; ++i)
      if (i < here) sum += __expf(some.at[i] - largest);
    own.largest = largest;
    own.sum = sum;
  }
  const float largest = block_max(own.largest, scratch);
  const float sum = block_sum(own.sum * __expf(own.largest - largest), scratch);
  if (threadIdx.x > 0) return;
  const float whole = largest + logf(sum);
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
              (const float* logits, const unsigned* targets, float* values, float* lse, unsigned v),
              rows(logits, targets, values, lse, v))
#define EXPORT_FOR(T, suffix)                                                                                    \
  EXPORT_BOUNDS(log_prob_gradients_##suffix, 256, 4,                                                             \
                (const float* logits, const unsigned* targets, const float* lse, const float* upstream, T* out,  \
                 unsigned v),                                                                                    \
                gradients<T>(logits, targets, lse, upstream, out, v))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
