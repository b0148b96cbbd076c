// SPDX-License-Identifier: BSD-3-Clause
// Device code of a sweep. A warp processes 32*V adjacent columns of a strip, row by row: every cell is read
// once (strip edges twice, from L2); neighbours in a row are exchanged by shuffles.
#pragma once
#include "kernels.hpp"

namespace jacobi::kernel {

constexpr unsigned full = 0xFFFFFFFFu;
constexpr int rows_ahead = 4;  // rows loaded ahead of their use

template <int V>
struct Cells {
  float v[V];
};

template <int V>
__device__ __forceinline__ Cells<V> load(const float* at, bool active) {
  Cells<V> cells{};
  if (!active) return cells;
  if constexpr (V == 4) {
    const float4 four = *reinterpret_cast<const float4*>(at);
    cells.v[0] = four.x, cells.v[1] = four.y, cells.v[2] = four.z, cells.v[3] = four.w;
  } else {
    cells.v[0] = *at;
  }
  return cells;
}

template <int V>
__device__ __forceinline__ void store(float* at, const Cells<V>& cells) {
  if constexpr (V == 4) {
    *reinterpret_cast<float4*>(at) = make_float4(cells.v[0], cells.v[1], cells.v[2], cells.v[3]);
  } else {
    *at = cells.v[0];
  }
}

// Columns of a thread: its first column, and the cell that it loads in addition to its own.
template <int V>
struct Column {
  int x;
  bool active;      // has cells
  bool has_edge;    // loads one cell beyond the warp
  int edge_offset;  // of that cell from the first cell
  int lane;

  __device__ Column(int column_block, int nx) {
    lane = threadIdx.x % 32;
    x = (column_block * threads + static_cast<int>(threadIdx.x)) * V;
    active = x < nx;
    has_edge = (lane == 0 && active && x > 0) || (lane == 31 && x + V < nx);
    edge_offset = lane == 0 ? -1 : V;
  }
};

// Returns the new values of one row, and adds the squared changes to `sum`.
template <int V, bool WithNorm>
__device__ __forceinline__ Cells<V> relax(const Column<V>& column, int nx, const Cells<V>& up,
                                          const Cells<V>& here, const Cells<V>& down, float edge,
                                          float& sum) {
  float left = __shfl_up_sync(full, here.v[V - 1], 1);
  float right = __shfl_down_sync(full, here.v[0], 1);
  if (column.lane == 0) left = edge;
  if (column.lane == 31) right = edge;
  Cells<V> result;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const float west = i == 0 ? left : here.v[i == 0 ? 0 : i - 1];
    const float east = i == V - 1 ? right : here.v[i == V - 1 ? i : i + 1];
    const float value = 0.25f * (east + west + down.v[i] + up.v[i]);
    const int x = column.x + i;
    const bool fixed = x == 0 || x >= nx - 1;
    result.v[i] = fixed ? here.v[i] : value;
    if (WithNorm) {
      const float change = result.v[i] - here.v[i];
      sum += change * change;
    }
  }
  return result;
}

// Computes rows [row, end) of a strip; returns the thread's part of the norm.
template <int V, bool WithNorm>
__device__ __forceinline__ float march(const float* from, float* to, const Column<V>& column, int nx, int row,
                                       int end) {
  const size_t pitch = nx;
  const float* in = from + static_cast<size_t>(row) * pitch + column.x;
  float* out = to + static_cast<size_t>(row) * pitch + column.x;
  Cells<V> up = load<V>(in - pitch, column.active);
  Cells<V> here = load<V>(in, column.active);
  float sum = 0;
  for (; row + rows_ahead <= end; row += rows_ahead) {
    Cells<V> down[rows_ahead];
    float edge[rows_ahead];
#pragma unroll
    for (int r = 0; r < rows_ahead; ++r) {
      down[r] = load<V>(in + (r + 1) * pitch, column.active);
      edge[r] = column.has_edge ? in[r * pitch + column.edge_offset] : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < rows_ahead; ++r) {
      const Cells<V> result = relax<V, WithNorm>(column, nx, up, here, down[r], edge[r], sum);
      if (column.active) store<V>(out + r * pitch, result);
      up = here;
      here = down[r];
    }
    in += rows_ahead * pitch;
    out += rows_ahead * pitch;
  }
  for (; row < end; ++row) {
    const Cells<V> down = load<V>(in + pitch, column.active);
    const float edge = column.has_edge ? in[column.edge_offset] : 0.0f;
    const Cells<V> result = relax<V, WithNorm>(column, nx, up, here, down, edge, sum);
    if (column.active) store<V>(out, result);
    up = here;
    here = down;
    in += pitch;
    out += pitch;
  }
  return sum;
}

}  // namespace jacobi::kernel
