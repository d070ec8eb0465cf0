// Pending products of a warp. Internal; see warpgroups.h.
#pragma once

#include "block.h"

namespace emulator {

constexpr int ROWS = 16, DEPTH = 16, MAX_COLUMNS = 128;

// A warp's 16 rows of sums, and the registers that they return to once no product accumulates into them.
struct Sums {
  float* at[LANES];
  int columns;
  unsigned products;
  float values[ROWS][MAX_COLUMNS];
};

// A warp's rows of a product.
struct Pending {
  Sums* sums;
  Product product;
  // The left operand in registers as of the product's start, and its location.
  const uint32_t* a_at[LANES];
  uint32_t a[LANES][4];
};

struct Products {
  bool fenced = false;
  std::vector<Pending> open;
  std::vector<std::vector<Pending>> groups;
  std::vector<std::unique_ptr<Sums>> sums;
};

}  // namespace emulator
