// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/data_kernels.hpp"

#include "base/log.hpp"
#include "device/cuda/image.hpp"

namespace weft::device::cuda {
namespace {

log::SlowPath no_kernels{"gpu.no_data_kernels",
                         "reductions in GPU memory run on the CPU, strided data is copied run by run"};

}  // namespace

DataKernels load_data_kernels() {
  DataKernels kernels;
  Code code = load_module(Source::reduce, kernels.modules[0]);
  if (code == kSuccess) code = find_function(kernels.modules[0], "weft_reduce", kernels.reduce);
  if (code == kSuccess) code = find_function(kernels.modules[0], "weft_scale", kernels.scale);
  if (code == kSuccess) code = load_module(Source::pack, kernels.modules[1]);
  if (code == kSuccess) code = load_module(Source::window, kernels.modules[2]);
  const auto find = [&](const char* name, Function& function, size_t module = 1) {
    if (code == kSuccess) code = find_function(kernels.modules[module], name, function);
  };
  find("weft_pack", kernels.pack);
  find("weft_pack_flat", kernels.pack_flat);
  find("weft_pack_tiles", kernels.pack_tiles);
  find("weft_pack_tiles_flat", kernels.pack_tiles_flat);
  find("weft_accumulate", kernels.accumulate, 2);
  find("weft_window_sync", kernels.window_sync, 2);
  if (code == kSuccess) return kernels;
  no_kernels.hit(load_failure_reason(code));
  unload(kernels);
  return {};
}

void unload(const DataKernels& kernels) {
  for (const Module module : kernels.modules)
    if (module != nullptr) driver().module_unload(module);
}

}  // namespace weft::device::cuda
