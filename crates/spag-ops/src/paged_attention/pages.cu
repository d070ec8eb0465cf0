// Writes keys and values into pages, with or without RoPE, and copies parts of pages.
#include "../rope.cuh"
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

// Applies RoPE to the queries of a row of qkv [rows, (heads + 2·kv_heads)·dim] in place, and writes its rotated keys and its
// values to its slot; keys in qkv are unchanged. Row n has position positions[n]; cos, sin [positions, half]. A thread handles N
// pairs of a head: element i < half and i + half, or with a partial rotation two of the elements after these. N divides `half`
// and dim / 2. Grid: (rows, parts of a row).
template <class T, int N>
__device__ void append_rotated(T* qkv, T* keys, T* values, const unsigned* table, const unsigned* positions,
                               const float* cos, const float* sin, unsigned heads, unsigned kv_heads, unsigned tokens,
                               unsigned half, unsigned dim) {
  const unsigned pairs = dim / 2, at = (blockIdx.y * blockDim.x + threadIdx.x) * N, head = at / pairs, pair = at % pairs;
  if (head >= heads + 2 * kv_heads) return;
  const bool turns = pair < half;
  const unsigned first = turns ? pair : pair + half, second = turns ? pair + half : pair + pairs;
  T* from = qkv + (size_t(blockIdx.x) * (heads + 2 * kv_heads) + head) * dim;
  T* to = from;
  if (head >= heads) {
    const unsigned* place = paged::entry(table, paged::ROWS, blockIdx.x, 2);
    if (place == nullptr || place[0] == 0xffffffffu) return;
    const bool is_key = head < heads + kv_heads;
    const unsigned kv = head - heads - (is_key ? 0 : kv_heads);
    to = (is_key ? keys : values) + ((size_t(place[0]) * kv_heads + kv) * tokens + place[1]) * dim;
  }
  auto a = load_several<N>(from + first, N), b = load_several<N>(from + second, N);
  if (turns && head < heads + kv_heads) {
    const size_t angle = size_t(positions[blockIdx.x]) * half + pair;
    rotate_pairs(a, b, cos + angle, sin + angle, 1.0f);
  }
  store_several(to + first, a, N);
  store_several(to + second, b, N);
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

// `vectors` if `half` and dim / 2 are multiples of a 16-byte vector, else `single`.
#define EXPORT_ROTATED(name, T, N)                                                                                      \
  EXPORT_BOUNDS(name, 256, 4,                                                                                           \
                (T * qkv, T* keys, T* values, const unsigned* table, const unsigned* positions, const float* cos,       \
                 const float* sin, unsigned heads, unsigned kv_heads, unsigned tokens, unsigned half, unsigned dim),    \
                (append_rotated<T, N>(qkv, keys, values, table, positions, cos, sin, heads, kv_heads, tokens, half, dim)))
#define EXPORT_FOR(T, suffix)                                                                                     \
  EXPORT_BOUNDS(paged_attention_append_##suffix, 256, 8,                                                           \
                (const T* qkv, T* keys, T* values, const unsigned* table, unsigned heads, unsigned kv_heads,       \
                 unsigned tokens, unsigned dim),                                                                   \
                append<T>(qkv, keys, values, table, heads, kv_heads, tokens, dim))                                 \
  EXPORT_ROTATED(paged_attention_append_rotated_vectors_##suffix, T, Vector<T>::SIZE)                              \
  EXPORT_ROTATED(paged_attention_append_rotated_single_##suffix, T, 1)                                             \
  EXPORT_BOUNDS(paged_attention_copy_##suffix, 256, 8,                                                             \
                (T* keys, T* values, unsigned from, unsigned to, unsigned count, unsigned kv_heads, unsigned tokens, \
                 unsigned dim),                                                                                    \
                copy<T>(keys, values, from, to, count, kv_heads, tokens, dim))
EXPORT_FOR(float, f32)
EXPORT_FOR(bf16, bf16)
