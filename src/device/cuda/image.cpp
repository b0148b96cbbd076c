// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/image.hpp"

#include <algorithm>
#include <array>

#include "base/config.hpp"

namespace weft::device::cuda {
namespace {

/// Machine code for one compute capability; a table ends with generation 0 (tools/setup/cubins.py).
struct Cubin {
  int generation;
  const void* code;
};

}  // namespace

#ifdef WEFT_HAVE_KERNELS
extern "C" const unsigned char weft_fatbin_copy[], weft_fatbin_enqueue[], weft_fatbin_reduce[],
    weft_fatbin_pack[], weft_fatbin_collective[], weft_fatbin_window[];
#define WEFT_FATBIN(name) weft_fatbin_##name
#else
#define WEFT_FATBIN(name) nullptr
#endif
#ifdef WEFT_HAVE_CUBINS
extern "C" const Cubin weft_cubins_copy[], weft_cubins_enqueue[], weft_cubins_reduce[], weft_cubins_pack[],
    weft_cubins_collective[], weft_cubins_window[];
#define WEFT_CUBINS(name) weft_cubins_##name
#else
#define WEFT_CUBINS(name) nullptr
#endif

namespace {

config::Choice setting_kernels(
    "gpu.kernels", 0, {"auto", "cuda13", "cuda12", "off"},
    "Build of the GPU kernels: auto (CUDA 13, or CUDA 12 if driver or GPU is too old), cuda13, "
    "cuda12, off (no kernels).",
    "the chosen build of the kernels does not work with this driver or GPU");

constexpr int kCuda12 = 12000, kCuda13 = 13000;

struct Builds {
  const void* fatbin;
  const Cubin* cubins;
};
const Builds& builds_of(Source source) {
  static const Builds all[] = {{WEFT_FATBIN(copy), WEFT_CUBINS(copy)},
                               {WEFT_FATBIN(enqueue), WEFT_CUBINS(enqueue)},
                               {WEFT_FATBIN(reduce), WEFT_CUBINS(reduce)},
                               {WEFT_FATBIN(pack), WEFT_CUBINS(pack)},
                               {WEFT_FATBIN(collective), WEFT_CUBINS(collective)},
                               {WEFT_FATBIN(window), WEFT_CUBINS(window)}};
  return all[static_cast<size_t>(source)];
}

/// The newest machine code for the current GPU: code runs on later minor versions of the same major version.
const void* fitting(const Cubin* cubins) {
  Ordinal device = 0;
  int major = 0, minor = 0;
  if (cubins == nullptr || driver().ctx_get_device(&device) != kSuccess ||
      driver().device_get_attribute(&major, kDeviceCapabilityMajor, device) != kSuccess ||
      driver().device_get_attribute(&minor, kDeviceCapabilityMinor, device) != kSuccess)
    return nullptr;
  const void* best = nullptr;
  for (; cubins->generation != 0; ++cubins)
    if (cubins->generation / 10 == major && cubins->generation % 10 <= minor) best = cubins->code;
  return best;
}

/// Images to try in this order; null: not available. Without any, the image of the emulated driver.
std::array<const void*, 3> images_of(Source source) {
  if (setting_kernels.is("off")) return {};
  const Builds& builds = builds_of(source);
  std::array<const void*, 3> images{};
  if (driver().version >= kCuda13 && !setting_kernels.is("cuda12")) images[0] = builds.fatbin;
  if (driver().version >= kCuda12 && !setting_kernels.is("cuda13")) images[1] = fitting(builds.cubins);
  if (images[0] == nullptr && images[1] == nullptr && driver().kernel_image != nullptr)
    driver().kernel_image(&images[2]);
  return images;
}

}  // namespace

Code load_module(Source source, Module& module) {
  Code code = kNoBinary;
  for (const void* image : images_of(source)) {
    if (image == nullptr) continue;
    code = driver().module_load_data(&module, image);
    if (code == kSuccess) break;
    module = nullptr;
  }
  return code;
}

Code find_function(Module module, const char* name, Function& function) {
  const Code code = driver().module_get_function(&function, module, name);
  if (code != kSuccess || driver().func_load == nullptr) return code;
  return driver().func_load(function);
}

std::string load_failure_reason(Code code) {
  if (code != kNoBinary) return "the driver did not load them (" + describe(code) + ")";
  if (setting_kernels.is("off")) return "switched off by WEFT_GPU_KERNELS=off";
  return "this build has no kernels for this driver and GPU: update the driver to 580 or newer, or build "
         "with "
         "CUDA 12 kernels";
}

}  // namespace weft::device::cuda
