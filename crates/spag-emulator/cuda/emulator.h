// Emulates CUDA threads, barriers and warp operations on one CPU thread, so that kernels run without a GPU.
//
// Every CUDA thread of a block is a fiber that runs until it reaches a warp operation or a barrier. A warp operation takes
// effect when all 32 lanes have reached the same one, a barrier when all threads of the block have. The emulator detects
// errors that a GPU does not report: lanes at different operations, missed barriers, lanes that exit while others wait, reads
// of uninitialized shared memory (filled with NaNs), misaligned vectors, accesses outside an argument (guard page), and races
// (races.h).
// Asynchronous copies take effect as late as possible: when the thread waits for their group. Warpgroup operations are in
// warpgroups.h.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using std::isfinite;
using std::max;
using std::min;

#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) alignas(n)

struct bf16 {
  uint16_t bits;
};
inline float __bfloat162float(bf16 x) {
  uint32_t wide = uint32_t(x.bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}
inline bf16 __float2bfloat16_rn(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(16) int4 { int32_t x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
// Byte i of the result is byte (selector >> 4i) & 7 of the eight of a and b.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= uint32_t(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
}
// Converts f16 bits to float.
inline float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float size = exponent == 31  ? (mantissa == 0 ? INFINITY : NAN)
                     : exponent == 0 ? ldexpf(float(mantissa), -24)
                                     : ldexpf(float(1024 + mantissa), exponent - 25);
  return bits >> 15 ? -size : size;
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __ffs(uint32_t x) { return __builtin_ffs(int(x)); }
inline int __clz(uint32_t x) { return x == 0 ? 32 : __builtin_clz(x); }
inline uint32_t __float_as_uint(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
inline float __uint_as_float(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
inline int __float_as_int(float x) { int u; memcpy(&u, &x, 4); return u; }
inline float __int_as_float(int x) { float f; memcpy(&f, &x, 4); return f; }
inline double __hiloint2double(int high, int low) {
  const uint64_t bits = uint64_t(uint32_t(high)) << 32 | uint32_t(low);
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
// Plain accesses suffice, since only one thread runs at a time. Excluded from the race instrumentation.
template <class T>
__attribute__((no_sanitize("thread"))) inline T atomicAdd(T* at, T x) {
  const T before = *at;
  *at += x;
  return before;
}
template <class T>
inline T __ldg(const T* at) { return *at; }

struct Index3 { unsigned x, y, z; };

namespace emulator {

struct Thread;
Thread& current();
const Index3& thread_index();
const Index3& block_index();
const Index3& block_size();
const Index3& grid_size();
unsigned char* dynamic_shared();

// The operation that a fiber waits for.
enum class Wait {
  Nothing,
  // Of all threads of a block.
  Barrier,
  // Of the lanes of a warp.
  SyncWarp, Shuffle, Ballot, Mma, Matrix, MatrixTransposed, Fence, Commit, Products, Product, TurnWait, TurnGive,
  // Then of several warps: a phase of a barrier in shared memory, a turn, and a product of a warpgroup.
  Phase, Turn, Group
};
// Yields to the other fibers until the operation is complete. `data` is the lane's operand.
void wait(Wait what, void* data);

struct Shuffle { uint32_t value; int source; uint32_t result; };
struct Ballot { int predicate; uint32_t result; };
struct Mma { float* c; const uint32_t* a; uint32_t b[2]; };
struct Matrix { uint32_t* r; const void* row; };

uint32_t shuffle(uint32_t value, int source);
// Stops the launch if an address is not a multiple of `bytes`, as a GPU does with an error of the context.
void need_alignment(const void* at, size_t bytes);
void copy_later(void* to, const void* from, bool present, size_t bytes);
void commit_copies();
void wait_for_copies(int but);

inline uint32_t pack(float low, float high) {
  return uint32_t(__float2bfloat16_rn(low).bits) | uint32_t(__float2bfloat16_rn(high).bits) << 16;
}

// The letter of a parameter's type, matching `kind` in lib.rs for arguments: the pointee's type, in upper case if writable,
// or a number. Other types have a letter that fits no argument.
template <class T>
struct Letter { static constexpr char value = '!'; };
template <class T>
struct Letter<const T*> { static constexpr char value = Letter<T*>::value + ('a' - 'A'); };
template <> struct Letter<float*> { static constexpr char value = 'F'; };
template <> struct Letter<bf16*> { static constexpr char value = 'H'; };
template <> struct Letter<unsigned*> { static constexpr char value = 'U'; };
template <> struct Letter<double*> { static constexpr char value = 'D'; };
template <> struct Letter<long long*> { static constexpr char value = 'I'; };
template <> struct Letter<unsigned char*> { static constexpr char value = 'B'; };
template <> struct Letter<unsigned> { static constexpr char value = '4'; };
template <> struct Letter<unsigned long long> { static constexpr char value = '8'; };
template <> struct Letter<float> { static constexpr char value = '.'; };

// Registers a kernel under its exported name. `parameters` has a letter for each.
struct Kernel {
  Kernel(const char* name, std::string parameters, void (*call)(void*, void**), void* function);
};
template <class... A, size_t... I>
void call_with(void (*function)(A...), void** arguments, std::index_sequence<I...>) {
  function(*static_cast<std::decay_t<A>*>(arguments[I])...);
}
template <class... A>
Kernel export_kernel(const char* name, void (*function)(A...)) {
  return Kernel(
      name, std::string{Letter<A>::value...},
      [](void* f, void** arguments) {
        call_with(reinterpret_cast<void (*)(A...)>(f), arguments, std::index_sequence_for<A...>{});
      },
      reinterpret_cast<void*>(function));
}

}  // namespace emulator

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_size())
#define gridDim (emulator::grid_size())

#define EXPORT(name, parameters, body)       \
  static void name parameters { body; }      \
  static const emulator::Kernel exported_##name = emulator::export_kernel(#name, name);
#define EXPORT_BOUNDS(name, threads, blocks, parameters, body) EXPORT(name, parameters, body)
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(emulator::dynamic_shared())

inline void __syncthreads() { emulator::wait(emulator::Wait::Barrier, nullptr); }
inline void __syncwarp(unsigned = 0xffffffffu) { emulator::wait(emulator::Wait::SyncWarp, nullptr); }
inline void __threadfence() {}
inline int emulated_lane() { return int(emulator::thread_index().x % 32); }
template <class T>
inline T emulated_shuffle(T value, int source) {
  static_assert(sizeof(T) == 4, "shuffles are of 32 bits");
  uint32_t bits;
  memcpy(&bits, &value, 4);
  bits = emulator::shuffle(bits, source);
  memcpy(&value, &bits, 4);
  return value;
}
template <class T>
inline T __shfl_sync(unsigned, T value, int source, int width = 32) {
  const int lane = emulated_lane();
  return emulated_shuffle(value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  (void)width;
  return emulated_shuffle(value, emulated_lane() ^ mask);
}
template <class T>
inline T __shfl_down_sync(unsigned, T value, int delta, int width = 32) {
  const int lane = emulated_lane(), from = lane + delta;
  return emulated_shuffle(value, from / width == lane / width ? from : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned, T value, int delta, int width = 32) {
  const int lane = emulated_lane();
  return emulated_shuffle(value, lane % width >= delta ? lane - delta : lane);
}
inline uint32_t __ballot_sync(unsigned, int predicate) {
  emulator::Ballot ballot{predicate, 0};
  emulator::wait(emulator::Wait::Ballot, &ballot);
  return ballot.result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == 0xffffffffu; }

inline void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulator::Mma mma{c, a, {b0, b1}};
  emulator::wait(emulator::Wait::Mma, &mma);
}
inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  emulator::Matrix matrix{r, row};
  emulator::wait(emulator::Wait::Matrix, &matrix);
}
inline void ldmatrix_x4_transposed(uint32_t (&r)[4], const void* row) {
  emulator::Matrix matrix{r, row};
  emulator::wait(emulator::Wait::MatrixTransposed, &matrix);
}
inline void copy_async_16(void* to, const void* from, bool present) { emulator::copy_later(to, from, present, 16); }
inline void copy_async_4(void* to, const void* from, bool present) { emulator::copy_later(to, from, present, 4); }
inline void copy_async_commit() { emulator::commit_copies(); }
template <int N>
inline void copy_async_wait() {
  emulator::wait_for_copies(N);
}

#include "warpgroups.h"
