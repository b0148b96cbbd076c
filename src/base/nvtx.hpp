// SPDX-License-Identifier: BSD-3-Clause
// NVTX: ranges for profilers. NVTX_INJECTION64_PATH names the profiler's library. Only trace.cpp uses it.
#pragma once
#include <cstdint>

#include "base/result.hpp"

namespace weft::nvtx {

/// Attaches to a profiler according to trace.nvtx. Fails only if the setting is `on` and no profiler
/// attaches.
[[nodiscard]] Status open();
[[nodiscard]] bool enabled();

// If enabled:
void push(const char* name);
void pop();
/// A mark with a payload, in profilers that support domains.
void mark(const char* text, uint64_t bytes);

}  // namespace weft::nvtx
