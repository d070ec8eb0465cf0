// Row-by-row attention for any number format and head size up to MAX_DIM: simple rather than fast.
//
// A block handles ROWS consecutive rows of one head, one per warp. The other operand is staged in shared memory as f32,
// CHUNK rows at a time: first one dot product per lane, then sums with one element per lane.
#pragma once

#include "tiles.cuh"

namespace attention {

constexpr int ROWS = 8, CHUNK = WARP, MAX_DIM = 256;
// Elements of a row that a lane sums: lane, lane + 32, ….
constexpr int PARTS = MAX_DIM / WARP;

// Odd, so that the same element of different rows is in different banks.
__device__ __forceinline__ int staged_stride(int dim) { return dim | 1; }

// Stages CHUNK rows of `dim` elements with stride `stride`; rows from `present` on become zeros.
template <class T>
__device__ __forceinline__ void stage(float* to, const T* from, size_t stride, unsigned present, int dim) {
  for (int i = threadIdx.x; i < CHUNK * dim; i += blockDim.x) {
    const int row = i / dim, column = i % dim;
    to[row * staged_stride(dim) + column] = unsigned(row) < present ? to_float(from[row * stride + column]) : 0.0f;
  }
}

// Loads a warp's own row, visible to its lanes after the next barrier; zeros if the row is out of range.
template <class T>
__device__ __forceinline__ void stage_own(float* to, const T* from, bool present, int dim) {
  for (int i = threadIdx.x % WARP; i < dim; i += WARP) to[i] = present ? to_float(from[i]) : 0.0f;
}

__device__ __forceinline__ float dot(const float* a, const float* b, int dim) {
  float sum = 0;
  for (int i = 0; i < dim; ++i) sum += a[i] * b[i];
  return sum;
}

// sums = sums·keep + Σ over the staged rows of weight·row.
__device__ __forceinline__ void add_rows(float (&sums)[PARTS], float keep, const float* weights, const float* staged,
                                         int dim) {
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    const int column = part * WARP + int(threadIdx.x % WARP);
    if (column >= dim) continue;
    float sum = sums[part] * keep;
    for (int row = 0; row < CHUNK; ++row) sum += weights[row] * staged[row * staged_stride(dim) + column];
    sums[part] = sum;
  }
}

template <class T>
__device__ __forceinline__ void store_own(T* to, const float (&sums)[PARTS], float factor, int dim) {
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    const int column = part * WARP + int(threadIdx.x % WARP);
    if (column < dim) to[column] = from_float<T>(sums[part] * factor);
  }
}

// The work of a block: rows first..first + count of `item`'s sequence, for one head.
struct Slice {
  Item item;
  unsigned head, first, count;
};

// The grid is [item, head, slice]. An item has `tile` rows.
__device__ __forceinline__ Slice slice_of(const unsigned* work, unsigned heads, unsigned tile) {
  const unsigned slices = tile / ROWS, slice = blockIdx.x % slices, pair = blockIdx.x / slices;
  Slice of = {item_of(work, pair / heads), pair % heads, 0, 0};
  of.first = of.item.first + slice * ROWS;
  of.count = of.first < of.item.end ? min(unsigned(ROWS), of.item.end - of.first) : 0;
  return of;
}

}  // namespace attention
