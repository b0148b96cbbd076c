// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/kernels.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"

#ifdef WEFT_HAVE_KERNELS
extern "C" const unsigned char weft_fatbin_copy[];
#endif

namespace weft::device {
namespace {

// Bit n: ranks of other processes use device n. Without MPS processes take turns on a GPU, and a resident
// kernel wastes its process's.
std::atomic<uint64_t> shared_gpus{0};

}  // namespace

void note_shared(int device) {
  if (device >= 0 && device < 64) shared_gpus.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
}

namespace cuda {
namespace {

config::Choice setting_shared("gpu.shared_kernels", 0, {"off", "on"},
                              "Copy by kernels also on a GPU that several ranks use: good under MPS");

log::SlowPath no_kernels{"gpu.no_kernels", "small GPU messages take about twice as long"};

/// The kernels of this build; without any, those of a driver that has them itself.
const void* image() {
#ifdef WEFT_HAVE_KERNELS
  return weft_fatbin_copy;
#else
  const void* own = nullptr;
  if (driver().kernel_image != nullptr) driver().kernel_image(&own);
  return own;
#endif
}

Code find(const Kernels& kernels, const char* name, Function& function) {
  const Code code = driver().module_get_function(&function, kernels.module, name);
  if (code != kSuccess || driver().func_load == nullptr) return code;
  return driver().func_load(function);  // now: a lazy load would wait for running kernels later
}

bool is_one(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

}  // namespace

bool launches_return() { return !is_one("CUDA_LAUNCH_BLOCKING") && !is_one("CUDA_DEVICE_MAX_CONNECTIONS"); }

bool shared(Ordinal device) { return (shared_gpus.load(std::memory_order_relaxed) >> device & 1) != 0; }

Kernels load_kernels() {
  Kernels kernels;
  const void* const code_of = image();
  if (code_of == nullptr) {
    no_kernels.hit("this build has none (no nvcc when it was built)");
    return kernels;
  }
  Code code = driver().module_load_data(&kernels.module, code_of);
  if (code == kSuccess) code = find(kernels, "weft_copy_list", kernels.copy_list);
  if (code == kSuccess) code = find(kernels, "weft_copier", kernels.copier);
  if (code == kSuccess) return kernels;
  no_kernels.hit("the driver did not load them (" + describe(code) + ")");
  if (kernels.module != nullptr) driver().module_unload(kernels.module);
  return {};
}

}  // namespace cuda
}  // namespace weft::device
