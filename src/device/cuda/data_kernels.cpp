// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/data_kernels.hpp"

#include "base/log.hpp"

#ifdef WEFT_HAVE_KERNELS
extern "C" const unsigned char weft_fatbin_reduce[];
extern "C" const unsigned char weft_fatbin_pack[];
#define WEFT_IMAGE(name) weft_fatbin_##name
#else
#define WEFT_IMAGE(name) nullptr
#endif

namespace weft::device::cuda {
namespace {

log::SlowPath no_kernels{"gpu.no_data_kernels",
                         "reductions in GPU memory are computed by the CPU, strided data copied run by run"};

constexpr Code kNoBinary = 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU

/// A module's kernels; in builds without any, those of a driver that has them itself.
Code load(Module& module, const unsigned char* own) {
  const void* image = own;
  if (image == nullptr && driver().kernel_image != nullptr) driver().kernel_image(&image);
  return image == nullptr ? kNoBinary : driver().module_load_data(&module, image);
}

Code find(Module module, const char* name, Function& function) {
  const Code code = driver().module_get_function(&function, module, name);
  if (code != kSuccess || driver().func_load == nullptr) return code;
  return driver().func_load(function);  // now: a lazy load would wait for running kernels later
}

}  // namespace

DataKernels load_data_kernels() {
  DataKernels kernels;
  Code code = load(kernels.modules[0], WEFT_IMAGE(reduce));
  if (code == kSuccess) code = find(kernels.modules[0], "weft_reduce", kernels.reduce);
  if (code == kSuccess) code = load(kernels.modules[1], WEFT_IMAGE(pack));
  if (code == kSuccess) code = find(kernels.modules[1], "weft_pack", kernels.pack);
  if (code == kSuccess) return kernels;
  no_kernels.hit(code == kNoBinary ? "this build has none (no nvcc when it was built)"
                                   : "the driver did not load them (" + describe(code) + ")");
  unload(kernels);
  return {};
}

void unload(const DataKernels& kernels) {
  for (const Module module : kernels.modules)
    if (module != nullptr) driver().module_unload(module);
}

}  // namespace weft::device::cuda
