// Products of few rows with quantised weights, bound by reading the codes.
#include "codes.cuh"

// The position of quad `quad` of unit `unit` of a tile of x in shared memory, in quads: equal quads of the units of all lanes are
// contiguous, so that lanes read from different banks.
template <class F>
__device__ __forceinline__ unsigned place(unsigned unit, unsigned quad) {
  return unit / WARP * (F::UNIT / 4 * WARP) + quad * WARP + unit % WARP;
}

// Loads four aligned values from shared memory in one access.
__device__ __forceinline__ void load_quad(float (&to)[4], const float* from) {
  const float4 quad = *reinterpret_cast<const float4*>(from);
  to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
}
__device__ __forceinline__ void load_quad(float (&to)[4], const bf16* from) {
  const uint2 quad = *reinterpret_cast<const uint2*>(from);
  to[0] = __uint_as_float(quad.x << 16), to[1] = __uint_as_float(quad.x & 0xffff0000u);
  to[2] = __uint_as_float(quad.y << 16), to[3] = __uint_as_float(quad.y & 0xffff0000u);
}

// y = residual + x·Wᵀ for W [outputs, inputs], as codes and scales. x [rows, inputs]; residual [rows, outputs], y itself or null; the
// result is written to y, or to wide if that is not null, [rows, outputs]. Shared memory [M, tile]; tile is a multiple of 1024.
//
// A warp computes R outputs of M rows of x. Blocks with the same outputs are adjacent. Lane l multiplies units l, l + 32, …: it sums
// the products of a unit in order, then adds scale · sum to its sum of the row; the lanes' sums are added last. This order does not
// depend on M, on the tile or on other rows.
template <class F, class T, int M, int R>
__device__ void gemv(const unsigned char* codes, const unsigned char* scales, const T* x, const T* residual, T* y, float* wide,
                     unsigned outputs, unsigned inputs, unsigned rows, unsigned tile) {
  constexpr unsigned N = Vector<T>::SIZE, QUADS = F::UNIT / 4;
  // Units in flight per lane: 4 or more loads of 16 bytes.
  constexpr int UNROLL = R < 4 ? 2 : 1;
  DYNAMIC_SHARED(T, shared);
  const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, groups = (rows + M - 1) / M;
  const unsigned first_row = blockIdx.x % groups * M;
  const unsigned first = (blockIdx.x / groups * (blockDim.x / WARP) + warp) * R;
  const size_t units = inputs / F::UNIT;
  float sums[R][M] = {};
  for (unsigned begin = 0; begin < inputs; begin += tile) {
    const unsigned size = min(tile, inputs - begin), count = size / F::UNIT;
    __syncthreads();
    for (unsigned m = 0; m < M; ++m) {
      const bool present = first_row + m < rows;
      const T* from = x + (present ? size_t(first_row + m) * inputs + begin : 0);
      for (unsigned at = threadIdx.x * N; at < size; at += blockDim.x * N) {
        const auto values = load_several<N>(from + at, present ? N : 0u);
#pragma unroll
        for (unsigned i = 0; i < N; i += 4) {
          Several<T, 4> quad;
#pragma unroll
          for (unsigned j = 0; j < 4; ++j) quad.at[j] = values.at[i + j];
          T* to = shared + m * tile + 4 * place<F>((at + i) / F::UNIT, (at + i) % F::UNIT / 4);
          *reinterpret_cast<Several<T, 4>*>(to) = quad;
        }
      }
    }
    __syncthreads();
#pragma unroll UNROLL
    for (unsigned chunk = 0; chunk < count; chunk += WARP) {
      // Lanes after the last unit and warps after the last output repeat the last one with a scale of 0, and write
      // nothing.
      const unsigned unit = min(chunk + lane, count - 1);
      const bool present = chunk + lane < count;
      Vector<unsigned> words[R];
      float scale[R];
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const size_t at = min(first + r, outputs - 1) * units + begin / F::UNIT + unit;
        words[r] = load_vector(reinterpret_cast<const unsigned*>(codes) + 4 * at);
        scale[r] = present ? scale_of(scales, at * F::UNIT / BLOCK) : 0.0f;
      }
      float parts[R][M] = {};
#pragma unroll
      for (unsigned quad = 0; quad < QUADS; ++quad) {
        float steps[R][4];
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const unsigned four = F::codes(words[r].at[quad % 4], quad);
#pragma unroll
          for (unsigned i = 0; i < 4; ++i) steps[r][i] = step<F>(four, i);
        }
#pragma unroll
        for (int m = 0; m < M; ++m) {
          float values[4];
          load_quad(values, shared + m * tile + 4 * place<F>(unit, quad));
#pragma unroll
          for (int r = 0; r < R; ++r)
#pragma unroll
            for (unsigned i = 0; i < 4; ++i) parts[r][m] = fmaf(steps[r][i], values[i], parts[r][m]);
        }
      }
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int m = 0; m < M; ++m) sums[r][m] = fmaf(scale[r], parts[r][m], sums[r][m]);
    }
  }
  // Lane r·M + m writes output r of row m.
  float sum = 0.0f;
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const float all = warp_sum(sums[r][m]);
      if (lane == unsigned(r * M + m)) sum = all;
    }
  const unsigned row = first_row + lane % M, output = first + lane / M;
  if (lane >= unsigned(R * M) || row >= rows || output >= outputs) return;
  const size_t at = size_t(row) * outputs + output;
  if (residual != nullptr) sum = to_float(residual[at]) + sum;
  if (wide != nullptr) {
    wide[at] = sum;
  } else {
    y[at] = from_float<T>(sum);
  }
}

#define EXPORT_ROWS(F, format, T, suffix, M, R, blocks)                                                                    \
  EXPORT_BOUNDS(quantised_gemv_##format##_##suffix##_##M, 256, blocks,                                                      \
                (const unsigned char* codes, const unsigned char* scales, const T* x, const T* residual, T* y, float* wide, \
                 unsigned outputs, unsigned inputs, unsigned rows, unsigned tile),                                          \
                (gemv<F, T, M, R>(codes, scales, x, residual, y, wide, outputs, inputs, rows, tile)))
#define EXPORT_FOR(F, format, T, suffix)         \
  EXPORT_ROWS(F, format, T, suffix, 1, 2, 4)     \
  EXPORT_ROWS(F, format, T, suffix, 2, 2, 4)     \
  EXPORT_ROWS(F, format, T, suffix, 4, 4, 2)     \
  EXPORT_ROWS(F, format, T, suffix, 8, 4, 2)
EXPORT_FOR(Q8_0, q8_0, float, f32)
EXPORT_FOR(Q8_0, q8_0, bf16, bf16)
EXPORT_FOR(Q4_0, q4_0, float, f32)
EXPORT_FOR(Q4_0, q4_0, bf16, bf16)
