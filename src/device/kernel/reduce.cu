// SPDX-License-Identifier: BSD-3-Clause
// The reduction kernel: streams 16-byte vectors at the speed of a copy of the same bytes.
#include "device/kernel/reduce.hpp"

namespace weft::device::kernel {

extern "C" __global__ void __launch_bounds__(Reduce::kThreads, 2)
    weft_reduce(const __grid_constant__ Reduce p) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.items();
       i += Reduce::kBatch * stride)
    reduce_batch(p, i, stride);
}

}  // namespace weft::device::kernel
