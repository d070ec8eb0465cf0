// Warpgroup kernels with one bug each, which the emulator must detect, and a correct one.
#include "../../spag-ops/src/cuda/wgmma.cuh"

namespace {

enum Fault {
  NONE,
  // The consumer reads its sums, or exits, without waiting for its products.
  UNWAITED,
  PENDING,
  // It releases the buffer before the products that read it are complete.
  EARLY,
  // It never releases the buffer.
  KEPT,
  // It does not wait for the buffer.
  UNRECEIVED,
  // Its last warp skips its last product.
  MISSED,
  // Its warps pass different operands.
  DIFFERENT,
  // It does not fence registers, or shared memory, before its products.
  UNFENCED,
  UNSHOWN,
  // Its turn is never given.
  NO_TURN,
  // The left operand in registers changes during a product.
  CHANGED,
};

constexpr int SIZE = 64;

// Starts copying a 64 × 64 matrix to a panel, with 128 threads.
void copy_panel(bf16* to, const bf16* from) {
  for (int at = threadIdx.x % wgmma::GROUP; at < SIZE * SIZE / 8; at += wgmma::GROUP) {
    const int row = at / 8, chunk = at % 8;
    copy_async_16(to + row * SIZE + 8 * ((chunk ^ row) & 7), from + 8 * at, true);
  }
}

// out = the sum of a·bᵀ + a'·b over two rounds; `in` holds a and b of each, and a' is the identity in registers.
template <Fault FAULT>
void rounds(const bf16* in, float* out) {
  DYNAMIC_SHARED(bf16, a);
  bf16* b = a + SIZE * SIZE;
  uint64_t *full = reinterpret_cast<uint64_t*>(b + SIZE * SIZE), *empty = full + 1;
  if (threadIdx.x == 0) {
    wgmma::barrier_init(full, wgmma::GROUP);
    wgmma::barrier_init(empty, wgmma::GROUP / WARP);
  }
  __syncthreads();
  if (threadIdx.x < wgmma::GROUP) {
    if (FAULT != NO_TURN) wgmma::turn_give<2 * wgmma::GROUP>(1);
    for (unsigned round = 0; round < 2; ++round) {
      wgmma::barrier_wait(empty, (round & 1) ^ 1);
      copy_panel(a, in + 2 * round * SIZE * SIZE);
      copy_panel(b, in + (2 * round + 1) * SIZE * SIZE);
      wgmma::barrier_arrive_after_copies(full);
    }
    return;
  }
  wgmma::turn_wait<2 * wgmma::GROUP>(1);
  const int warp = threadIdx.x % wgmma::GROUP / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  float c[SIZE / 8][4], sums[SIZE / 8][4] = {};
  uint32_t left[SIZE / 16][4];
  for (unsigned round = 0; round < 2; ++round) {
    if (FAULT != UNRECEIVED) wgmma::barrier_wait(full, round & 1);
    if (FAULT != UNSHOWN) wgmma::show_to_products();
    for (int k = 0; k < SIZE / 16; ++k)
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * warp + g + 8 * (i % 2), column = 16 * k + 2 * t + 8 * (i / 2);
        left[k][i] = pack_bf16(row == column, row == column + 1);
      }
    if (FAULT != UNFENCED) wgmma::begin();
    for (int k = 0; k < SIZE / 16; ++k) {
      const bf16* from = FAULT == DIFFERENT && warp == 3 ? b : a;
      wgmma::step<SIZE, 0>(c, wgmma::descriptor(from + 16 * k, SIZE), wgmma::descriptor(b + 16 * k, SIZE), k > 0);
    }
    for (int k = 0; k < SIZE / 16; ++k) {
      if (FAULT == MISSED && round == 1 && k == 3 && warp == 3) break;
      wgmma::step<SIZE, 1>(c, left[k], wgmma::descriptor(b + 16 * k * SIZE, SIZE));
    }
    wgmma::commit();
    if (FAULT == CHANGED) left[0][0] = 0;
    if (FAULT == PENDING) return;
    const auto leave = [&] {
      __syncwarp();
      if (lane == 0) wgmma::barrier_arrive(empty);
    };
    if (FAULT == EARLY) leave();
    if (FAULT != UNWAITED) wgmma::wait<0>();
    wgmma::settle(c);
    for (int n = 0; n < SIZE / 8; ++n)
      for (int i = 0; i < 4; ++i) sums[n][i] += c[n][i];
    if (FAULT == UNWAITED) wgmma::wait<0>();
    if (FAULT != KEPT && FAULT != EARLY) leave();
  }
  for (int n = 0; n < SIZE / 8; ++n)
    for (int i = 0; i < 4; ++i) out[(16 * warp + g + 8 * (i / 2)) * SIZE + 8 * n + 2 * t + i % 2] = sums[n][i];
}

}  // namespace

#define EXPORT_FAULT(name, fault) EXPORT(faulty_products_##name, (const bf16* in, float* out), rounds<fault>(in, out))
EXPORT_FAULT(none, NONE)
EXPORT_FAULT(unwaited, UNWAITED)
EXPORT_FAULT(pending, PENDING)
EXPORT_FAULT(early, EARLY)
EXPORT_FAULT(kept, KEPT)
EXPORT_FAULT(unreceived, UNRECEIVED)
EXPORT_FAULT(missed, MISSED)
EXPORT_FAULT(different, DIFFERENT)
EXPORT_FAULT(unfenced, UNFENCED)
EXPORT_FAULT(unshown, UNSHOWN)
EXPORT_FAULT(no_turn, NO_TURN)
EXPORT_FAULT(changed, CHANGED)
