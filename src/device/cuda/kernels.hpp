// SPDX-License-Identifier: BSD-3-Clause
// Weft's kernels in one context: loaded when the context is first used, since a load waits for every running
// kernel. Without nvcc at build time, or without code for the GPU, there are none.
#pragma once
#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

struct Kernels {
  Module module = nullptr;
  Function copy_list = nullptr;  ///< null: not to be had
  Function copier = nullptr;
};

/// Loads them into the current context.
[[nodiscard]] Kernels load_kernels();

/// A launch returns at once and waits for no other stream's work: not under CUDA_LAUNCH_BLOCKING=1 or
/// CUDA_DEVICE_MAX_CONNECTIONS=1.
[[nodiscard]] bool launches_return();
/// Ranks of other processes use the device: kernels of Weft would take turns with theirs.
[[nodiscard]] bool shared(Ordinal device);

struct EnqueueKernel {
  Module module = nullptr;
  Function any = nullptr, few = nullptr;
};
/// Loads the kernel of enqueued operations into the current context, when the first stream is given to Weft.
[[nodiscard]] Result<EnqueueKernel> load_enqueue_kernel();

}  // namespace weft::device::cuda
