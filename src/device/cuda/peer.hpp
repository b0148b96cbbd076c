// SPDX-License-Identifier: BSD-3-Clause
// GPUs of other processes: whether a local GPU may reach their memory, and why a mapping has failed.
// Threading: any thread.
#pragma once
#include <string>

#include "base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/info.hpp"
#include "device/memory.hpp"

namespace weft::device::cuda {

/// Ordinal of the GPU `owner` in this process; -1 if it is hidden, which only a mapping can test.
/// Errc::unsupported with the reason if no mapping can work: no local GPU, no peer access.
[[nodiscard]] Result<int> check_peer(const GpuId& owner, const Memory& local);

/// The Error for a failed driver call that maps memory of the GPU `owner` for the GPU of `local`; names the
/// cause and its remedy. Errc::again: an older mapping occupies the address range.
[[nodiscard]] Error not_mapped(const char* call, Code code, const GpuId& owner, const Memory& local);

/// Access of this process to the device file of a GPU.
struct DeviceFile {
  enum class Access : uint8_t { granted, denied, absent, unknown } access = Access::unknown;
  std::string path, error;  ///< of a denied file
};
/// Finds the device file of a GPU in `gpus` and opens it in `files`. `unknown`: `gpus` does not exist.
[[nodiscard]] DeviceFile find_device_file(const Uuid& uuid,
                                          const std::string& gpus = "/proc/driver/nvidia/gpus",
                                          const std::string& files = "/dev");

}  // namespace weft::device::cuda
