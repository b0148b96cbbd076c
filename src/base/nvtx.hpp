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
/// Payload of a mark; its layout is declared to the profiler (nvtx.cpp).
struct Payload {
  uint64_t bytes;
  int32_t peer, tag;
  uint64_t communicator;
};
/// A mark with a payload, in profilers that support domains: all fields if the profiler supports the payload
/// extension, else the bytes.
void mark(const char* text, const Payload& payload);

}  // namespace weft::nvtx
