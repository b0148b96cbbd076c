// SPDX-License-Identifier: BSD-3-Clause
// Machine code of Weft's kernels, and which of its builds is loaded: nvcc's of CUDA 13 or, for older drivers
// and GPUs, that of CUDA 12 (docs/adr/0002).
#pragma once
#include <cstdint>
#include <string>

#include "device/cuda/driver.hpp"

namespace weft::device::cuda {

/// A source file of kernel/.
enum class Source : uint8_t { copy, enqueue, reduce, pack, collective };

inline constexpr Code kNoBinary = 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU

/// Loads the kernels of a source into the current context. kNoBinary: no build of them fits.
[[nodiscard]] Code load_module(Source source, Module& module);
/// A kernel of a module, loaded now: a lazy load would wait for running kernels later.
[[nodiscard]] Code find_function(Module module, const char* name, Function& function);
/// What load_module's or find_function's failure means, in words.
[[nodiscard]] std::string why_not_loaded(Code code);

}  // namespace weft::device::cuda
