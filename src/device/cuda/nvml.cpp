// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/nvml.hpp"

#include <dlfcn.h>

#include <mutex>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/secure.hpp"

namespace weft::device::cuda {
namespace {

config::Path setting_nvml("gpu.nvml_library", "libnvidia-ml.so.1",
                          "Name or path of NVML, which tells whether NVLink connects GPUs that "
                          "CUDA_VISIBLE_DEVICES hides.");

log::SlowPath links_unknown{
    "gpu.links_unknown",
    "collectives on GPU memory do not use LL128, up to 1.5 times slower at 128 KiB to 2 MiB"};

using NvmlDevice = void*;  // nvmlDevice_t

/// The used functions of NVML; all return 0 on success (nvmlReturn_t).
struct NvmlLibrary {
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*p2p_status)(NvmlDevice, NvmlDevice, int, unsigned*) = nullptr;
  std::string unusable;  // reason; empty: usable
};

template <class F>
bool resolve(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(handle, name));
  return function != nullptr;
}

NvmlLibrary open_nvml() {
  NvmlLibrary library;
  const std::string& path = setting_nvml.value();
  void* handle = secure::open_library(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    library.unusable = path + " cannot be loaded (" + secure::open_error() + ")";
  else if (!resolve(handle, "nvmlInit_v2", library.init) ||
           !resolve(handle, "nvmlDeviceGetHandleByUUID", library.by_uuid) ||
           !resolve(handle, "nvmlDeviceGetP2PStatus", library.p2p_status))
    library.unusable = path + " lacks functions";
  else if (const int code = library.init(); code != 0)
    library.unusable = "nvmlInit: error " + std::to_string(code);
  return library;
}

const NvmlLibrary& nvml_library() {
  static const NvmlLibrary& instance = *new NvmlLibrary(open_nvml());
  return instance;
}

}  // namespace

bool nvml_reports_nvlink(const Uuid& one, const Uuid& other) {
  constexpr int kNvlink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
  const NvmlLibrary& nvml = nvml_library();
  NvmlDevice devices[2]{};
  unsigned status = 0;  // NVML_P2P_STATUS_OK
  int code = 0;
  if (nvml.unusable.empty()) {
    code = nvml.by_uuid(text(one).c_str(), &devices[0]);
    if (code == 0) code = nvml.by_uuid(text(other).c_str(), &devices[1]);
    if (code == 0) code = nvml.p2p_status(devices[0], devices[1], kNvlink, &status);
    if (code == 0) return status == 0;
  }
  links_unknown.hit("GPUs are hidden by CUDA_VISIBLE_DEVICES, and NVML does not tell how they are linked: " +
                    (nvml.unusable.empty() ? "error " + std::to_string(code) : nvml.unusable));
  return false;
}

}  // namespace weft::device::cuda
