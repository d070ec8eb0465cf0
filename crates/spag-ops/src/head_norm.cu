// RMSNorm per head, forward and backward. A warp handles one head at a time; a lane handles the same columns of
// every head, 16 bytes at a time.
#include "cuda/elements.cuh"

// Calls f(column, count) for the lane's columns of a head.
template <class T, class F>
__device__ __forceinline__ void for_columns(unsigned dim, F f) {
  constexpr unsigned SIZE = Vector<T>::SIZE;
  for (unsigned at = threadIdx.x % WARP * SIZE; at < dim; at += WARP * SIZE) f(at, min(SIZE, dim - at));
}

template <class T>
__device__ __forceinline__ float inverse_rms(const T* x, unsigned dim, float eps) {
  constexpr int N = Vector<T>::SIZE;
  float sum = 0;
  for_columns<T>(dim, [&](unsigned at, unsigned count) {
    const auto some = load_several<N>(x + at, count);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += to_float(some.at[i]) * to_float(some.at[i]);
  });
  return rsqrtf(warp_sum(sum) / float(dim) + eps);
}

// y = x / √(mean(x²) + ε) · (w + offset) for `heads` heads of each of the n rows, starting at column `first` of rows of
// `width` elements. x and y may alias. w [dim]. The grid has one warp per head of each row.
template <class T>
__device__ void forward(const T* x, const T* w, T* y, unsigned n, unsigned heads, unsigned dim, unsigned width,
                        unsigned first, float eps, float offset) {
  constexpr int N = Vector<T>::SIZE;
  const size_t index = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / WARP;
  if (index >= size_t(n) * heads) return;
  const size_t start = index / heads * width + first + index % heads * dim;
  const float r = inverse_rms(x + start, dim, eps);
  for_columns<T>(dim, [&](unsigned at, unsigned count) {
    auto some = load_several<N>(x + start + at, count);
    const auto weight = load_several<N>(w + at, count);
#pragma unroll
    for (int i = 0; i < N; ++i)
      some.at[i] = from_float<T>(to_float(some.at[i]) * r * (to_float(weight.at[i]) + offset));
    store_several(y + start + at, some, count);
  });
}

// With r = 1/√(mean x² + ε) and w the weight + offset: dx = r·(g·w − x·r²·mean(g·w·x)), and each block's partial sum of
// dw = Σ g·x·r.
//
// x, dy, dx [count, dim]; partial [blocks, dim], f32. Warps take every (blocks·warps)-th head and accumulate their part
// of dw in shared memory; each element belongs to one lane. At the end they are added in order. A warp's part is
// [N, vectors of a head], so that element i of the vectors of adjacent lanes is in different banks.
template <class T>
__device__ void backward(const T* x, const T* w, const T* dy, T* dx, float* partial, unsigned long long count,
                         unsigned dim, float eps, float offset) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, shared);
  const unsigned warp = threadIdx.x / WARP, warps = blockDim.x / WARP, vectors = (dim + N - 1) / N;
  const auto place = [=](unsigned part, unsigned at, unsigned i) { return (part * N + i) * vectors + at / N; };
  for_columns<T>(dim, [&](unsigned at, unsigned here) {
    for (unsigned i = 0; i < here; ++i) shared[place(warp, at, i)] = 0;
  });
  for (size_t head = size_t(blockIdx.x) * warps + warp; head < count; head += size_t(gridDim.x) * warps) {
    const size_t start = head * dim;
    const float r = inverse_rms(x + start, dim, eps);
    float dot = 0;
    for_columns<T>(dim, [&](unsigned at, unsigned here) {
      const auto v = load_several<N>(x + start + at, here), g = load_several<N>(dy + start + at, here);
      const auto weight = load_several<N>(w + at, here);
#pragma unroll
      for (int i = 0; i < N; ++i) dot += to_float(g.at[i]) * (to_float(weight.at[i]) + offset) * to_float(v.at[i]);
    });
    const float c = warp_sum(dot) * r * r / float(dim);
    for_columns<T>(dim, [&](unsigned at, unsigned here) {
      const auto v = load_several<N>(x + start + at, here), g = load_several<N>(dy + start + at, here);
      const auto weight = load_several<N>(w + at, here);
      Several<T, N> out;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float value = to_float(v.at[i]), gradient = to_float(g.at[i]);
        if (unsigned(i) < here) shared[place(warp, at, i)] += gradient * value * r;
        out.at[i] = from_float<T>(r * (gradient * (to_float(weight.at[i]) + offset) - value * c));
      }
      store_several(dx + start + at, out, here);
    });
  }
  __syncthreads();
  for (unsigned column = threadIdx.x; column < dim; column += blockDim.x) {
    float sum = 0;
    for (unsigned part = 0; part < warps; ++part) sum += shared[place(part, column, column % N)];
    partial[size_t(blockIdx.x) * dim + column] = sum;
  }
}

#define EXPORT_FOR(T, suffix)                                                                                          \
  EXPORT_BOUNDS(head_norm_forward_##suffix, 256, 6,                                                                    \
                (const T* x, const T* w, T* y, unsigned n, unsigned heads, unsigned dim, float eps, float offset),     \
                forward<T>(x, w, y, n, heads, dim, heads * dim, 0, eps, offset))                                       \
  EXPORT_BOUNDS(head_norm_forward_columns_##suffix, 256, 6,                                                            \
                (T* x, const T* w, unsigned n, unsigned heads, unsigned dim, unsigned width, unsigned first,           \
                 float eps, float offset),                                                                             \
                forward<T>(x, w, x, n, heads, dim, width, first, eps, offset))                                         \
  EXPORT_BOUNDS(head_norm_backward_##suffix, 256, 4,                                                                   \
                (const T* x, const T* w, const T* dy, T* dx, float* partial, unsigned long long count,                 \
                 unsigned dim, float eps, float offset),                                                               \
                backward<T>(x, w, dy, dx, partial, count, dim, eps, offset))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
