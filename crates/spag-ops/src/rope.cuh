// The RoPE rotation shared by training and generation.
#pragma once

#include "cuda/elements.cuh"

// A rotated element of a pair: x·cos + other·sin, rounded explicitly in this order, because a compiler may fuse either product with
// the sum.
__device__ __forceinline__ float turned(float x, float other, float cos, float sin) {
  return fmaf(x, cos, __fmul_rn(other, sin));
}

// Rotates N pairs (a, b) of elements by the angles with these cosines and sines, or by the negative angles if
// `sign` is −1.
template <class T, int N>
__device__ __forceinline__ void rotate_pairs(Several<T, N>& a, Several<T, N>& b, const float* cos, const float* sin,
                                             float sign) {
  const auto c = load_several<N>(cos, N), s = load_several<N>(sin, N);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float u = to_float(a.at[k]), v = to_float(b.at[k]), sine = s.at[k] * sign;
    a.at[k] = from_float<T>(turned(u, v, c.at[k], -sine));
    b.at[k] = from_float<T>(turned(v, u, c.at[k], sine));
  }
}
