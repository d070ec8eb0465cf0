// SwiGLU, forward and backward. A thread handles 16 bytes of each tensor.
#include "cuda/elements.cuh"

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

template <class T, int N>
__device__ __forceinline__ Several<T, N> activated(const Several<T, N>& gate, const Several<T, N>& up) {
  Several<T, N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = to_float(gate.at[i]);
    y.at[i] = from_float<T>(g * sigmoid(g) * to_float(up.at[i]));
  }
  return y;
}

// y = silu(gate)·up, all [count].
template <class T>
__device__ void forward(const T* gate, const T* up, T* y, unsigned long long count) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here == 0) return;
  store_several(y + at, activated(load_several<N>(gate + at, here), load_several<N>(up + at, here)), here);
}

// As forward, for x [rows, 2f] with gate and up in adjacent columns; y [rows, f]. Block (r, c) handles part c of row r.
template <class T>
__device__ void forward_joined(const T* x, T* y, unsigned f) {
  constexpr int N = Vector<T>::SIZE;
  const size_t row = blockIdx.x;
  const size_t at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, f);
  if (here == 0) return;
  const T* gate = x + row * 2 * f + at;
  store_several(y + row * f + at, activated(load_several<N>(gate, here), load_several<N>(gate + f, here)), here);
}

// gate and up become their gradients; dy, the gradient of the output, becomes the recomputed output. All are [count].
template <class T>
__device__ void backward(T* gate, T* up, T* dy, unsigned long long count) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here == 0) return;
  auto gates = load_several<N>(gate + at, here), ups = load_several<N>(up + at, here);
  auto gradients = load_several<N>(dy + at, here);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = to_float(gates.at[i]), u = to_float(ups.at[i]), d = to_float(gradients.at[i]);
    const float s = sigmoid(g), silu = g * s;
    gates.at[i] = from_float<T>(d * u * (s + silu * (1.0f - s)));
    ups.at[i] = from_float<T>(d * silu);
    gradients.at[i] = from_float<T>(silu * u);
  }
  store_several(gate + at, gates, here);
  store_several(up + at, ups, here);
  store_several(dy + at, gradients, here);
}

#define EXPORT_FOR(T, suffix)                                                                                     \
  EXPORT_BOUNDS(swiglu_forward_##suffix, 256, 4, (const T* gate, const T* up, T* y, unsigned long long count),    \
                forward<T>(gate, up, y, count))                                                                    \
  EXPORT_BOUNDS(swiglu_forward_joined_##suffix, 256, 4, (const T* x, T* y, unsigned f), forward_joined<T>(x, y, f)) \
  EXPORT_BOUNDS(swiglu_backward_##suffix, 256, 4, (T* gate, T* up, T* dy, unsigned long long count),              \
                backward<T>(gate, up, dy, count))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
