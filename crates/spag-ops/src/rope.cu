// RoPE, in place. A thread rotates as many adjacent elements as fit into 16 bytes.
#include "rope.cuh"

// x [n, width]: in the first pairs / half heads of `dim` elements, element i < half is rotated with element i + half. Row n
// has position positions[n]; cos, sin [positions, half]; `sign` is 1 for the forward pass and −1 for the backward pass. Block
// (n, c) handles part c of row n.
template <class T, int N>
__device__ void turn(T* x, const unsigned* positions, const float* cos, const float* sin, unsigned width, unsigned pairs,
                     unsigned half, unsigned dim, float sign) {
  const unsigned pair = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (pair >= pairs) return;
  const unsigned head = pair / half, i = pair % half;
  const size_t angle = size_t(positions[blockIdx.x]) * half + i;
  T* first = x + size_t(blockIdx.x) * width + head * dim + i;
  T* second = first + half;
  auto a = load_several<N>(first, N), b = load_several<N>(second, N);
  rotate_pairs(a, b, cos + angle, sin + angle, sign);
  store_several(first, a, N);
  store_several(second, b, N);
}

// `vectors`: N adjacent pairs per thread, if `half` is a multiple of N; `single`: one pair per thread.
#define EXPORT_FOR(T, suffix)                                                                                    \
  EXPORT_BOUNDS(rope_vectors_##suffix, 256, 4,                                                                   \
                (T * x, const unsigned* positions, const float* cos, const float* sin, unsigned width,           \
                 unsigned pairs, unsigned half, unsigned dim, float sign),                                       \
                (turn<T, Vector<T>::SIZE>(x, positions, cos, sin, width, pairs, half, dim, sign)))                     \
  EXPORT_BOUNDS(rope_single_##suffix, 256, 4,                                                                    \
                (T * x, const unsigned* positions, const float* cos, const float* sin, unsigned width,           \
                 unsigned pairs, unsigned half, unsigned dim, float sign),                                       \
                (turn<T, 1>(x, positions, cos, sin, width, pairs, half, dim, sign)))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
