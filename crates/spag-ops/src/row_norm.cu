// Rows divided by their length, forward and backward. A block handles one row; a thread handles 16 bytes of it at a
// time.
#include "cuda/elements.cuh"

// Smallest divisor.
constexpr float SMALLEST = 1e-12f;

// Calls f(column, count) for the thread's columns.
template <class T, class F>
__device__ __forceinline__ void for_columns(unsigned d, F f) {
  constexpr unsigned SIZE = Vector<T>::SIZE;
  for (unsigned at = threadIdx.x * SIZE; at < d; at += blockDim.x * SIZE) f(at, min(SIZE, d - at));
}

// max(length, SMALLEST), propagating NaN.
__device__ __forceinline__ float divisor_of(float length) { return length < SMALLEST ? SMALLEST : length; }

// normed = w / max(|w|, 1e-12), row by row; both [v, d].
template <class T>
__device__ void forward(const T* w, T* normed, unsigned d) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, scratch);
  w += size_t(blockIdx.x) * d;
  normed += size_t(blockIdx.x) * d;
  float sum = 0;
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    const auto some = load_several<N>(w + at, count);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += to_float(some.at[i]) * to_float(some.at[i]);
  });
  const float divisor = divisor_of(sqrtf(block_sum(sum, scratch)));
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    auto some = load_several<N>(w + at, count);
#pragma unroll
    for (int i = 0; i < N; ++i) some.at[i] = from_float<T>(to_float(some.at[i]) / divisor);
    store_several(normed + at, some, count);
  });
}

// dw += (dn − n·(n·dn)) / |w| with n = w/|w|; dn / 1e-12 for rows shorter than that. dn, dw [v, d], f32.
template <class T>
__device__ void backward(const T* w, const float* dn, float* dw, unsigned d) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, scratch);
  w += size_t(blockIdx.x) * d;
  dn += size_t(blockIdx.x) * d;
  dw += size_t(blockIdx.x) * d;
  float squares = 0, dot = 0;
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    const auto some = load_several<N>(w + at, count);
    const auto gradient = load_several<N>(dn + at, count);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float value = to_float(some.at[i]);
      squares += value * value;
      dot += value * gradient.at[i];
    }
  });
  const float length = sqrtf(block_sum(squares, scratch)), product = block_sum(dot, scratch);
  const float along = length < SMALLEST ? 0.0f : product / length / length, divisor = divisor_of(length);
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    const auto some = load_several<N>(w + at, count);
    const auto gradient = load_several<N>(dn + at, count);
    auto sums = load_several<N>(dw + at, count);
#pragma unroll
    for (int i = 0; i < N; ++i) sums.at[i] += (gradient.at[i] - to_float(some.at[i]) * along) / divisor;
    store_several(dw + at, sums, count);
  });
}

#define EXPORT_FOR(T, suffix)                                                                                     \
  EXPORT_BOUNDS(row_norm_forward_##suffix, 256, 4, (const T* w, T* normed, unsigned d), forward<T>(w, normed, d))  \
  EXPORT_BOUNDS(row_norm_backward_##suffix, 256, 4, (const T* w, const float* dn, float* dw, unsigned d),          \
                backward<T>(w, dn, dw, d))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
