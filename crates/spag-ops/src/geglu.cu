// GeGLU with the tanh approximation of gelu, forward and backward.
#include "cuda/elements.cuh"

// 2·√(2/π), and the factor of the cubic term.
constexpr float TWICE_ROOT = 1.5957691f, CUBIC = 0.044715f;

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
// gelu(g) = g·(1 + tanh(z/2))/2 = g·sigmoid(z).
__device__ __forceinline__ float argument(float g) { return TWICE_ROOT * (g + CUBIC * g * g * g); }
__device__ __forceinline__ float gate_value(float g) { return g * sigmoid(argument(g)); }
__device__ __forceinline__ float gate_value_and_slope(float g, float& slope) {
  const float s = sigmoid(argument(g)), gelu = g * s;
  slope = s + gelu * (1.0f - s) * (TWICE_ROOT * (1.0f + 3.0f * CUBIC * g * g));
  return gelu;
}

#include "cuda/glu.cuh"

#define EXPORT_FOR(T, suffix)                                                                                          \
  EXPORT_BOUNDS(geglu_forward_##suffix, 256, 4, (const T* gate, const T* up, T* y, unsigned long long count),          \
                forward<T>(gate, up, y, count))                                                                        \
  EXPORT_BOUNDS(geglu_forward_joined_##suffix, 256, 4, (const T* x, T* y, unsigned f), forward_joined<T>(x, y, f))     \
  EXPORT_BOUNDS(geglu_backward_##suffix, 256, 4, (T* gate, T* up, T* dy, unsigned long long count),                    \
                backward<T>(gate, up, dy, count))                                                                \
  EXPORT_BOUNDS(geglu_backward_joined_##suffix, 256, 4, (T* x, T* dy, unsigned f), backward_joined<T>(x, dy, f))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
