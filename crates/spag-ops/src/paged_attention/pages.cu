// Writes keys and values into pages, and copies parts of pages.
#include "tables.cuh"

namespace {

// Writes the keys and values of a row of qkv [rows, (heads + 2·kv_heads)·dim] to its slot. Grid: (rows, parts of a
// row).
template <class T>
__device__ void append(const T* qkv, T* keys, T* values, const unsigned* table, unsigned heads, unsigned kv_heads,
                       unsigned tokens, unsigned dim) {
  const unsigned* place = paged::entry(table, paged::ROWS, blockIdx.x, 2);
  if (place == nullptr || place[0] == 0xffffffffu) return;
  const unsigned size = dim % Vector<T>::SIZE == 0 ? Vector<T>::SIZE : 1, kv_size = kv_heads * dim;
  const unsigned at = (blockIdx.y * blockDim.x + threadIdx.x) * size;
  if (at >= 2 * kv_size) return;
  const T* from = qkv + size_t(blockIdx.x) * (heads + 2 * kv_heads) * dim + heads * dim + at;
  const unsigned column = at < kv_size ? at : at - kv_size;
  const unsigned head = column / dim, inside = column % dim;
  T* to = (at < kv_size ? keys : values) + ((size_t(place[0]) * kv_heads + head) * tokens + place[1]) * dim + inside;
  if (size == 1) {
    *to = *from;
  } else {
    copy_vector(to, from);
  }
}

// Copies the first `count` tokens of page `from` to page `to`. Grid: (parts of a head, KV heads, keys or values).
template <class T>
__device__ void copy(T* keys, T* values, unsigned from, unsigned to, unsigned count, unsigned kv_heads, unsigned tokens,
                     unsigned dim) {
  const unsigned size = dim % Vector<T>::SIZE == 0 ? Vector<T>::SIZE : 1;
  const unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * size;
  if (at >= count * dim) return;
  T* pages = blockIdx.z == 0 ? keys : values;
  const T* source = pages + (size_t(from) * kv_heads + blockIdx.y) * tokens * dim + at;
  T* target = pages + (size_t(to) * kv_heads + blockIdx.y) * tokens * dim + at;
  if (size == 1) {
    *target = *source;
  } else {
    copy_vector(target, source);
  }
}

}  // namespace

#define EXPORT_FOR(T, suffix)                                                                                     \
  EXPORT_BOUNDS(paged_attention_append_##suffix, 256, 8,                                                           \
                (const T* qkv, T* keys, T* values, const unsigned* table, unsigned heads, unsigned kv_heads,       \
                 unsigned tokens, unsigned dim),                                                                   \
                append<T>(qkv, keys, values, table, heads, kv_heads, tokens, dim))                                 \
  EXPORT_BOUNDS(paged_attention_copy_##suffix, 256, 8,                                                             \
                (T* keys, T* values, unsigned from, unsigned to, unsigned count, unsigned kv_heads, unsigned tokens, \
                 unsigned dim),                                                                                    \
                copy<T>(keys, values, from, to, count, kv_heads, tokens, dim))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
