// Σ x², in f64 over f32 sums of four elements, always in the same order.
#include "cuda/elements.cuh"

// The sum of `x` over the block, for the first thread; 0 for others. `scratch`: one double per thread.
__device__ __forceinline__ double sum_of_block(double x, double* scratch) {
  scratch[threadIdx.x] = x;
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) scratch[threadIdx.x] += scratch[threadIdx.x + width];
  }
  return threadIdx.x == 0 ? scratch[0] : 0.0;
}

// partial[b] = Σ x² over the vectors of block b, every gridDim.x-th. x [count] may begin at any element. The block size
// must be a power of two.
__device__ void parts(const float* x, double* partial, unsigned long long count) {
  constexpr int N = Vector<float>::SIZE;
  DYNAMIC_SHARED(double, scratch);
  double sum = 0;
  for (size_t at = first_of_thread<N>(); at < count; at += size_t(gridDim.x) * blockDim.x * N) {
    const auto some = load_several<N>(x + at, present<N>(at, count));
    float squares = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) squares += some.at[i] * some.at[i];
    sum += double(squares);
  }
  sum = sum_of_block(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// into[0] += Σ partial, with one block.
__device__ void add(const double* partial, double* into, unsigned count) {
  DYNAMIC_SHARED(double, scratch);
  double sum = 0;
  for (unsigned at = threadIdx.x; at < count; at += blockDim.x) sum += partial[at];
  sum = sum_of_block(sum, scratch);
  if (threadIdx.x == 0) into[0] += sum;
}

EXPORT_BOUNDS(squared_norm_parts, 256, 8, (const float* x, double* partial, unsigned long long count),
              parts(x, partial, count))
EXPORT_BOUNDS(squared_norm_add, 256, 1, (const double* partial, double* into, unsigned count),
              add(partial, into, count))
