// Rounds f32 to bf16: a thread reads 32 bytes and writes 16, or rounds 16 bytes in place.
#include "cuda/elements.cuh"

// narrow = wide, rounded to nearest even. Both are [count]; views may begin at any element.
__device__ void round_into(const float* wide, bf16* narrow, unsigned long long count) {
  constexpr int N = Vector<bf16>::SIZE;
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here == 0) return;
  const auto from = load_several<N>(wide + at, here);
  Several<bf16, N> to;
#pragma unroll
  for (int i = 0; i < N; ++i) to.at[i] = from_float<bf16>(from.at[i]);
  store_several(narrow + at, to, here);
}

// Rounds values [count] to the nearest bf16 numbers, ties to even.
__device__ void round_in_place(float* values, unsigned long long count) {
  constexpr int N = Vector<float>::SIZE;
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here == 0) return;
  auto part = load_several<N>(values + at, here);
#pragma unroll
  for (int i = 0; i < N; ++i) part.at[i] = to_float(from_float<bf16>(part.at[i]));
  store_several(values + at, part, here);
}

EXPORT_BOUNDS(cast_round_into, 256, 4, (const float* wide, bf16* narrow, unsigned long long count),
              round_into(wide, narrow, count))
EXPORT_BOUNDS(cast_round_in_place, 256, 4, (float* values, unsigned long long count), round_in_place(values, count))
