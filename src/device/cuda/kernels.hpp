// SPDX-License-Identifier: BSD-3-Clause
// Weft's copy kernels in one context. Loaded on first use of the context, since a load waits for all running
// kernels. They are not available without their compiler at build time or without machine code for the GPU.
#pragma once
#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

struct Kernels {
  Module module = nullptr;
  Function batch_copy = nullptr;  ///< null: not available
  Function resident_kernel = nullptr;
};

/// Loads the kernels into the current context.
[[nodiscard]] Kernels load_kernels();

/// Whether a launch returns at once and does not wait for other streams: false with CUDA_LAUNCH_BLOCKING=1 or
/// CUDA_DEVICE_MAX_CONNECTIONS=1.
[[nodiscard]] bool launches_are_async();
/// Most blocks of a resident kernel such that those of all ranks on the device run at the same time.
[[nodiscard]] uint32_t max_resident_blocks(Ordinal device);

struct EnqueueKernel {
  Module module = nullptr;
  Function any = nullptr, few = nullptr, layouts = nullptr;
};
/// Loads the kernel of enqueued operations into the current context. Call for the first adopted stream.
[[nodiscard]] Result<EnqueueKernel> load_enqueue_kernel();

}  // namespace weft::device::cuda
