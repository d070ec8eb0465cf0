// RMSNorm, forward and backward. A block handles one row at a time; a thread handles the same columns of every row.
#include "cuda/elements.cuh"

// Calls f(column, count) for the thread's columns: 16 bytes at a time if rows are multiples of 16 bytes, else single
// elements. Weights are views of a layer at any alignment.
template <class T, class F>
__device__ __forceinline__ void for_columns(unsigned d, F f) {
  constexpr unsigned SIZE = Vector<T>::SIZE;
  if (d % SIZE == 0) {
    for (unsigned at = threadIdx.x * SIZE; at < d; at += blockDim.x * SIZE) f(at, SIZE);
  } else {
    for (unsigned at = threadIdx.x; at < d; at += blockDim.x) f(at, 1u);
  }
}

template <class T>
__device__ __forceinline__ float inverse_rms(const T* x, unsigned d, float eps, float* scratch) {
  constexpr int N = Vector<T>::SIZE;
  float sum = 0;
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    const auto v = load_several<N>(x + at, count);
    for (unsigned i = 0; i < count; ++i) sum += to_float(v.at[i]) * to_float(v.at[i]);
  });
  return rsqrtf(block_sum(sum, scratch) / float(d) + eps);
}

// y = residual + x / √(mean(x²) + ε) · (w + offset), and copy = x. x, residual (or null), y, copy (or null) [n, d], w [d]; one block
// per row.
template <class T>
__device__ void forward(const T* x, const T* w, const T* residual, T* y, T* copy, unsigned d, float eps, float offset) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, scratch);
  x += size_t(blockIdx.x) * d;
  y += size_t(blockIdx.x) * d;
  if (residual != nullptr) residual += size_t(blockIdx.x) * d;
  if (copy != nullptr) copy += size_t(blockIdx.x) * d;
  const float r = inverse_rms(x, d, eps, scratch);
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    const auto v = load_several<N>(x + at, count), weight = load_several<N>(w + at, count);
    Several<T, N> out;
    if (residual != nullptr) out = load_several<N>(residual + at, count);
    for (unsigned i = 0; i < count; ++i) {
      const float normed = to_float(v.at[i]) * r * (to_float(weight.at[i]) + offset);
      out.at[i] = from_float<T>(residual != nullptr ? to_float(out.at[i]) + normed : normed);
    }
    store_several(y + at, out, count);
    if (copy != nullptr) store_several(copy + at, v, count);
  });
}

// With r = 1/√(mean x² + ε) and w the weight + offset: dx = residual + r·(g·w − x·r²·mean(g·w·x)), and each block's partial
// sum of dw = Σ g·x·r. Also recomputes the output, y = x·r·w.
//
// x, dy, residual (or null), dx, y (or null) [n, d]; partial [blocks, d], f32. Block b handles rows b, b + blocks, …, and
// accumulates its part of dw in shared memory [d]; each element belongs to one thread. Element i of the vectors of adjacent
// threads is adjacent there, so that they are in different banks.
template <class T>
__device__ void backward(const T* x, const T* w, const T* dy, const T* residual, T* dx, T* y, float* partial, unsigned n,
                         unsigned d, float eps, float offset) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, shared);
  float *scratch = shared, *dw = shared + WARP;
  const unsigned vectors = d / N;
  const auto place = [=](unsigned at, unsigned i) { return d % N == 0 ? i * vectors + at / N : at; };
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    for (unsigned i = 0; i < count; ++i) dw[place(at, i)] = 0;
  });
  for (unsigned row = blockIdx.x; row < n; row += gridDim.x) {
    const size_t first = size_t(row) * d;
    const float r = inverse_rms(x + first, d, eps, scratch);
    float dot = 0;
    for_columns<T>(d, [&](unsigned at, unsigned count) {
      const auto v = load_several<N>(x + first + at, count), g = load_several<N>(dy + first + at, count);
      const auto weight = load_several<N>(w + at, count);
      for (unsigned i = 0; i < count; ++i) dot += to_float(g.at[i]) * (to_float(weight.at[i]) + offset) * to_float(v.at[i]);
    });
    const float c = block_sum(dot, scratch) * r * r / float(d);
    for_columns<T>(d, [&](unsigned at, unsigned count) {
      const auto v = load_several<N>(x + first + at, count), g = load_several<N>(dy + first + at, count);
      const auto weight = load_several<N>(w + at, count);
      Several<T, N> out, again;
      if (residual != nullptr) out = load_several<N>(residual + first + at, count);
      for (unsigned i = 0; i < count; ++i) {
        const float value = to_float(v.at[i]), gradient = to_float(g.at[i]);
        const float around = residual != nullptr ? to_float(out.at[i]) : 0.0f;
        dw[place(at, i)] += gradient * value * r;
        const float factor = to_float(weight.at[i]) + offset;
        out.at[i] = from_float<T>(around + r * (gradient * factor - value * c));
        again.at[i] = from_float<T>(value * r * factor);
      }
      store_several(dx + first + at, out, count);
      if (y != nullptr) store_several(y + first + at, again, count);
    });
  }
  for_columns<T>(d, [&](unsigned at, unsigned count) {
    for (unsigned i = 0; i < count; ++i) partial[size_t(blockIdx.x) * d + at + i] = dw[place(at, i)];
  });
}

// dw += Σ over `parts` rows of partial, in order.
__device__ void sum_parts(const float* partial, float* dw, unsigned parts, unsigned d) {
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= d) return;
  float sum = 0;
  for (unsigned part = 0; part < parts; ++part) sum += partial[size_t(part) * d + column];
  dw[column] += sum;
}

#define EXPORT_FOR(T, suffix)                                                                                          \
  EXPORT_BOUNDS(rms_norm_forward_##suffix, 256, 4,                                                                     \
                (const T* x, const T* w, const T* residual, T* y, T* copy, unsigned d, float eps, float offset),       \
                forward<T>(x, w, residual, y, copy, d, eps, offset))                                                   \
  EXPORT_BOUNDS(rms_norm_backward_##suffix, 256, 2,                                                                    \
                (const T* x, const T* w, const T* dy, const T* residual, T* dx, T* y, float* partial, unsigned n,      \
                 unsigned d, float eps, float offset),                                                                 \
                backward<T>(x, w, dy, residual, dx, y, partial, n, d, eps, offset))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
EXPORT_BOUNDS(rms_norm_sum_parts, 256, 4, (const float* partial, float* dw, unsigned parts, unsigned d),
              sum_parts(partial, dw, parts, d))
