// SPDX-License-Identifier: BSD-3-Clause
// The kernels that work on data in one context: reductions, packing. Loaded with the context's state, like
// those of kernels.hpp.
#pragma once
#include <array>

#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

struct DataKernels {
  std::array<Module, 2> modules{};
  Function reduce = nullptr;                     ///< null, all of them: not to be had
  Function pack = nullptr, pack_flat = nullptr;  ///< flat: for flat layouts (kernel/pack.hpp)
  Function pack_tiles = nullptr, pack_tiles_flat = nullptr;
};

/// Loads them into the current context.
[[nodiscard]] DataKernels load_data_kernels();
void unload(const DataKernels& kernels);

}  // namespace weft::device::cuda
