// The rotation of RoPE, of training and of generation.
#pragma once

#include "cuda/elements.cuh"

// Rotates N pairs (a, b) of elements by the angles with these cosines and sines, or backwards with a `sign` of −1.
template <class T, int N>
__device__ __forceinline__ void rotate_pairs(Several<T, N>& a, Several<T, N>& b, const float* cos, const float* sin,
                                             float sign) {
  const auto c = load_several<N>(cos, N), s = load_several<N>(sin, N);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float u = to_float(a.at[k]), v = to_float(b.at[k]), turned = s.at[k] * sign;
    a.at[k] = from_float<T>(u * c.at[k] - v * turned);
    b.at[k] = from_float<T>(v * c.at[k] + u * turned);
  }
}
