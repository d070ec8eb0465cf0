// Rows of logits, one per block. Sampling and the later computation of log-probabilities use the same summation order, so
// they are bit-identical.
#pragma once

#include "prelude.cuh"

// Calls f(token, logit) for this thread's tokens in first..end of a row of `size`: every `threads`-th vector or token.
template <class T, class F>
__device__ __forceinline__ void each_logit(const T* logits, unsigned size, unsigned first, unsigned end, unsigned thread,
                                           unsigned threads, F f) {
  constexpr unsigned SIZE = Vector<T>::SIZE;
  if (size % SIZE == 0 && first % SIZE == 0 && end % SIZE == 0) {
#pragma unroll 4
    for (unsigned at = first + thread * SIZE; at < end; at += threads * SIZE) {
      const Vector<T> some = load_vector(logits + at);
#pragma unroll
      for (unsigned i = 0; i < SIZE; ++i) f(at + i, to_float(some.at[i]));
    }
  } else {
#pragma unroll 4
    for (unsigned at = first + thread; at < end; at += threads) f(at, to_float(logits[at]));
  }
}

// The logarithm of the sum of a row's exponentials; `top` is its largest logit. `scratch` as for block_sum.
template <class T>
__device__ __forceinline__ float log_sum_exp(const T* logits, unsigned size, float top, float* scratch) {
  float sum = 0;
  each_logit(logits, size, 0, size, threadIdx.x, blockDim.x, [&](unsigned, float logit) { sum += expf(logit - top); });
  return top + logf(block_sum(sum, scratch));
}
