// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/kernels.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"
#include "device/cuda/image.hpp"
#include "device/info.hpp"
#include "device/time_slices.hpp"

namespace weft::device {
namespace {

config::Choice setting_shared(
    "gpu.kernels_on_shared_gpu", 0, {"auto", "on", "off"},
    "Resident kernel, copy kernels and collective kernels on a GPU that several ranks use: auto (under MPS, "
    "as the driver reports it), on (without MPS they are time-sliced), off.",
    "several ranks share a GPU under MPS, and the driver is older than CUDA 12.3 (on)");

constexpr size_t kKnownDevices = 64;

// Bit n: other ranks use device n, whose kernels are time-sliced: a resident kernel wastes the time slice of
// its process.
std::atomic<uint64_t> time_sliced_devices{0};
std::array<std::atomic<uint32_t>, kKnownDevices> recorded_ranks{};  // 0: unknown, at least this one

}  // namespace

bool kernels_run_side_by_side(int device) {
  if (!setting_shared.is("auto")) return setting_shared.is("on");
  const auto mps = mps_enabled(device);
  return mps && *mps;
}

uint32_t ranks_on_device(int device) {
  if (device < 0 || static_cast<size_t>(device) >= kKnownDevices) return 1;
  return std::max(recorded_ranks[static_cast<size_t>(device)].load(std::memory_order_relaxed), 1u);
}

void note_shared_device(int device, uint32_t ranks) {
  if (ranks < 2 || device < 0 || static_cast<size_t>(device) >= kKnownDevices) return;
  auto& known = recorded_ranks[static_cast<size_t>(device)];
  for (uint32_t seen = known; seen < ranks && !known.compare_exchange_weak(seen, ranks);) {
  }
  if (!kernels_run_side_by_side(device))
    time_sliced_devices.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
}

bool time_sliced(int device) {
  const uint64_t devices = time_sliced_devices.load(std::memory_order_relaxed);
  return devices != 0 && device >= 0 && static_cast<size_t>(device) < kKnownDevices &&
         (devices >> device & 1) != 0;
}

namespace cuda {
namespace {

log::SlowPath no_kernels{"gpu.no_kernels", "small GPU messages take about twice as long"};

bool is_one(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

}  // namespace

bool launches_are_async() {
  static const bool async = !is_one("CUDA_LAUNCH_BLOCKING") && !is_one("CUDA_DEVICE_MAX_CONNECTIONS");
  return async;
}

uint32_t max_resident_blocks(Ordinal device) {
  const uint32_t ranks = ranks_on_device(device);
  const auto multiprocessors = device::multiprocessors(device);
  if (ranks < 2 || !multiprocessors) return UINT32_MAX;
  return std::max(static_cast<uint32_t>(*multiprocessors) / ranks, 1u);
}

Result<EnqueueKernel> load_enqueue_kernel() {
  EnqueueKernel kernel;
  Code code = load_module(Source::enqueue, kernel.module);
  if (code != kSuccess)
    return Error(Errc::unsupported,
                 "the kernels of enqueued operations are missing: " + load_failure_reason(code));
  code = find_function(kernel.module, "weft_enqueue", kernel.any);
  if (code == kSuccess) code = find_function(kernel.module, "weft_enqueue_small", kernel.few);
  if (code == kSuccess) code = find_function(kernel.module, "weft_enqueue_layouts", kernel.layouts);
  if (code == kSuccess) return kernel;
  driver().module_unload(kernel.module);
  return failure(code, "cuModuleGetFunction", "the kernel of enqueued operations cannot be loaded");
}

Kernels load_kernels() {
  Kernels kernels;
  Code code = load_module(Source::copy, kernels.module);
  if (code == kSuccess) code = find_function(kernels.module, "weft_batch_copy", kernels.batch_copy);
  if (code == kSuccess) code = find_function(kernels.module, "weft_resident_kernel", kernels.resident_kernel);
  if (code == kSuccess) return kernels;
  no_kernels.hit(load_failure_reason(code));
  if (kernels.module != nullptr) driver().module_unload(kernels.module);
  return {};
}

}  // namespace cuda
}  // namespace weft::device
