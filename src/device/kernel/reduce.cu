// SPDX-License-Identifier: BSD-3-Clause
// The reduction kernel: streams 16-byte vectors at the speed of a copy of the same bytes. The kernel that
// scales the terms or the result of a reduction.
#include "device/kernel/reduce.hpp"
#include "device/kernel/scale.hpp"

namespace weft::device::kernel {

extern "C" __global__ void __launch_bounds__(Reduce::kThreads, 2)
    weft_reduce(const __grid_constant__ Reduce p) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.items();
       i += Reduce::kBatch * stride)
    reduce_batch(p, i, stride);
}

extern "C" __global__ void __launch_bounds__(Reduce::kThreads) weft_scale(const __grid_constant__ Scale p) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  const Vec16 factor = factor_of(p);
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.vector.items(); i += stride)
    scale_item(p, factor, i);
}

}  // namespace weft::device::kernel
