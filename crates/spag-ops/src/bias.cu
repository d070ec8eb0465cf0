// Biases of linear layers: added to every row, and their gradients. A thread handles 16 bytes of a row.
#include "cuda/elements.cuh"

// y += bias. y [n, o], bias [o]. Block (r, c) handles part c of row r.
template <class T>
__device__ void add(T* y, const T* bias, unsigned o) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, o);
  if (here == 0) return;
  y += size_t(blockIdx.x) * o + at;
  auto values = load_several<N>(y, here);
  const auto more = load_several<N>(bias + at, here);
#pragma unroll
  for (int i = 0; i < N; ++i) values.at[i] = from_float<T>(to_float(values.at[i]) + to_float(more.at[i]));
  store_several(y, values, here);
}

// partial[p] = Σ of the rows p, p + parts, … of dy [n, o]; partial [parts, o], f32. Block (p, c) handles columns c.
template <class T>
__device__ void backward(const T* dy, float* partial, unsigned n, unsigned o) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, o);
  if (here == 0) return;
  Several<float, N> sums = {};
  for (unsigned row = blockIdx.x; row < n; row += gridDim.x) {
    const auto some = load_several<N>(dy + size_t(row) * o + at, here);
#pragma unroll
    for (int i = 0; i < N; ++i) sums.at[i] += to_float(some.at[i]);
  }
  store_several(partial + size_t(blockIdx.x) * o + at, sums, here);
}

#define EXPORT_FOR(T, suffix)                                                                                     \
  EXPORT_BOUNDS(bias_add_##suffix, 256, 8, (T* y, const T* bias, unsigned o), add<T>(y, bias, o))                  \
  EXPORT_BOUNDS(bias_backward_##suffix, 256, 4, (const T* dy, float* partial, unsigned n, unsigned o),             \
                backward<T>(dy, partial, n, o))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
