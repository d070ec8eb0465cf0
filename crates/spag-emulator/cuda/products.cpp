// Matrix products of warpgroups. See warpgroups.h.
#include "products.h"

namespace emulator {
namespace {

constexpr unsigned GROUP = 4 * LANES;
// Bytes of a panel's row, and the alignment of panels.
constexpr size_t ROW = 128, PANEL = 1024;
// The content of sums while a product accumulates into them: a NaN that arithmetic does not produce.
constexpr uint32_t POISON = 0xffffbad1;

// The first element of an operand, as a byte offset into shared memory, and the rows of its panels.
struct Operand {
  size_t start, rows;
};

Operand operand_of(uint64_t descriptor) {
  const size_t address = size_t(descriptor & 0xffffffffffff), base = reinterpret_cast<size_t>(running_block().shared_data);
  const Operand operand{address - base, size_t(descriptor >> 48)};
  if (address < base || operand.start >= running_block().shared_bytes) fail("an operand of a product is outside shared memory");
  if (operand.start % 16 || operand.start % PANEL >= ROW)
    fail("an operand of a product begins at byte " + std::to_string(operand.start) +
         " of shared memory, which is in none of the first rows of 8 of a panel on 1024 bytes");
  return operand;
}

// 16 bytes of a panel, swizzled within 8 rows.
const unsigned char* chunk_at(size_t linear) {
  if (linear + ROW - linear % ROW > running_block().shared_bytes) fail("a product reads outside shared memory");
  return running_block().shared_data + (linear ^ (linear / ROW % 8 * 16));
}

// Calls `each` with a row, a column that is a multiple of 8, and the 8 elements from there, for an operand whose rows are
// `rows` long sequences of `columns` elements.
template <class Each>
void for_chunks(const Operand& operand, int rows, int columns, Each each) {
  if (columns < 64 && operand.start % ROW + 2 * size_t(columns) > ROW) fail("a product reads across the end of a panel's row");
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; column += 8) {
      const size_t panel = size_t(column) / 64 * operand.rows * ROW;
      each(row, column, chunk_at(operand.start + panel + size_t(row) * ROW + size_t(column) % 64 * 2));
    }
}

template <class Each>
void for_left(const Product& product, unsigned warp, Each each) {
  if (product.a != nullptr) return;
  Operand operand = operand_of(product.left);
  operand.start += size_t(warp % 4 * ROWS) * ROW;
  for_chunks(operand, ROWS, DEPTH, each);
}

template <class Each>
void for_right(const Product& product, Each each) {
  const Operand operand = operand_of(product.right);
  if (product.transposed) for_chunks(operand, DEPTH, product.columns, each);
  else for_chunks(operand, product.columns, DEPTH, each);
}

// Records the operand reads of a warp's rows for the race check, as accesses of its first lane.
void check_reads(const Product& product, const Thread& lane) {
  if (!finds_races()) return;
  const auto read = [&](int, int, const unsigned char* chunk) {
    const std::string race = access(lane, chunk, 16, false);
    if (!race.empty()) fail(race + " (by a product)");
  };
  for_left(product, lane.index.x / LANES, read);
  for_right(product, read);
}

void widen(const unsigned char* chunk, float (&to)[8]) {
  uint16_t bits[8];
  memcpy(bits, chunk, sizeof bits);
  for (int i = 0; i < 8; ++i) to[i] = __bfloat162float({bits[i]});
}

// sums = [sums +] a·b, accumulating along k in order, separately for each product.
template <int COLUMNS>
void multiply(Sums& sums, const float (&a)[ROWS][DEPTH], const float (&b)[DEPTH][MAX_COLUMNS], bool accumulate) {
  for (int row = 0; row < ROWS; ++row) {
    float of_row[COLUMNS] = {};
    for (int k = 0; k < DEPTH; ++k)
      for (int n = 0; n < COLUMNS; ++n) of_row[n] += a[row][k] * b[k][n];
    for (int n = 0; n < COLUMNS; ++n) sums.values[row][n] = accumulate ? sums.values[row][n] + of_row[n] : of_row[n];
  }
}

// Calls `each` with a lane, the index of one of its sums, and the sum's row and column.
template <class Each>
void for_sums(int columns, Each each) {
  for (unsigned lane = 0; lane < LANES; ++lane)
    for (int i = 0; i < columns / 2; ++i)
      each(lane, i, int(lane) / 4 + 8 * (i % 4 / 2), i / 4 * 8 + int(lane) % 4 * 2 + i % 2);
}

// Takes the sums out of these registers, which become NaNs.
Sums* take_sums(Products& products, const Thread* lanes) {
  const auto of = [&](unsigned lane) { return static_cast<const Product*>(lanes[lane].data); };
  for (auto& sums : products.sums)
    if (sums->at[0] == of(0)->c) {
      if (sums->columns != of(0)->columns) fail("products of different widths add to the same registers");
      return sums.get();
    }
  products.sums.push_back(std::make_unique<Sums>());
  Sums& sums = *products.sums.back();
  sums.columns = of(0)->columns;
  sums.products = 0;
  for (unsigned lane = 0; lane < LANES; ++lane) sums.at[lane] = of(lane)->c;
  for_sums(sums.columns, [&](unsigned lane, int i, int row, int column) {
    sums.values[row][column] = sums.at[lane][i];
    memcpy(&sums.at[lane][i], &POISON, sizeof POISON);
  });
  return &sums;
}

void return_sums(Products& products, Sums* sums) {
  for_sums(sums->columns, [&](unsigned lane, int i, int row, int column) {
    if (memcmp(&sums->at[lane][i], &POISON, sizeof POISON))
      fail("the sums of a product were written before it was waited for");
    sums->at[lane][i] = sums->values[row][column];
  });
  for (auto& each : products.sums)
    if (each.get() == sums) {
      std::swap(each, products.sums.back());
      products.sums.pop_back();
      return;
    }
}

void run(Products& products, const Pending& pending, const Thread& lane) {
  const Product& product = pending.product;
  check_reads(product, lane);
  float a[ROWS][DEPTH], b[DEPTH][MAX_COLUMNS], wide[8];
  if (product.a != nullptr) {
    for (unsigned of = 0; of < LANES; ++of) {
      if (memcmp(pending.a_at[of], pending.a[of], sizeof pending.a[of]))
        fail("the left operand of a product was written before the product was waited for");
      for (int i = 0; i < 4; ++i) {
        const int row = int(of) / 4 + 8 * (i % 2), column = int(of) % 4 * 2 + 8 * (i / 2);
        a[row][column] = __bfloat162float({uint16_t(pending.a[of][i] & 0xffff)});
        a[row][column + 1] = __bfloat162float({uint16_t(pending.a[of][i] >> 16)});
      }
    }
  }
  for_left(product, lane.index.x / LANES, [&](int row, int column, const unsigned char* chunk) {
    widen(chunk, wide);
    memcpy(&a[row][column], wide, sizeof wide);
  });
  for_right(product, [&](int row, int column, const unsigned char* chunk) {
    widen(chunk, wide);
    if (product.transposed) memcpy(&b[row][column], wide, sizeof wide);
    else
      for (int i = 0; i < 8; ++i) b[column + i][row] = wide[i];
  });
  if (product.columns == 64) multiply<64>(*pending.sums, a, b, product.accumulate);
  else multiply<128>(*pending.sums, a, b, product.accumulate);
  if (--pending.sums->products == 0) return_sums(products, pending.sums);
}

// Starts the product reached by all threads of a warpgroup.
void start(Thread* threads) {
  Block& block = running_block();
  const Product first = *static_cast<const Product*>(threads[0].data);
  if (first.columns != 64 && first.columns != 128) fail("a product of " + std::to_string(first.columns) + " columns");
  for (unsigned i = 0; i < GROUP; ++i) {
    const auto& other = *static_cast<const Product*>(threads[i].data);
    if (other.left != first.left || other.right != first.right || other.columns != first.columns ||
        other.transposed != first.transposed || other.accumulate != first.accumulate ||
        (other.a == nullptr) != (first.a == nullptr))
      fail("threads of a warpgroup are at different products");
    if (!threads[i].shown) fail("a product of a thread that has not called show_to_products since its last barrier");
  }
  for (Thread* lanes = threads; lanes < threads + GROUP; lanes += LANES) {
    Products& products = block.products[lanes->index.x / LANES];
    if (!products.fenced) fail("a product without `begin` since the last wait");
    check_reads(first, lanes[0]);
    Pending pending;
    pending.product = first;
    pending.sums = take_sums(products, lanes);
    ++pending.sums->products;
    for (unsigned lane = 0; lane < LANES; ++lane) {
      const auto& own = *static_cast<const Product*>(lanes[lane].data);
      pending.a_at[lane] = own.a;
      if (own.a != nullptr) memcpy(pending.a[lane], own.a, sizeof pending.a[lane]);
    }
    products.open.push_back(pending);
  }
  for (unsigned i = 0; i < GROUP; ++i) threads[i].wait = Wait::Nothing;
}

}  // namespace

uint64_t describe(const void* at, int rows) {
  const auto address = reinterpret_cast<uint64_t>(at);
  if (address >> 48 != 0 || rows < 8 || rows % 8 || rows > 0xffff) stop("an operand of " + std::to_string(rows) + " rows");
  return address | uint64_t(rows) << 48;
}

void reach_product(Thread* lanes) {
  Block& block = running_block();
  for (unsigned lane = 0; lane < LANES; ++lane) lanes[lane].wait = Wait::Group;
  const size_t first = lanes->index.x / GROUP * GROUP;
  if (first + GROUP > block.threads.size()) fail("a product in a warpgroup of fewer than 4 warps");
  for (size_t i = first; i < first + GROUP; ++i)
    if (block.threads[i].wait != Wait::Group) return;
  start(&block.threads[first]);
}

void pass_fence(Thread* lanes) { running_block().products[lanes->index.x / LANES].fenced = true; }

void commit_products(Thread* lanes) {
  Products& products = running_block().products[lanes->index.x / LANES];
  products.groups.push_back(std::move(products.open));
  products.open.clear();
}

void wait_for_products(Thread* lanes) {
  Products& products = running_block().products[lanes->index.x / LANES];
  const unsigned pending = *static_cast<const unsigned*>(lanes->data);
  products.fenced = false;
  while (products.groups.size() > pending) {
    for (const Pending& each : products.groups.front()) run(products, each, lanes[0]);
    products.groups.erase(products.groups.begin());
  }
}

bool has_products(const Thread& thread) {
  const Products& products = running_block().products[thread.index.x / LANES];
  return !products.open.empty() || !products.groups.empty();
}

}  // namespace emulator
