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
extern "C" const unsigned char weft_fatbin_copy[], weft_fatbin_enqueue[];
#define WEFT_IMAGE(name) weft_fatbin_##name
#else
#define WEFT_IMAGE(name) nullptr
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
const void* image_of(const unsigned char* own) {
  const void* image = own;
  if (image == nullptr && driver().kernel_image != nullptr) driver().kernel_image(&image);
  return image;
}

Code find(Module module, const char* name, Function& function) {
  const Code code = driver().module_get_function(&function, module, name);
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

Result<EnqueueKernel> load_enqueue_kernel() {
  const void* const image = image_of(WEFT_IMAGE(enqueue));
  if (image == nullptr)
    return Error(Errc::unsupported,
                 "this build has no GPU kernels (no nvcc when it was built): nothing can be enqueued");
  EnqueueKernel kernel;
  WEFT_CUDA_TRY(module_load_data, "the kernel of enqueued operations cannot be loaded", &kernel.module,
                image);
  Code code = find(kernel.module, "weft_enqueue", kernel.any);
  if (code == kSuccess) code = find(kernel.module, "weft_enqueue_few", kernel.few);
  if (code == kSuccess) return kernel;
  driver().module_unload(kernel.module);
  return failure(code, "cuModuleGetFunction", "the kernel of enqueued operations cannot be loaded");
}

Kernels load_kernels() {
  Kernels kernels;
  const void* const code_of = image_of(WEFT_IMAGE(copy));
  if (code_of == nullptr) {
    no_kernels.hit("this build has none (no nvcc when it was built)");
    return kernels;
  }
  Code code = driver().module_load_data(&kernels.module, code_of);
  if (code == kSuccess) code = find(kernels.module, "weft_copy_list", kernels.copy_list);
  if (code == kSuccess) code = find(kernels.module, "weft_copier", kernels.copier);
  if (code == kSuccess) return kernels;
  no_kernels.hit("the driver did not load them (" + describe(code) + ")");
  if (kernels.module != nullptr) driver().module_unload(kernels.module);
  return {};
}

}  // namespace cuda
}  // namespace weft::device
