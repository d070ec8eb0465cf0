// AdamW on flat buffers. A thread updates four elements. Every operation is rounded separately, as in the CPU version,
// so that both give the same bits.
#include "cuda/elements.cuh"


constexpr int N = 4;

// Per-update constants, computed by the host.
struct Step {
  float decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale;
};

// Returns the new parameter and updates m and v.
__device__ __forceinline__ float updated(float p, float g, float& m, float& v, const Step& at) {
  g = __fmul_rn(g, at.scale);
  m = __fadd_rn(__fmul_rn(at.beta1, m), __fmul_rn(at.rest1, g));
  v = __fadd_rn(__fmul_rn(at.beta2, v), __fmul_rn(__fmul_rn(at.rest2, g), g));
  const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), at.root), at.epsilon);
  return __fsub_rn(__fmul_rn(p, at.decay), __fmul_rn(at.rate, __fdiv_rn(m, root)));
}

// The finalizer of SplitMix64.
__device__ __forceinline__ unsigned long long mixed(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Stochastic rounding to bf16: adds sixteen random bits to the truncated bits.
__device__ __forceinline__ bf16 rounded_by_chance(float x, unsigned long long key, unsigned long long element) {
  const unsigned bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return from_float<bf16>(x);
  const unsigned chance = unsigned(mixed(key + element * 0x9e3779b97f4a7c15ull) >> 48);
  // Exact, since the lower half is zero.
  return from_float<bf16>(__uint_as_float((bits + chance) & 0xffff0000u));
}

// All buffers are [count]; views may begin at any element. P is the number format of the updated weights. `rounded` is
// null or receives a bf16 copy. bf16 weights are rounded stochastically; `first` is the index of the buffers' first
// element.
template <class P>
__device__ __forceinline__ void update(P* p, bf16* rounded, const float* g, float* m, float* v,
                                       unsigned long long count, Step step, unsigned long long key,
                                       unsigned long long first) {
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here == 0) return;
  auto weights = load_several<N>(p + at, here);
  auto moments = load_several<N>(m + at, here), squares = load_several<N>(v + at, here);
  const auto gradients = load_several<N>(g + at, here);
  Several<bf16, N> copy = {};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float value = updated(to_float(weights.at[i]), gradients.at[i], moments.at[i], squares.at[i], step);
    if constexpr (std::is_same<P, float>::value) {
      weights.at[i] = value;
      copy.at[i] = from_float<bf16>(value);
    } else {
      weights.at[i] = rounded_by_chance(value, key, first + at + i);
    }
  }
  store_several(p + at, weights, here);
  store_several(m + at, moments, here);
  store_several(v + at, squares, here);
  if (rounded != nullptr) store_several(rounded + at, copy, here);
}

EXPORT_BOUNDS(adamw_f32, 256, 4,
              (float* p, bf16* rounded, const float* g, float* m, float* v, unsigned long long count, float decay,
               float rate, float root, float beta1, float beta2, float rest1, float rest2, float epsilon, float scale),
              (update(p, rounded, g, m, v, count, Step{decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale},
                      0, 0)))
EXPORT_BOUNDS(adamw_stochastic, 256, 4,
              (bf16 * p, const float* g, float* m, float* v, unsigned long long count, float decay, float rate,
               float root, float beta1, float beta2, float rest1, float rest2, float epsilon, float scale,
               unsigned long long key, unsigned long long first),
              (update(p, static_cast<bf16*>(nullptr), g, m, v, count,
                      Step{decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale}, key, first)))
