// SPDX-License-Identifier: BSD-3-Clause
// NVML, NVIDIA's management library: it knows GPUs that CUDA_VISIBLE_DEVICES hides from the CUDA driver.
// Opened at its first use. Threading: any thread.
#pragma once
#include "device/info.hpp"

namespace weft::device::cuda {

/// Whether NVLink connects two GPUs. False, reported as a slow path with the reason, if NVML cannot tell.
[[nodiscard]] bool nvml_reports_nvlink(const Uuid& one, const Uuid& other);

}  // namespace weft::device::cuda
