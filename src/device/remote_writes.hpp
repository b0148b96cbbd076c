// SPDX-License-Identifier: BSD-3-Clause
// Order of data that network adapters write into GPU memory (GPUDirect RDMA) and words that the CPU writes
// later for kernels that run: on some GPUs a kernel may see the word without the data. Threading: any thread.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

enum class RemoteWrites : uint8_t {
  ordered,   ///< kernels of the GPU see the data, or no adapter can write there
  flushed,   ///< they see the data after flush_remote_writes()
  unordered  ///< and there is no such call for the GPU
};

/// How kernels of the GPU of `memory` see data that adapters have written there
/// (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING). Makes up to three calls of the driver.
[[nodiscard]] RemoteWrites order_of_remote_writes(const Memory& memory);
/// Returns when kernels of the GPU of `memory`, also running ones, see all data whose arrival an adapter
/// has reported to the CPU. Does not wait for kernels.
[[nodiscard]] Status flush_remote_writes(const Memory& memory);

}  // namespace weft::device
