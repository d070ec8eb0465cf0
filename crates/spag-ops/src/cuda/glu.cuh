// Gated activations, y = act(gate)·up, forward and backward. A thread handles 16 bytes of each tensor. A kernel file defines
// gate_value(g) = act(g), and gate_value_and_slope(g, slope), which also gives the derivative, and includes this file.
#pragma once

#include "elements.cuh"

template <class T, int N>
__device__ __forceinline__ Several<T, N> activated(const Several<T, N>& gate, const Several<T, N>& up) {
  Several<T, N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = to_float(gate.at[i]);
    y.at[i] = from_float<T>(gate_value(g) * to_float(up.at[i]));
  }
  return y;
}

// y = act(gate)·up, all [count].
template <class T>
__device__ void forward(const T* gate, const T* up, T* y, unsigned long long count) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here == 0) return;
  store_several(y + at, activated(load_several<N>(gate + at, here), load_several<N>(up + at, here)), here);
}

// As forward, for x [rows, 2f] with gate and up in adjacent columns; y [rows, f]. Block (r, c) handles part c of row r.
template <class T>
__device__ void forward_joined(const T* x, T* y, unsigned f) {
  constexpr int N = Vector<T>::SIZE;
  const size_t row = blockIdx.x;
  const size_t at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, f);
  if (here == 0) return;
  const T* gate = x + row * 2 * f + at;
  store_several(y + row * f + at, activated(load_several<N>(gate, here), load_several<N>(gate + f, here)), here);
}

// Overwrites `here` elements of gate and up with their gradients, and those of dy, the gradient of the output, with the
// recomputed output.
template <class T, int N>
__device__ __forceinline__ void backward_at(T* gate, T* up, T* dy, unsigned here) {
  auto gates = load_several<N>(gate, here), ups = load_several<N>(up, here), gradients = load_several<N>(dy, here);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = to_float(gates.at[i]), u = to_float(ups.at[i]), d = to_float(gradients.at[i]);
    float slope;
    const float value = gate_value_and_slope(g, slope);
    gates.at[i] = from_float<T>(d * u * slope);
    ups.at[i] = from_float<T>(d * value);
    gradients.at[i] = from_float<T>(value * u);
  }
  store_several(gate, gates, here);
  store_several(up, ups, here);
  store_several(dy, gradients, here);
}

// In place; all are [count].
template <class T>
__device__ void backward(T* gate, T* up, T* dy, unsigned long long count) {
  constexpr int N = Vector<T>::SIZE;
  const size_t at = first_of_thread<N>();
  const unsigned here = present<N>(at, count);
  if (here > 0) backward_at<T, N>(gate + at, up + at, dy + at, here);
}

// As backward, for x [rows, 2f] with gate and up in adjacent columns; dy [rows, f]. Blocks as in forward_joined.
template <class T>
__device__ void backward_joined(T* x, T* dy, unsigned f) {
  constexpr int N = Vector<T>::SIZE;
  const size_t row = blockIdx.x, at = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const unsigned here = present<N>(at, f);
  T* gate = x + row * 2 * f + at;
  if (here > 0) backward_at<T, N>(gate, gate + f, dy + row * f + at, here);
}
