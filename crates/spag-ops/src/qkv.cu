// Splits a fused QKV product into queries, keys and values, and joins their gradients, optionally with RoPE.
#include "rope.cuh"

namespace {

// The location of N columns of a row of [n, q_size + 2·kv_size]: their first column in queries, keys or values, which have `size`
// columns.
struct Columns {
  bool is_query, is_value;
  unsigned size, first;

  __device__ Columns(unsigned at, unsigned q_size, unsigned kv_size) {
    is_query = at < q_size;
    is_value = at >= q_size + kv_size;
    size = is_query ? q_size : kv_size;
    first = is_query ? at : is_value ? at - q_size - kv_size : at - q_size;
  }
};

// Writes N columns of a row. Those of queries and keys are rotated as in `rope.cuh`, with `sign` −1 in the backward pass, unless
// `cos` is null. Row n has position positions[n]; cos, sin [positions, half]; heads have `dim` elements. A thread also reads the
// other halves of its pairs.
template <class T, int N>
__device__ void transfer(const T* from, T* to, Columns columns, const unsigned* positions, const float* cos, const float* sin,
                     unsigned half, unsigned dim, float sign) {
  auto x = load_several<N>(from, N);
  const unsigned inside = columns.first % dim;
  if (cos != nullptr && !columns.is_value && inside < 2 * half) {
    const unsigned i = inside % half;
    const bool leads = inside < half;
    const size_t angle = size_t(positions[blockIdx.x]) * half + i;
    const auto other = load_several<N>(leads ? from + half : from - half, N);
    const auto c = load_several<N>(cos + angle, N), s = load_several<N>(sin + angle, N);
    const float turn = leads ? -sign : sign;
#pragma unroll
    for (int k = 0; k < N; ++k) x.at[k] = from_float<T>(turned(to_float(x.at[k]), to_float(other.at[k]), c.at[k], s.at[k] * turn));
  }
  store_several(to, x, N);
}

// Block (n, c) handles part c of row n.
template <class T, int N>
__device__ void split(const T* x, T* q, T* k, T* v, const unsigned* positions, const float* cos, const float* sin,
                      unsigned q_size, unsigned kv_size, unsigned half, unsigned dim) {
  const unsigned at = (blockIdx.y * blockDim.x + threadIdx.x) * N, width = q_size + 2 * kv_size;
  if (at >= width) return;
  const Columns columns(at, q_size, kv_size);
  T* to = (columns.is_query ? q : columns.is_value ? v : k) + size_t(blockIdx.x) * columns.size + columns.first;
  transfer<T, N>(x + size_t(blockIdx.x) * width + at, to, columns, positions, cos, sin, half, dim, 1.0f);
}

template <class T, int N>
__device__ void join(T* x, const T* q, const T* k, const T* v, const unsigned* positions, const float* cos, const float* sin,
                     unsigned q_size, unsigned kv_size, unsigned half, unsigned dim) {
  const unsigned at = (blockIdx.y * blockDim.x + threadIdx.x) * N, width = q_size + 2 * kv_size;
  if (at >= width) return;
  const Columns columns(at, q_size, kv_size);
  const T* from = (columns.is_query ? q : columns.is_value ? v : k) + size_t(blockIdx.x) * columns.size + columns.first;
  transfer<T, N>(from, x + size_t(blockIdx.x) * width + at, columns, positions, cos, sin, half, dim, -1.0f);
}

}  // namespace

// `vectors`: N adjacent columns per thread, if N divides the sizes of queries and keys, and with RoPE `half` and `dim` / 2.
#define EXPORT_OF(how, T, N, suffix)                                                                                    \
  EXPORT_BOUNDS(qkv_split_##how##_##suffix, 256, 4,                                                                     \
                (const T* x, T* q, T* k, T* v, const unsigned* positions, const float* cos, const float* sin,           \
                 unsigned q_size, unsigned kv_size, unsigned half, unsigned dim),                                       \
                (split<T, N>(x, q, k, v, positions, cos, sin, q_size, kv_size, half, dim)))                                  \
  EXPORT_BOUNDS(qkv_join_##how##_##suffix, 256, 4,                                                                      \
                (T * x, const T* q, const T* k, const T* v, const unsigned* positions, const float* cos,                \
                 const float* sin, unsigned q_size, unsigned kv_size, unsigned half, unsigned dim),                     \
                (join<T, N>(x, q, k, v, positions, cos, sin, q_size, kv_size, half, dim)))
#define EXPORT_FOR(T, suffix)                     \
  EXPORT_OF(vectors, T, Vector<T>::SIZE, suffix) \
  EXPORT_OF(single, T, 1, suffix)
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
