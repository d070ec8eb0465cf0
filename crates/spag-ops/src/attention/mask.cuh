// The visibility of keys in addition to causality, as a template parameter of the kernels: those for purely causal
// attention are compiled without windows and ALiBi.
//
// `distance` is the query's position minus the key's.
#pragma once

#include "../cuda/prelude.cuh"

namespace attention {

constexpr float LOG2_E = 1.4426950408889634f;

struct Causal {
  // Whether scores have a bias, and tiles may have rows without visible keys.
  static constexpr bool SPECIAL = false;

  __device__ __forceinline__ unsigned first_key(unsigned) const { return 0; }
  // One past the last query of a sequence of `length` that sees `key`.
  __device__ __forceinline__ unsigned end_of_queries(unsigned, unsigned length) const { return length; }
  __device__ __forceinline__ float slope(unsigned) const { return 0; }
  __device__ __forceinline__ bool hides(int distance) const { return distance < 0; }
  // Whether some pairs are hidden at distances from `nearest` to `farthest`, and whether all are.
  __device__ __forceinline__ bool hides_some(int nearest, int) const { return nearest < 0; }
  __device__ __forceinline__ bool hides_all(int, int farthest) const { return farthest < 0; }
};

// A sliding window of 1 to 2³¹-1 tokens (the maximum means none), and the ALiBi slopes of all query heads or null.
struct Special {
  static constexpr bool SPECIAL = true;
  const float* slopes;
  unsigned window;

  __device__ __forceinline__ unsigned first_key(unsigned position) const {
    return position >= window ? position + 1 - window : 0;
  }
  __device__ __forceinline__ unsigned end_of_queries(unsigned key, unsigned length) const {
    return window < length - key ? key + window : length;
  }
  __device__ __forceinline__ float slope(unsigned head) const { return slopes == nullptr ? 0.0f : slopes[head]; }
  // As unsigned numbers, negative distances exceed every window.
  __device__ __forceinline__ bool hides(int distance) const { return unsigned(distance) >= window; }
  __device__ __forceinline__ bool hides_some(int nearest, int farthest) const {
    return nearest < 0 || farthest >= int(window);
  }
  __device__ __forceinline__ bool hides_all(int nearest, int farthest) const {
    return farthest < 0 || nearest >= int(window);
  }
};

}  // namespace attention
