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

}  // namespace weft::device::cuda
