// Included by every kernel: number formats, vector loads, reductions.
//
// Conventions. A kernel is a template over its number format T (float or bf16), exported once per format as
// `<op>_<what>_f32` and `<op>_<what>_bf16`. Arithmetic is f32 for every T. Pointers refer to contiguous memory, 16-byte
// aligned unless stated otherwise. Shared memory is dynamic (DYNAMIC_SHARED). The block size is a multiple of 32, and
// all 32 lanes of a warp take part in every warp operation.
#pragma once

#ifdef SPAG_EMULATOR
// In tests the same sources run on a CPU: the emulator provides threads, barriers and warp operations.
#include "emulator.h"
#else
#include <cuda_bf16.h>
#include <cstdint>
#include <type_traits>

using bf16 = __nv_bfloat16;

// A kernel's entry point: name, parameters and body.
#define EXPORT(name, parameters, body) \
  extern "C" __global__ void name parameters { body; }
// EXPORT for blocks of at most `threads` threads, `blocks` of which should fit on a multiprocessor.
#define EXPORT_BOUNDS(name, threads, blocks, parameters, body) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name parameters { body; }

// The block's dynamic shared memory as a `type*`; one per kernel.
#define DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(1024) unsigned char dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(dynamic_shared)
#endif

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) { return x; }
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) { return __float2bfloat16_rn(x); }

// 16 bytes of T, the widest load.
template <class T>
struct alignas(16) Vector {
  static constexpr int SIZE = 16 / sizeof(T);
  T at[SIZE];
};

// For addresses that are always aligned; use load_several and store_several for others.
template <class T>
__device__ __forceinline__ Vector<T> load_vector(const T* from) {
#ifdef SPAG_EMULATOR
  emulator::need_alignment(from, sizeof(Vector<T>));
#endif
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <class T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T>& values) {
#ifdef SPAG_EMULATOR
  emulator::need_alignment(to, sizeof(Vector<T>));
#endif
  *reinterpret_cast<Vector<T>*>(to) = values;
}

// Copies 16 bytes in one access each way. Plain assignment of a Vector<bf16> from shared memory is compiled to several
// accesses.
template <class T>
__device__ __forceinline__ void copy_vector(T* to, const T* from) {
#ifdef SPAG_EMULATOR
  emulator::need_alignment(from, sizeof(uint4));
  emulator::need_alignment(to, sizeof(uint4));
#endif
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, offset));
  return x;
}

// Block reduction: combines all threads' values in a fixed order; every thread gets the result. `scratch`: WARP floats
// of shared memory, reusable after the next barrier.
template <class Reduce>
__device__ __forceinline__ float block_reduce(float x, float nothing, float* scratch, Reduce reduce) {
  x = reduce(x);
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  __syncthreads();
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  return reduce(lane < warps ? scratch[lane] : nothing);
}

__device__ __forceinline__ float block_sum(float x, float* scratch) {
  return block_reduce(x, 0.0f, scratch, [](float y) { return warp_sum(y); });
}

__device__ __forceinline__ float block_max(float x, float* scratch) {
  return block_reduce(x, -INFINITY, scratch, [](float y) { return warp_max(y); });
}
