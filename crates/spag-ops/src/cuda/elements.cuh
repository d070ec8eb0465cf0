// Helpers of elementwise kernels on flat memory: each thread handles one vector, the last one possibly partial.
#pragma once

#include "prelude.cuh"

// N values of T; up to 16 bytes are one memory access, more are several.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Several {
  T at[N];
};

// Whether an address is aligned for a Several<T, N>: views may begin at any element.
template <class T, int N>
__device__ __forceinline__ bool lies_well(const T* from) {
#ifdef SPAG_EMULATOR
  // GCC 12 merges the loads of both cases into one of the aligned type.
  return alignof(Several<T, N>) == alignof(T);
#else
  return reinterpret_cast<uintptr_t>(from) % alignof(Several<T, N>) == 0;
#endif
}

// Loads `count` ≤ N values; the rest are zeros.
template <int N, class T>
__device__ __forceinline__ Several<T, N> load_several(const T* from, unsigned count) {
  if (count == N && lies_well<T, N>(from)) return *reinterpret_cast<const Several<T, N>*>(from);
  Several<T, N> values;
#pragma unroll
  for (unsigned i = 0; i < N; ++i) values.at[i] = i < count ? from[i] : from_float<T>(0.0f);
  return values;
}
template <class T, int N>
__device__ __forceinline__ void store_several(T* to, const Several<T, N>& values, unsigned count) {
  if (count == N && lies_well<T, N>(to)) {
    *reinterpret_cast<Several<T, N>*>(to) = values;
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < N; ++i)
    if (i < count) to[i] = values.at[i];
}

// The number of valid values among the N from element `at` on.
template <int N>
__device__ __forceinline__ unsigned present(size_t at, size_t count) {
  return at >= count ? 0 : count - at < N ? unsigned(count - at) : unsigned(N);
}

// Index of this thread's first value.
template <int N>
__device__ __forceinline__ size_t first_of_thread() {
  return (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
}
