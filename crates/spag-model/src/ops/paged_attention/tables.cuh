// What a pass over the layers tells the kernels of paged attention, and what they have in common.
//
// `table` is one tensor of u32, made once a pass; a kernel gets nothing by value that changes from pass to pass but the
// number of splits. Blocks beyond the counts do nothing, so that a grid may be larger than what the table asks for.
//   [0] rows   [1] decoding rows   [2] tiles   [3], [4], [5] where the three lists begin   [6], [7] unused
//   a row: its page (2³²-1: another row writes the same), its place in the page
//   a decoding row: its row in the batch, the keys that it sees, where its sequence's pages begin in the table, unused
//   a tile: its first row in the batch, its rows, the position of the first, where its sequence's pages begin
//
// A page of keys or values lies by KV head, token, place in the head.
#pragma once

#include "../cuda/prelude.cuh"

namespace paged {

enum : unsigned { ROWS = 0, DECODING = 1, TILES = 2 };

// Entry `index` of a list of `width` numbers each; nullptr beyond its end.
__device__ __forceinline__ const unsigned* entry(const unsigned* table, unsigned list, unsigned index, unsigned width) {
  return index < table[list] ? table + table[3 + list] + size_t(index) * width : nullptr;
}

// Keys are shared out among splits, and copied, in stripes of 16.
constexpr unsigned STRIPE = 16;
// Stripes of a split at least: shorter ones would cost more to add up than they save.
constexpr unsigned LEAST_STRIPES = 4;

// Stripes of each split of a row that sees `seen` keys; the last ones may have fewer, or none.
__device__ __forceinline__ unsigned stripes_of_split(unsigned seen, unsigned splits) {
  const unsigned stripes = (seen + STRIPE - 1) / STRIPE, each = (stripes + splits - 1) / splits;
  return each > LEAST_STRIPES ? each : LEAST_STRIPES;
}

// What splits leave of a row's query head: the largest score (times log₂e), the sum of the exponentials, and with them
// the sum of the values, [decoding rows, heads, splits, 2] and [decoding rows, heads, splits, dim].
struct Partial {
  float *largest_and_sum, *values;
};
__device__ __forceinline__ Partial partial_of(float* stats, float* sums, unsigned index, unsigned heads, unsigned head,
                                              unsigned splits, unsigned split, unsigned dim) {
  const size_t at = (size_t(index) * heads + head) * splits + split;
  return {stats + at * 2, sums + at * dim};
}

}  // namespace paged
