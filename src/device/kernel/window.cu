// SPDX-License-Identifier: BSD-3-Clause
// Kernels of windows: accumulate operations, and synchronisation in streams.
#include "device/kernel/accumulate.hpp"
#include "device/kernel/window.hpp"
#include "weft_device.cuh"

namespace weft::device::kernel {

extern "C" __global__ void __launch_bounds__(Accumulate::kThreads)
    weft_accumulate(const __grid_constant__ Accumulate p) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.count; i += stride)
    accumulate_element<false>(p, i);
}

extern "C" __global__ void __launch_bounds__(WindowSync::kThreads)
    weft_window_sync(const __grid_constant__ WindowSync p) {
  const Window window(reinterpret_cast<const void*>(p.table));
  if (p.kind == WindowSync::barrier) {
    window.barrier(Block());
  } else if (p.kind == WindowSync::notify) {
    device::detail::copy(Block(), p.to, p.from, p.bytes);
    window.notify(Block(), p.rank, p.notification);
  } else {
    window.wait_notify(Block(), p.notification, p.value);
  }
}

}  // namespace weft::device::kernel
