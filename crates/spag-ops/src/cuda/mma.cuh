// Tensor cores and asynchronous copies (compute capability 8.0 and newer).
//
// Fragments of a warp, with g = lane / 4, t = lane % 4, two bf16 per register, the lower half first:
//   A (16×16, row major): a[0] = rows g, columns 2t..; a[1] = rows g+8; a[2] = rows g, columns 2t+8..; a[3] = g+8,
// 2t+8..
//   B (16×8, column major): b[0] = rows 2t.., column g; b[1] = rows 2t+8.., column g
//   C (16×8, f32): c[0], c[1] = row g, columns 2t, 2t+1; c[2], c[3] = row g+8
#pragma once

#include "prelude.cuh"

#ifndef SPAG_EMULATOR
// c += a·b.
__device__ __forceinline__ void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads four 8×8 matrices of 16-bit elements from shared memory. Lane 8·i + r provides the address of row r of matrix i
// (16 bytes, aligned); register i of a lane receives elements 2t, 2t+1 of row g of matrix i.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// As ldmatrix_x4, with each matrix transposed: register i receives elements (2t, g) and (2t+1, g).
__device__ __forceinline__ void ldmatrix_x4_transposed(uint32_t (&r)[4], const void* row) {
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Starts an asynchronous copy of 16 bytes from global to shared memory. If `present` is false, zeros are written and
// `from` is not read.
__device__ __forceinline__ void copy_async_16(void* to, const void* from, bool present) {
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  int bytes = present ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

// As copy_async_16, with 4 bytes.
__device__ __forceinline__ void copy_async_4(void* to, const void* from, bool present) {
  uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  int bytes = present ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

// Ends a group of copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most N of this thread's latest groups are pending. Other threads see the data after a barrier.
template <int N>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}
#endif

// Rounds two floats into one register, the first in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
#ifdef SPAG_EMULATOR
  return emulator::pack(low, high);
#else
  __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&both);
#endif
}
