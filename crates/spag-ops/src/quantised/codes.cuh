// Quantised weights on a device: rows of blocks of 32 weights, each weight = scale · (code - OFFSET), in separate arrays of codes
// and scales (f16). A unit is 16 bytes of codes; a quad is four consecutive weights.
#pragma once

#include "../cuda/elements.cuh"

#ifndef SPAG_EMULATOR
#include <cuda_fp16.h>
__device__ __forceinline__ float half_to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
#endif

constexpr unsigned BLOCK = 32;

// One byte per code: half a block is a unit.
struct Q8_0 {
  static constexpr unsigned UNIT = 16;
  static constexpr float OFFSET = 128.0f;
  // The byte of weight `at`, the first of a quad.
  static __device__ __forceinline__ size_t byte_of(size_t at) { return at; }
  // The codes of a quad, one byte each, from the word that contains them.
  static __device__ __forceinline__ unsigned codes(unsigned word, unsigned) { return word; }
};

// Byte j of a block holds code j in its low half and code j + 16 in its high half: a block is a unit.
struct Q4_0 {
  static constexpr unsigned UNIT = 32;
  static constexpr float OFFSET = 8.0f;
  static __device__ __forceinline__ size_t byte_of(size_t at) { return at / BLOCK * 16 + at % 16; }
  static __device__ __forceinline__ unsigned codes(unsigned word, unsigned quad) {
    return word >> (quad % 8 / 4 * 4) & 0x0f0f0f0fu;
  }
};

// Code i of a quad minus the offset, exactly. The byte becomes the last bits of 2²³ + code: integer conversions are slow.
template <class F>
__device__ __forceinline__ float step(unsigned codes, unsigned i) {
  return __uint_as_float(__byte_perm(codes, 0x4b000000u, 0x7650u + i)) - (8388608.0f + F::OFFSET);
}

__device__ __forceinline__ float scale_of(const unsigned char* scales, size_t block) {
  return half_to_float(reinterpret_cast<const uint16_t*>(scales)[block]);
}
