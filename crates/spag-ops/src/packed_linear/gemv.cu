// Products of few rows with weights in bf16, bound by reading the weights.
#include "../cuda/mma.cuh"

namespace {

constexpr unsigned OUTPUTS = 16;  // of a block
constexpr unsigned ROWS = 8;
constexpr unsigned STEP = 64;  // inputs of a warp at a time

// Eight values that are read once: they leave the L1 cache to x, which every block reads.
__device__ __forceinline__ uint4 load_once(const bf16* from) {
#ifdef SPAG_EMULATOR
  emulator::need_alignment(from, sizeof(uint4));
  return *reinterpret_cast<const uint4*>(from);
#else
  uint4 values;
  asm("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(values.x), "=r"(values.y), "=r"(values.z), "=r"(values.w)
               : "l"(from));
  return values;
#endif
}

__device__ __forceinline__ uint4 load_eight(const bf16* from) {
#ifdef SPAG_EMULATOR
  emulator::need_alignment(from, sizeof(uint4));
#endif
  return *reinterpret_cast<const uint4*>(from);
}

// y = [residual +] x·Wᵀ for W [outputs, inputs] and x [rows, inputs], rows ≤ 8; inputs are a multiple of 8. `residual`, which may be y
// itself, [rows, outputs] or null; the result is written to y, or to wide if it is not null, [rows, outputs]. Shared memory: W·16·8
// floats for W warps. Block b computes outputs 16·b...
//
// Outputs are the rows of A of a tensor core's product and rows of x the columns of B, so that each weight is read once, by one
// lane, with 15 others of its cache line. Which inputs are multiplied together does not matter if A and B have the same:
// lane (g, t) reads inputs 8t… of a half step for both, four at a time as columns 2t and 2t + 8.
// Warp w sums steps w, w + W, … and the warps' sums are added in their order. A row's result depends on its own column of B alone.
__device__ void gemv(const bf16* weights, const bf16* x, const bf16* residual, bf16* y, float* wide, unsigned outputs,
                     unsigned inputs, unsigned rows) {
  DYNAMIC_SHARED(float, sums);
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  const unsigned g = lane / 4, t = lane % 4, first = blockIdx.x * OUTPUTS;
  // Outputs after the last repeat it and are not written; rows after the last are zeros.
  const bf16* low = weights + size_t(min(first + g, outputs - 1)) * inputs;
  const bf16* high = weights + size_t(min(first + g + 8, outputs - 1)) * inputs;
  const bf16* row = x + size_t(min(g, rows - 1)) * inputs;
  float c[4] = {};
#pragma unroll 2
  for (unsigned begin = warp * STEP; begin < inputs; begin += warps * STEP) {
    uint4 a[2][2] = {}, b[2] = {};
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned at = begin + half * STEP / 2 + 8 * t;
      if (at >= inputs) continue;
      a[half][0] = load_once(low + at);
      a[half][1] = load_once(high + at);
      if (g < rows) b[half] = load_eight(row + at);
    }
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const uint4 &l = a[half][0], &h = a[half][1];
      const uint32_t even[4] = {l.x, h.x, l.y, h.y}, odd[4] = {l.z, h.z, l.w, h.w};
      mma_16x8x16(c, even, b[half].x, b[half].y);
      mma_16x8x16(c, odd, b[half].z, b[half].w);
    }
  }
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) sums[(warp * OUTPUTS + g + i / 2 * 8) * ROWS + 2 * t + i % 2] = c[i];
  __syncthreads();
  const unsigned output = threadIdx.x % OUTPUTS, of = threadIdx.x / OUTPUTS;
  if (of >= rows || first + output >= outputs) return;
  float sum = 0.0f;
  for (unsigned w = 0; w < warps; ++w) sum += sums[(w * OUTPUTS + output) * ROWS + of];
  const size_t at = size_t(of) * outputs + first + output;
  if (residual != nullptr) sum = to_float(residual[at]) + sum;
  if (wide != nullptr) {
    wide[at] = sum;
  } else {
    y[at] = from_float<bf16>(sum);
  }
}

}  // namespace

EXPORT_BOUNDS(packed_linear_gemv_bf16, 256, 4,
              (const bf16* weights, const bf16* x, const bf16* residual, bf16* y, float* wide, unsigned outputs,
               unsigned inputs, unsigned rows),
              gemv(weights, x, residual, y, wide, outputs, inputs, rows))
