// SPDX-License-Identifier: BSD-3-Clause
#include "base/trace.hpp"

#include <cstdio>

#include "base/clock.hpp"
#include "base/nvtx.hpp"
#include "base/recorder.hpp"

namespace weft::trace {
namespace detail {

bool on = false;

void push(const char* name) {
  if (recorder::enabled()) recorder::push(name);
  if (nvtx::enabled()) nvtx::push(name);
}

void pop() {
  if (nvtx::enabled()) nvtx::pop();
  if (recorder::enabled()) recorder::pop();
}

void annotate(const Details& details) {
  if (recorder::enabled()) recorder::annotate(details);
  if (!nvtx::enabled()) return;
  char text[64] = "bytes";
  if (details.tag >= 0) std::snprintf(text, sizeof text, "bytes; peer %d, tag %d", details.peer, details.tag);
  nvtx::mark(text, details.bytes);
}

void record_copy(const char* stream, uint64_t since, uint64_t bytes) {
  if (recorder::enabled()) recorder::copy(stream, since, bytes);
}

}  // namespace detail

uint64_t copy_start() { return recorder::enabled() ? monotonic_ns() : 0; }

Status open() {
  WEFT_TRY(nvtx::open());
  WEFT_TRY(recorder::open());
  detail::on = nvtx::enabled() || recorder::enabled();
  return {};
}

}  // namespace weft::trace
