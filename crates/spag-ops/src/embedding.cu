// Gathers rows of a table, and scatters their gradients. A thread handles 16 bytes of a row.
#include "cuda/elements.cuh"

// y[n] = table[ids[n]]. table [v, d], ids [n], y [n, d]. Block (n, c) copies part c of row n.
template <class T>
__device__ void forward(const T* table, const unsigned* ids, T* y, unsigned d) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, d);
  if (here == 0) return;
  store_several(y + size_t(blockIdx.x) * d + at, load_several<N>(table + size_t(ids[blockIdx.x]) * d + at, here), here);
}

// sums += Σ of dx's rows order[from], order[from + step], …, up to `to`, for the N columns from `at` on.
//
// Four vector loads are in flight at a time to hide memory latency.
template <int N, class T>
__device__ __forceinline__ void add_rows(const T* dx, const unsigned* order, unsigned from, unsigned to, unsigned step,
                                         unsigned d, size_t at, unsigned here, float (&sums)[N]) {
  constexpr int AT_ONCE = 4;
  unsigned k = from;
  if (d % N == 0) {
    for (; k + (AT_ONCE - 1) * step < to; k += AT_ONCE * step) {
      Vector<T> rows[AT_ONCE];
#pragma unroll
      for (int r = 0; r < AT_ONCE; ++r) rows[r] = load_vector(dx + size_t(order[k + r * step]) * d + at);
#pragma unroll
      for (int r = 0; r < AT_ONCE; ++r)
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += to_float(rows[r].at[i]);
    }
  }
  for (; k < to; k += step) {
    const auto row = load_several<N>(dx + size_t(order[k]) * d + at, here);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += to_float(row.at[i]);
  }
}

template <int N, class U>
__device__ __forceinline__ void add_to(U* row, unsigned here, const float (&sums)[N]) {
  auto values = load_several<N>(row, here);
#pragma unroll
  for (int i = 0; i < N; ++i) values.at[i] = from_float<U>(to_float(values.at[i]) + sums[i]);
  store_several(row, values, here);
}

// Run r: the rows order[starts[r]..starts[r + 1]] of dx are added to row ids[r] of dtable [v, d].
//
// For short runs. Block (r, c) handles part c of run r's columns; a thread sums the same columns of all rows, in order.
template <class T, class U>
__device__ void backward(const T* dx, const unsigned* order, const unsigned* starts, const unsigned* ids, U* dtable,
                         unsigned d) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, d);
  if (here == 0) return;
  float sums[N] = {};
  add_rows(dx, order, starts[blockIdx.x], starts[blockIdx.x + 1], 1, d, at, here, sums);
  add_to(dtable + size_t(ids[blockIdx.x]) * d + at, here, sums);
}

// As backward, for long runs: the block's warps split the rows of 32 threads' columns, and the first warp adds the
// partial sums, in order.
template <class T, class U>
__device__ void backward_long(const T* dx, const unsigned* order, const unsigned* starts, const unsigned* ids, U* dtable,
                              unsigned d) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, parts);  // [warps, 32·N]
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  const size_t at = (size_t(blockIdx.y) * WARP + lane) * N;
  const unsigned here = present<N>(at, d);
  float sums[N] = {};
  if (here > 0) add_rows(dx, order, starts[blockIdx.x] + warp, starts[blockIdx.x + 1], warps, d, at, here, sums);
#pragma unroll
  for (int i = 0; i < N; ++i) parts[(warp * N + i) * WARP + lane] = sums[i];
  __syncthreads();
  if (warp > 0 || here == 0) return;
  for (unsigned other = 1; other < warps; ++other) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += parts[(other * N + i) * WARP + lane];
  }
  add_to(dtable + size_t(ids[blockIdx.x]) * d + at, here, sums);
}

#define EXPORT_FORWARD(T, suffix)                                                                                \
  EXPORT_BOUNDS(embedding_forward_##suffix, 256, 4, (const T* table, const unsigned* ids, T* y, unsigned d),     \
                forward<T>(table, ids, y, d))
EXPORT_FORWARD(float, f32)
EXPORT_FORWARD(bf16, bf16)

#define EXPORT_BACKWARD(T, U, suffix)                                                                            \
  EXPORT_BOUNDS(embedding_backward_##suffix, 256, 4,                                                             \
                (const T* dx, const unsigned* order, const unsigned* starts, const unsigned* ids, U* dtable,     \
                 unsigned d),                                                                                    \
                backward(dx, order, starts, ids, dtable, d))                                                     \
  EXPORT_BOUNDS(embedding_backward_long_##suffix, 256, 4,                                                        \
                (const T* dx, const unsigned* order, const unsigned* starts, const unsigned* ids, U* dtable,     \
                 unsigned d),                                                                                    \
                backward_long(dx, order, starts, ids, dtable, d))
EXPORT_BACKWARD(float, float, f32_into_f32)
EXPORT_BACKWARD(bf16, float, bf16_into_f32)
EXPORT_BACKWARD(bf16, bf16, bf16_into_bf16)
