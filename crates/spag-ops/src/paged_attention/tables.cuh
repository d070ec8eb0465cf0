// Page tables and work lists of a forward pass, and helpers shared by the kernels of paged attention.
//
// `table` is one u32 tensor per pass; the only other value that changes between passes is the number of splits.
// Blocks beyond the counts do nothing, so a grid may be larger than the table requires.
//   [0] rows   [1] decoding rows   [2] tiles   [3], [4], [5] offsets of the three lists   [6], [7] unused
//   row: page (2³²-1: another row writes the same), slot in the page
//   decoding row: row in the batch, number of keys, offset of its sequence's pages in the table, unused
//   tile: first row in the batch, number of rows, position of the first row, offset of its sequence's pages
//
// A page of keys or values has the layout [KV head, token, head size].
#pragma once

#include "../attention/mask.cuh"

namespace paged {

enum : unsigned { ROWS = 0, DECODING = 1, TILES = 2 };

// Entry `index` of a list with `width` words per entry; nullptr beyond its end.
__device__ __forceinline__ const unsigned* entry(const unsigned* table, unsigned list, unsigned index, unsigned width) {
  return index < table[list] ? table + table[3 + list] + size_t(index) * width : nullptr;
}

// Keys are assigned to splits, and copied, in stripes of 16.
constexpr unsigned STRIPE = 16;
// Minimum stripes per split: combining shorter ones would cost more than they save.
constexpr unsigned LEAST_STRIPES = 4;

// The stripes of a row with `seen` keys, of which it attends to those from `first_key` on, and their split. The last
// splits may have fewer or none. The window's start is derived from the table, so a captured pass can be replayed.
struct Splits {
  unsigned begin, end, each;

  __device__ __forceinline__ Splits(unsigned first_key, unsigned seen, unsigned splits) {
    begin = first_key / STRIPE;
    end = (seen + STRIPE - 1) / STRIPE;
    each = (end - begin + splits - 1) / splits;
    if (each < LEAST_STRIPES) each = LEAST_STRIPES;
  }
  // The number of splits with stripes.
  __device__ __forceinline__ unsigned used() const { return (end - begin + each - 1) / each; }
};

// Results of a split for a row's query head: maximum score (times log₂e) and sum of exponentials, and the sum of
// values: [decoding rows, heads, splits, 2] and [decoding rows, heads, splits, dim].
struct Partial {
  float *largest_and_sum, *values;
};
__device__ __forceinline__ Partial partial_of(float* stats, float* sums, unsigned index, unsigned heads, unsigned head,
                                              unsigned splits, unsigned split, unsigned dim) {
  const size_t at = (size_t(index) * heads + head) * splits + split;
  return {stats + at * 2, sums + at * dim};
}

}  // namespace paged
