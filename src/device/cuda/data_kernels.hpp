// SPDX-License-Identifier: BSD-3-Clause
// Reduction and pack kernels, and those of windows, of one context. Loaded when the WorkQueue is created,
// like the copy kernels (kernels.hpp).
#pragma once
#include <array>

#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

struct DataKernels {
  std::array<Module, 3> modules{};
  Function reduce = nullptr;  ///< null, like all others: not available
  Function scale = nullptr;
  Function pack = nullptr, pack_flat = nullptr;  ///< flat: for flat layouts (kernel/pack.hpp)
  Function pack_tiles = nullptr, pack_tiles_flat = nullptr;
  Function accumulate = nullptr, window_sync = nullptr;
};

/// Loads the kernels into the current context.
[[nodiscard]] DataKernels load_data_kernels();
void unload(const DataKernels& kernels);

}  // namespace weft::device::cuda
