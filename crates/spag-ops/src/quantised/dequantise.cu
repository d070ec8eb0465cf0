// Dequantises weights, for products of many rows. A thread writes 16 bytes.
#include "codes.cuh"

// weights = scale · (code - OFFSET), rounded to T. `count` weights, a multiple of 32.
template <class F, class T>
__device__ void dequantise(const unsigned char* codes, const unsigned char* scales, T* weights, unsigned long long count) {
  constexpr unsigned N = Vector<T>::SIZE;
  const size_t at = first_of_thread<N>();
  if (at >= count) return;
  const float scale = scale_of(scales, at / BLOCK);
  const auto words = *reinterpret_cast<const Several<unsigned, N / 4>*>(codes + F::byte_of(at));
  Vector<T> values;
#pragma unroll
  for (unsigned i = 0; i < N; ++i) {
    const unsigned four = F::codes(words.at[i / 4], unsigned(at % BLOCK + i) / 4);
    values.at[i] = from_float<T>(scale * step<F>(four, i % 4));
  }
  store_vector(weights + at, values);
}

#define EXPORT_FOR(F, format, T, suffix)                                                                                \
  EXPORT_BOUNDS(quantised_dequantise_##format##_##suffix, 256, 4,                                                       \
                (const unsigned char* codes, const unsigned char* scales, T* weights, unsigned long long count),       \
                (dequantise<F, T>(codes, scales, weights, count)))
EXPORT_FOR(Q8_0, q8_0, float, f32)
EXPORT_FOR(Q8_0, q8_0, bf16, bf16)
EXPORT_FOR(Q4_0, q4_0, float, f32)
EXPORT_FOR(Q4_0, q4_0, bf16, bf16)
