// Warpgroup products (wgmma) and barriers of warp-specialized kernels, for compute capability 9.0 with sm_90a features.
//
// A warpgroup is 4 warps whose first index is a multiple of 4. Its products read operands from shared memory in the 128-byte
// swizzle: panels of 64 columns, [rows, 64] bf16, whose 16-byte chunks of row r are permuted by r % 8. A panel begins at a
// multiple of 1024 bytes. Fragments are those of mma.cuh for the warp's 16 of the warpgroup's 64 rows.
#pragma once

#include "mma.cuh"

namespace wgmma {

constexpr int GROUP = 4 * WARP;
// Columns of a panel.
constexpr int PANEL = 64;

#ifndef SPAG_EMULATOR
// Descriptor of an operand in panels of `rows` rows (PTX ISA, matrix descriptor): bits 0–13 the address, 16–29 the stride of
// panels, 32–45 that of 8 rows, each in units of 16 bytes; 62–63 the swizzle.
__device__ __forceinline__ uint64_t descriptor(const bf16* at, int rows) {
  const uint64_t address = (static_cast<uint32_t>(__cvta_generic_to_shared(at)) & 0x3ffff) >> 4;
  return address | uint64_t(rows * PANEL * 2 / 16) << 16 | uint64_t(8 * PANEL * 2 / 16) << 32 | uint64_t(1) << 62;
}

#define WGMMA_4(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define WGMMA_16(c, n) WGMMA_4(c, n), WGMMA_4(c, n + 1), WGMMA_4(c, n + 2), WGMMA_4(c, n + 3)
#define WGMMA_32(c) WGMMA_16(c, 0), WGMMA_16(c, 4)
#define WGMMA_64(c) WGMMA_32(c), WGMMA_16(c, 8), WGMMA_16(c, 12)
#define WGMMA_NAMES_32                                                                                              \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
  "%30,%31"
#define WGMMA_NAMES_64                                                                                                 \
  WGMMA_NAMES_32                                                                                                       \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
  "%60,%61,%62,%63"

// c = [c +] a·b for 64 rows of a and N columns of b, 16 deep. TRANSPOSED: b is stored with adjacent columns
// contiguous.
template <int N, int TRANSPOSED>
__device__ __forceinline__ void step(float (&c)[N / 8][4], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 128, "columns");
  if constexpr (N == 64)
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " WGMMA_NAMES_32 "}, %32, %33, p, 1, 1, 0, %35;}\n"
                 : WGMMA_32(c)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSED));
  else
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " WGMMA_NAMES_64 "}, %64, %65, p, 1, 1, 0, %67;}\n"
                 : WGMMA_64(c)
                 : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSED));
}

// c += a·b with a in registers.
template <int N, int TRANSPOSED>
__device__ __forceinline__ void step(float (&c)[N / 8][4], const uint32_t (&a)[4], uint64_t b) {
  static_assert(N == 64 || N == 128, "columns");
  if constexpr (N == 64)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " WGMMA_NAMES_32
                 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, %37;\n"
                 : WGMMA_32(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TRANSPOSED));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " WGMMA_NAMES_64
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, %69;\n"
                 : WGMMA_64(c)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TRANSPOSED));
}

// Orders registers and shared memory before subsequent products.
__device__ __forceinline__ void begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
// Ends a group of products.
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
// Waits until at most PENDING of the latest groups are pending.
template <int PENDING>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from moving reads or writes of sums across this point.
template <int N>
__device__ __forceinline__ void settle(float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i])::"memory");
}

// Barriers in shared memory. One thread initializes them with the number of arrivals of a phase.
__device__ __forceinline__ void barrier_init(uint64_t* barrier, unsigned arrivals) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(address), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}\n" ::"r"(address) : "memory");
}
// Arrives when all copies that this thread has started are complete.
__device__ __forceinline__ void barrier_arrive_after_copies(uint64_t* barrier) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(address) : "memory");
}
// Waits for the end of the phase with this parity.
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, unsigned parity) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni ended;\n"
      "bra.uni again;\n"
      "ended: }\n" ::"r"(address), "r"(parity) : "memory");
}
// Makes copies to shared memory by other threads, whose barrier this thread has waited for, visible to products.
__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// Turns of warpgroups: waits for the turn `id`, which another warpgroup gives. THREADS counts both warpgroups.
template <int THREADS>
__device__ __forceinline__ void turn_wait(int id) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "n"(THREADS) : "memory");
}
template <int THREADS>
__device__ __forceinline__ void turn_give(int id) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "n"(THREADS) : "memory");
}

// Registers per thread of the warpgroup from here on.
template <int COUNT>
__device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT)); }
template <int COUNT>
__device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT)); }
#endif

}  // namespace wgmma
