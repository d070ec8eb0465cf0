// RMSNorm, forward and backward. A block handles one row at a time, whose columns its threads hold in registers: up to KEPT
// vectors of 16 bytes each, blockDim.x vectors apart.
#include "cuda/elements.cuh"

// A thread's columns of a row; zeros behind its end. Vectors are held as words: as arrays of bf16, each number would take a register.
template <class T, int KEPT>
struct Part {
  static constexpr int N = Vector<T>::SIZE;
  uint4 words[KEPT];

  // Number j of vector i.
  __device__ __forceinline__ float at(int i, int j) const { return to_float(reinterpret_cast<const T*>(&words[i])[j]); }
};

// Calls f(i, column, count) for each vector of the thread that begins in the row.
template <class T, int KEPT, class F>
__device__ __forceinline__ void for_vectors(unsigned d, F f) {
  constexpr unsigned N = Vector<T>::SIZE;
#pragma unroll
  for (int i = 0; i < KEPT; ++i) {
    const unsigned at = (i * blockDim.x + threadIdx.x) * N;
    if (at < d) f(i, at, min(N, d - at));
  }
}

// `row` [d] may begin at any element; null gives zeros.
template <class T, int KEPT>
__device__ __forceinline__ Part<T, KEPT> load_part(const T* row, unsigned d) {
  constexpr int N = Vector<T>::SIZE;
  Part<T, KEPT> part;
#pragma unroll
  for (int i = 0; i < KEPT; ++i) {
    const unsigned at = (i * blockDim.x + threadIdx.x) * N;
    const unsigned here = row != nullptr ? present<N>(at, d) : 0u;
    const T* from = row + (here > 0 ? at : 0);
    if (here == N && lies_well<T, N>(from)) {
      part.words[i] = *reinterpret_cast<const uint4*>(from);
    } else {
      const auto some = load_several<N>(from, here);
      part.words[i] = *reinterpret_cast<const uint4*>(&some);
    }
  }
  return part;
}

template <class T, int KEPT>
__device__ __forceinline__ float sum_of_squares(const Part<T, KEPT>& x) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < KEPT; ++i) {
#pragma unroll
    for (int j = 0; j < Vector<T>::SIZE; ++j) sum += x.at(i, j) * x.at(i, j);
  }
  return sum;
}

// Adds the sums of warps in `scratch` [warps] in a fixed order, for every thread.
__device__ __forceinline__ float sum_of_warps(const float* scratch) {
  const unsigned lane = threadIdx.x % WARP;
  return warp_sum(lane < blockDim.x / WARP ? scratch[lane] : 0.0f);
}

// y = residual + x / √(mean(x²) + ε) · (w + offset), and copy = x. x, residual (or null), y, copy (or null) [n, d], w [d]; one block
// per row.
template <class T, int KEPT>
__device__ void forward(const T* x, const T* w, const T* residual, T* y, T* copy, unsigned d, float eps, float offset) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, scratch);
  const size_t first = size_t(blockIdx.x) * d;
  const auto row = load_part<T, KEPT>(x + first, d), weights = load_part<T, KEPT>(w, d);
  const auto around = load_part<T, KEPT>(residual != nullptr ? residual + first : nullptr, d);
  const float sum = warp_sum(sum_of_squares<T, KEPT>(row));
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = sum;
  __syncthreads();
  const float r = rsqrtf(sum_of_warps(scratch) / float(d) + eps);
  for_vectors<T, KEPT>(d, [&](int i, unsigned at, unsigned count) {
    Several<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float normed = row.at(i, j) * r * (weights.at(i, j) + offset);
      out.at[j] = from_float<T>(residual != nullptr ? around.at(i, j) + normed : normed);
    }
    store_several(y + first + at, out, count);
    if (copy != nullptr) store_several(copy + first + at, *reinterpret_cast<const Several<T, N>*>(&row.words[i]), count);
  });
}

// A thread's columns of the rows that the backward pass reads.
template <class T, int KEPT>
struct Rows {
  Part<T, KEPT> x, dy, residual;

  static __device__ __forceinline__ Rows load(const T* x, const T* dy, const T* residual, size_t first, unsigned d) {
    return {load_part<T, KEPT>(x + first, d), load_part<T, KEPT>(dy + first, d),
            load_part<T, KEPT>(residual != nullptr ? residual + first : nullptr, d)};
  }
};

// With r = 1/√(mean x² + ε) and w the weight + offset: dx = residual + r·(g·w − x·r²·mean(g·w·x)), and each block's partial
// sum of dw = Σ g·x·r. Also recomputes the output, y = x·r·w, with the bits of the forward pass.
//
// x, dy, residual (or null), dx, y (or null) [n, d]; partial [blocks, d], f32. Block b handles rows b, b + blocks, …, and loads the
// next one while it sums the last. Sums of two rows in turn have places of their own in shared memory, so that a row has one barrier.
template <class T, int KEPT>
__device__ void backward(const T* x, const T* w, const T* dy, const T* residual, T* dx, T* y, float* partial, unsigned n,
                         unsigned d, float eps, float offset) {
  constexpr int N = Vector<T>::SIZE;
  DYNAMIC_SHARED(float, shared);
  const auto weights = load_part<T, KEPT>(w, d);
  float dw[KEPT][N] = {};
  auto next = Rows<T, KEPT>::load(x, dy, residual, size_t(blockIdx.x) * d, d);
  unsigned turn = 0;
  for (unsigned row = blockIdx.x; row < n; row += gridDim.x, turn ^= 1) {
    const size_t first = size_t(row) * d;
    const auto now = next;
    if (n - row > gridDim.x) next = Rows<T, KEPT>::load(x, dy, residual, first + size_t(gridDim.x) * d, d);
    float dot = 0;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j)
        dot += now.dy.at(i, j) * (weights.at(i, j) + offset) * now.x.at(i, j);
    }
    float* scratch = shared + turn * 2 * WARP;
    const float sum = warp_sum(sum_of_squares<T, KEPT>(now.x));
    dot = warp_sum(dot);
    if (threadIdx.x % WARP == 0) {
      scratch[threadIdx.x / WARP] = sum;
      scratch[WARP + threadIdx.x / WARP] = dot;
    }
    __syncthreads();
    const float r = rsqrtf(sum_of_warps(scratch) / float(d) + eps);
    const float c = sum_of_warps(scratch + WARP) * r * r / float(d);
    for_vectors<T, KEPT>(d, [&](int i, unsigned at, unsigned count) {
      Several<T, N> out, again;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float value = now.x.at(i, j), gradient = now.dy.at(i, j);
        const float around = now.residual.at(i, j), factor = weights.at(i, j) + offset;
        dw[i][j] += gradient * value * r;
        out.at[j] = from_float<T>(around + r * (gradient * factor - value * c));
        again.at[j] = from_float<T>(value * r * factor);
      }
      store_several(dx + first + at, out, count);
      if (y != nullptr) store_several(y + first + at, again, count);
    });
  }
  for_vectors<T, KEPT>(d, [&](int i, unsigned at, unsigned count) {
    Several<float, N> sums;
#pragma unroll
    for (int j = 0; j < N; ++j) sums.at[j] = dw[i][j];
    store_several(partial + size_t(blockIdx.x) * d + at, sums, count);
  });
}

// dw += Σ over `parts` rows of partial [parts, d]. A block has WARP columns; its warps add every warps-th row, and their sums are
// added in order. `sums`: one float per thread.
__device__ void sum_parts(const float* partial, float* dw, unsigned parts, unsigned d) {
  DYNAMIC_SHARED(float, sums);
  const unsigned warp = threadIdx.x / WARP, warps = blockDim.x / WARP, column = blockIdx.x * WARP + threadIdx.x % WARP;
  float sum = 0;
  if (column < d) {
#pragma unroll 8
    for (unsigned part = warp; part < parts; part += warps) sum += partial[size_t(part) * d + column];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= d) return;
  float all = 0;
  for (unsigned of = 0; of < warps; ++of) all += sums[of * WARP + threadIdx.x];
  dw[column] += all;
}

// For blocks of at most `threads` threads.
#define EXPORT_FOR(T, suffix, kept, threads)                                                                           \
  EXPORT_BOUNDS(rms_norm_forward_##kept##_##suffix, threads, 1,                                                        \
                (const T* x, const T* w, const T* residual, T* y, T* copy, unsigned d, float eps, float offset),       \
                (forward<T, kept>(x, w, residual, y, copy, d, eps, offset)))                                           \
  EXPORT_BOUNDS(rms_norm_backward_##kept##_##suffix, threads, 1,                                                      \
                (const T* x, const T* w, const T* dy, const T* residual, T* dx, T* y, float* partial, unsigned n,      \
                 unsigned d, float eps, float offset),                                                                 \
                (backward<T, kept>(x, w, dy, residual, dx, y, partial, n, d, eps, offset)))
#define EXPORT_ALL(kept, threads)       \
  EXPORT_FOR(float, f32, kept, threads) \
  EXPORT_FOR(bf16, bf16, kept, threads)
EXPORT_ALL(1, 256)
EXPORT_ALL(2, 512)
EXPORT_ALL(4, 1024)
EXPORT_BOUNDS(rms_norm_sum_parts, 512, 2, (const float* partial, float* dw, unsigned parts, unsigned d),
              sum_parts(partial, dw, parts, d))
