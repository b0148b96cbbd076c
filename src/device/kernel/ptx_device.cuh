// SPDX-License-Identifier: BSD-3-Clause
// Device code of PTX that CUDA has no function for: the clock of the GPU, acquire-release fences.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

/// The time of the GPU's global timer in ns.
__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// Fences of the scope of this GPU, and system-wide. After a block barrier they order the stores of the whole
/// block.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

}  // namespace weft::device::kernel
