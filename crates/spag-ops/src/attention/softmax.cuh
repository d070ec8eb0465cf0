// Online softmax of the rows of a warp's fragments (Milakov and Gimelshein 2018). Shared by all tensor core attention
// kernels: with the same number of keys per step, they give bit-identical rows.
#pragma once

#include "mask.cuh"

namespace attention {

// 2ˣ in one instruction, with a relative error of 2⁻²²; 0 for -∞.
__device__ __forceinline__ float exp2_fast(float x) {
#ifdef SPAG_EMULATOR
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
#endif
}

// A row: the maximum score, and the sum of this thread's exponentials of scale·(score − maximum).
struct RunningRow {
  float top = -INFINITY, sum = 0;

  // Replaces the scores of a step by exponentials: c[n][2·half], c[n][2·half + 1] of all n, of the 4 lanes that share the row.
  // Returns the rescaling factor of earlier sums. scale is 1/√dim·log₂e. With MAYBE_NONE, all scores so far may be -∞; without
  // it, some score is finite.
  template <bool MAYBE_NONE, int N>
  __device__ __forceinline__ float add(float (&scores)[N][4], int half, float scale) {
    float now = top;
#pragma unroll
    for (int n = 0; n < N; ++n) now = fmaxf(now, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 1));
    now = fmaxf(now, __shfl_xor_sync(ALL_LANES, now, 2));
    const float finite = MAYBE_NONE && now == -INFINITY ? 0.0f : now;
    const float keep = exp2_fast((top - finite) * scale), shift = finite * scale;
    float added = 0;
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2_fast(fmaf(scores[n][i], scale, -shift));
        added += scores[n][i];
      }
    sum = fmaf(sum, keep, added);
    top = now;
    return keep;
  }

  // The sum of all lanes' exponentials; once, at the end.
  __device__ __forceinline__ float total() const {
    float all = sum;
    all += __shfl_xor_sync(ALL_LANES, all, 1);
    all += __shfl_xor_sync(ALL_LANES, all, 2);
    return all;
  }
};

// Adds ALiBi to a step's scores of a row, at `distance` from the first of the thread's two keys of column tile 0, and hides pairs.
// `slope` is divided by 1/√dim.
template <class Mask, int N>
__device__ __forceinline__ void mask_scores(float (&scores)[N][4], int half, int distance, float slope, Mask mask) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 2 * half; i < 2 * half + 2; ++i) {
      const int here = distance - (8 * n + i % 2);
      if constexpr (Mask::SPECIAL) scores[n][i] = fmaf(-slope, float(here), scores[n][i]);
      if (mask.hides(here)) scores[n][i] = -INFINITY;
    }
}

}  // namespace attention
