// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/kernels.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"
#include "device/cuda/image.hpp"

namespace weft::device {
namespace {

// Bit n: other ranks use device n. Without MPS, processes are time-sliced on a GPU, and a resident kernel
// wastes the time slice of its process.
std::atomic<uint64_t> shared_devices{0};

}  // namespace

void note_shared_device(int device) {
  if (device >= 0 && device < 64) shared_devices.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
}

namespace cuda {
namespace {

config::Choice setting_shared("gpu.kernels_on_shared_gpu", 0, {"off", "on"},
                              "Copy kernels also on a GPU that several ranks use; recommended only with MPS.",
                              "several ranks share a GPU under MPS");

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

bool device_shared(Ordinal device) {
  return !setting_shared.is("on") && (shared_devices.load(std::memory_order_relaxed) >> device & 1) != 0;
}

Result<EnqueueKernel> load_enqueue_kernel() {
  EnqueueKernel kernel;
  Code code = load_module(Source::enqueue, kernel.module);
  if (code != kSuccess)
    return Error(Errc::unsupported,
                 "the kernels of enqueued operations are missing: " + load_failure_reason(code));
  code = find_function(kernel.module, "weft_enqueue", kernel.any);
  if (code == kSuccess) code = find_function(kernel.module, "weft_enqueue_small", kernel.few);
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
