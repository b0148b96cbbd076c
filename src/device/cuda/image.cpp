// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/image.hpp"

#include "base/cold.hpp"
#include "base/config.hpp"

namespace weft::device::cuda {

#ifdef WEFT_HAVE_KERNELS
extern "C" const unsigned char weft_fatbin_copy[], weft_fatbin_enqueue[], weft_fatbin_reduce[],
    weft_fatbin_pack[], weft_fatbin_collective[], weft_fatbin_blocks[], weft_fatbin_window[];
#define WEFT_FATBIN(name) weft_fatbin_##name
#else
#define WEFT_FATBIN(name) nullptr
#endif

namespace {

config::Choice setting_kernels("gpu.kernels", 0, {"auto", "off"},
                               "GPU kernels: auto (if driver and GPU support them), off.",
                               "the kernels do not work with this driver or GPU");

constexpr int kCuda12 = 12000;

/// The fat binary of a source, or the image of the emulated driver. Null: not available.
const void* image_of(Source source) {
  if (setting_kernels.is("off")) return nullptr;
  static const void* const fat_binaries[] = {WEFT_FATBIN(copy),  WEFT_FATBIN(enqueue),    WEFT_FATBIN(reduce),
                                             WEFT_FATBIN(pack),  WEFT_FATBIN(collective), WEFT_FATBIN(blocks),
                                             WEFT_FATBIN(window)};
  const void* image = driver().version >= kCuda12 ? fat_binaries[static_cast<size_t>(source)] : nullptr;
  if (image == nullptr && driver().kernel_image != nullptr) driver().kernel_image(&image);
  return image;
}

}  // namespace

Code load_module(Source source, Module& module) {
  const void* const image = image_of(source);
  if (image == nullptr) return kNoBinary;
  const cold::Timer timer(cold::Part::kernels);
  const Code code = driver().module_load_data(&module, image);
  if (code != kSuccess) module = nullptr;
  return code;
}

Code find_function(Module module, const char* name, Function& function) {
  const cold::Timer timer(cold::Part::kernels);
  const Code code = driver().module_get_function(&function, module, name);
  if (code != kSuccess || driver().func_load == nullptr) return code;
  return driver().func_load(function);
}

std::string load_failure_reason(Code code) {
  if (code != kNoBinary) return "the driver did not load them (" + describe(code) + ")";
  if (setting_kernels.is("off")) return "switched off by WEFT_GPU_KERNELS=off";
  return "this build has no kernels for this driver and GPU: they need a driver of CUDA 12 or newer (525) "
         "and a "
         "GPU of Volta or newer";
}

}  // namespace weft::device::cuda
