// SPDX-License-Identifier: BSD-3-Clause
// GPU kernels of the Jacobi solver: one sweep per launch.
#include "sweep.cuh"

namespace {

using namespace jacobi::kernel;

// Adds the block's sum. The last of all blocks with this `norm` writes the total to host memory and resets
// the sum, so that the launch needs neither a memset nor a copy.
__device__ void add_to_norm(const Norm& norm, float mine) {
  __shared__ double partial[threads / 32];
  double sum = mine;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(full, sum, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < threads / 32; ++warp) sum += partial[warp];
  atomicAdd(norm.sum, sum);
  __threadfence();
  if (atomicAdd(norm.arrived, 1u) + 1 != norm.blocks) return;
  __threadfence();
  *norm.result = atomicAdd(norm.sum, 0.0);
  *norm.sum = 0.0;
  *norm.arrived = 0u;
  __threadfence_system();
}

template <int V, bool WithNorm>
__device__ __forceinline__ void sweep(const float* from, float* to, const Strips& strips, const Norm& norm) {
  const int column_block = blockIdx.x % strips.column_blocks;
  const int strip = blockIdx.x / strips.column_blocks;
  const Column<V> column(column_block, strips.nx);
  const int row = strips.first + strip * strips.stride;
  const int end = min(row + strips.height, strips.end);
  const float sum = march<V, WithNorm>(from, to, column, strips.nx, row, end);
  if (WithNorm) add_to_norm(norm, sum);
}

}  // namespace

#define WEFT_JACOBI_KERNEL(NAME, V, WITH_NORM)                                                 \
  extern "C" __global__ void __launch_bounds__(threads)                                        \
      NAME(const float* __restrict__ from, float* __restrict__ to, Strips strips, Norm norm) { \
    sweep<V, WITH_NORM>(from, to, strips, norm);                                               \
  }

WEFT_JACOBI_KERNEL(jacobi_sweep_4, 4, false)
WEFT_JACOBI_KERNEL(jacobi_sweep_4_norm, 4, true)
WEFT_JACOBI_KERNEL(jacobi_sweep_1, 1, false)
WEFT_JACOBI_KERNEL(jacobi_sweep_1_norm, 1, true)

extern "C" __global__ void jacobi_set_columns(float* grid, int nx, const float* values, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float* cells = grid + static_cast<size_t>(row) * nx;
  cells[0] = cells[nx - 1] = values[row];
}
