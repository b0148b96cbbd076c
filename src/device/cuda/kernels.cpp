// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/kernels.hpp"

#include "base/log.hpp"

#ifdef WEFT_HAVE_KERNELS
extern "C" const unsigned char weft_fatbin_copy[];
#endif

namespace weft::device::cuda {
namespace {

log::SlowPath no_kernels{"gpu.no_kernels", "small GPU messages take about twice as long"};

#ifdef WEFT_HAVE_KERNELS
Code find(const Kernels& kernels, const char* name, Function& function) {
  const Code code = driver().module_get_function(&function, kernels.module, name);
  if (code != kSuccess || driver().func_load == nullptr) return code;
  return driver().func_load(function);  // now: a lazy load would wait for running kernels later
}
#endif

}  // namespace

Kernels load_kernels() {
  Kernels kernels;
#ifdef WEFT_HAVE_KERNELS
  Code code = driver().module_load_data(&kernels.module, weft_fatbin_copy);
  if (code == kSuccess) code = find(kernels, "weft_copy_list", kernels.copy_list);
  if (code == kSuccess) code = find(kernels, "weft_copier", kernels.copier);
  if (code == kSuccess) return kernels;
  no_kernels.hit("the driver did not load them (" + describe(code) + ")");
  if (kernels.module != nullptr) driver().module_unload(kernels.module);
#else
  no_kernels.hit("this build has none (no nvcc when it was built)");
#endif
  return {};
}

}  // namespace weft::device::cuda
