// Kernels with one bug each, which the emulator must detect, and correct ones.
#include "../../spag-ops/src/cuda/mma.cuh"

// out = in. Correct.
EXPORT(faulty_none, (const float* in, float* out, unsigned n), if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x])

// The last element is never written.
EXPORT(faulty_gap, (const float* in, float* out, unsigned n),
       if (threadIdx.x + 1 < n) out[threadIdx.x] = in[threadIdx.x])

// The element after the last is read.
EXPORT(faulty_read, (const float* in, float* out, unsigned n),
       if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x + 1])

// The element after the last is written.
EXPORT(faulty_write, (const float* in, float* out, unsigned n),
       if (threadIdx.x < n) out[threadIdx.x + 1] = in[threadIdx.x])

// An input is written.
EXPORT(faulty_input, (float* in, float* out, unsigned n), if (threadIdx.x < n) in[threadIdx.x] = out[threadIdx.x] = 0)

// The second warp misses the barrier.
EXPORT(faulty_barrier, (const float* in, float* out, unsigned n), {
  if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 32) __syncthreads();
})

// Half of the lanes shuffle while the other half vote.
EXPORT(faulty_lanes, (const float* in, float* out, unsigned n), {
  const float x = threadIdx.x < n ? in[threadIdx.x] : 0.0f;
  const float y = threadIdx.x % 32 < 16 ? __shfl_xor_sync(ALL_LANES, x, 1) : float(__any_sync(ALL_LANES, x > 0));
  if (threadIdx.x < n) out[threadIdx.x] = y;
})

// An asynchronous copy is read before waiting for it. Four threads copy 16 bytes each.
EXPORT(faulty_copy, (const float* in, float* out, unsigned n), {
  DYNAMIC_SHARED(float, shared);
  if (threadIdx.x < 4) copy_async_16(shared + 4 * threadIdx.x, in + 4 * threadIdx.x, 4 * threadIdx.x < n);
  copy_async_commit();
  __syncthreads();
  if (threadIdx.x < n) out[threadIdx.x] = shared[threadIdx.x];
  __syncthreads();
  copy_async_wait<0>();
})

// A barrier is missing between writing shared memory and reading what the other warp wrote.
EXPORT(faulty_race, (const float* in, float* out, unsigned n), {
  DYNAMIC_SHARED(float, shared);
  shared[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < n) out[threadIdx.x] = shared[(threadIdx.x + 32) % 64];
})

// A barrier is missing between reading shared memory and writing it again.
EXPORT(faulty_reuse, (const float* in, float* out, unsigned n), {
  DYNAMIC_SHARED(float, shared);
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) out[threadIdx.x] = shared[(threadIdx.x + 32) % 64];
  shared[threadIdx.x] = 0;
})

// Lanes of a warp exchange numbers through shared memory with only a shuffle in between.
EXPORT(faulty_warp, (const float* in, float* out, unsigned n), {
  DYNAMIC_SHARED(float, shared);
  shared[threadIdx.x] = in[threadIdx.x];
  const float other = __shfl_xor_sync(ALL_LANES, 1.0f, 1);
  if (threadIdx.x < n) out[threadIdx.x] = other * shared[threadIdx.x ^ 1];
})

// All blocks write the same elements.
EXPORT(faulty_blocks, (const float* in, float* out, unsigned n),
       if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x])

// The same exchanges, ordered by a barrier, a `__syncwarp`, and a barrier before memory is reused. Correct.
EXPORT(faulty_ordered, (const float* in, float* out, unsigned n), {
  DYNAMIC_SHARED(float, shared);
  shared[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  float sum = shared[threadIdx.x ^ 1];
  __syncthreads();
  sum += shared[(threadIdx.x + 32) % 64];
  __syncthreads();
  shared[threadIdx.x] = 0;
  if (threadIdx.x < n) out[threadIdx.x] = sum;
})

// A vector is read from an unaligned input.
EXPORT(faulty_vector, (const float* in, float* out, unsigned n),
       if (threadIdx.x < n) out[threadIdx.x] = load_vector(in).at[0])
