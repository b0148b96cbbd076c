// SPDX-License-Identifier: BSD-3-Clause
// Loading of Weft's kernels (docs/adr/0002).
#pragma once
#include <cstdint>
#include <string>

#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

/// A .cu file of kernel/.
enum class Source : uint8_t { copy, enqueue, reduce, pack, collective, blocks, window };

inline constexpr Code kNoBinary = 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU

/// Loads the kernels of a source into the current context. kNoBinary: no build fits driver and GPU.
[[nodiscard]] Code load_module(Source source, Module& module);
/// Finds and loads a kernel of a module. A lazy load later would wait for running kernels.
[[nodiscard]] Code find_function(Module module, const char* name, Function& function);
/// Reason for a failure of load_module() or find_function().
[[nodiscard]] std::string load_failure_reason(Code code);

}  // namespace weft::device::cuda
