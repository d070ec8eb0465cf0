// SwiGLU, forward and backward.
#include "cuda/elements.cuh"

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
__device__ __forceinline__ float gate_value(float g) { return g * sigmoid(g); }
__device__ __forceinline__ float gate_value_and_slope(float g, float& slope) {
  const float s = sigmoid(g), silu = g * s;
  slope = s + silu * (1.0f - s);
  return silu;
}

#include "cuda/glu.cuh"

#define EXPORT_FOR(T, suffix)                                                                                     \
  EXPORT_BOUNDS(swiglu_forward_##suffix, 256, 4, (const T* gate, const T* up, T* y, unsigned long long count),    \
                forward<T>(gate, up, y, count))                                                                    \
  EXPORT_BOUNDS(swiglu_forward_joined_##suffix, 256, 4, (const T* x, T* y, unsigned f), forward_joined<T>(x, y, f)) \
  EXPORT_BOUNDS(swiglu_backward_##suffix, 256, 4, (T* gate, T* up, T* dy, unsigned long long count),              \
                backward<T>(gate, up, dy, count))                                                                \
  EXPORT_BOUNDS(swiglu_backward_joined_##suffix, 256, 4, (T* x, T* dy, unsigned f), backward_joined<T>(x, dy, f))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
