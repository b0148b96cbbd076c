// SPDX-License-Identifier: BSD-3-Clause
#include "base/trace.hpp"

#include <algorithm>
#include <string>

#include "base/clock.hpp"
#include "base/nvtx.hpp"
#include "base/recorder.hpp"
#include "base/stats.hpp"

namespace weft::trace {
namespace detail {

bool on = false;

void push(const char* name) {
  if (recorder::enabled()) recorder::push(name);
  if (nvtx::enabled()) nvtx::push(name);
  if (stats::enabled()) stats::push(name);
}

void pop() {
  if (stats::enabled()) stats::pop();
  if (nvtx::enabled()) nvtx::pop();
  if (recorder::enabled()) recorder::pop();
}

void annotate(const Details& details) {
  if (stats::enabled() && !details.step) stats::annotate(details.bytes);
  if (recorder::enabled()) recorder::annotate(details);
  if (!nvtx::enabled()) return;
  std::string text = "bytes; ";
  if (details.peer >= 0) text += "peer " + std::to_string(details.peer) + ", ";
  if (details.tag >= 0) text += "tag " + std::to_string(details.tag) + ", ";
  text += "communicator " + std::to_string(details.communicator);
  nvtx::mark(text.c_str(),
             {details.bytes, std::max(details.peer, -1), std::max(details.tag, -1), details.communicator});
}

void record_copy(const char* stream, uint64_t since, uint64_t bytes) {
  if (recorder::enabled()) recorder::copy(stream, since, bytes);
}

}  // namespace detail

uint64_t copy_start() { return recorder::enabled() ? monotonic_ns() : 0; }

Status open() {
  WEFT_TRY(nvtx::open());
  WEFT_TRY(recorder::open());
  stats::open();
  detail::on = nvtx::enabled() || recorder::enabled() || stats::enabled();
  return {};
}

void keep_on() { detail::on = true; }

}  // namespace weft::trace
