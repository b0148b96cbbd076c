// SPDX-License-Identifier: BSD-3-Clause
// Extensions: the functions of weft.h that may be called at any time from any thread.
#include <weft.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "api/entry_point.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/profile.hpp"
#include "base/site.hpp"
#include "coll/dispatch/explain.hpp"
#include "device/memory.hpp"
#include "io/file/explain.hpp"
#include "p2p/p2p.hpp"
#include "rma/explain.hpp"

namespace {

/// Copies `text` into `size` bytes, truncated and terminated. `length`: untruncated length.
int copy_text_out(const std::string& text, char* buffer, int size, int* length) {
  if (length != nullptr) *length = static_cast<int>(text.size());
  if (size < 0 || (buffer == nullptr && size > 0)) return MPI_ERR_ARG;
  if (size == 0) return MPI_SUCCESS;
  const size_t copied = std::min(text.size(), static_cast<size_t>(size) - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = '\0';
  return MPI_SUCCESS;
}

/// Copies the result of `describe(query)`, or the message of its error.
template <class Describe>
int explain(Describe&& describe, const char* query, char* text, int size, int* length) {
  if (weft::api::g_state.load() == weft::api::State::before_init)
    if (auto read = weft::config::load(); !read) {
      copy_text_out(read.error().message(), text, size, length);
      return MPI_ERR_ARG;
    }
  weft::Result<std::string> result = weft::Error(weft::Errc::arg, "query is a null pointer");
  if (auto opened = weft::device::open(); !opened)
    result = std::move(opened).error();
  else if (query != nullptr)
    result = describe(query);
  const int copied = copy_text_out(result ? *result : result.error().message(), text, size, length);
  return result ? copied : MPI_ERR_ARG;
}

}  // namespace

extern "C" {

WEFT_EXPORT int PMPIX_Query_cuda_support(void) { return weft::device::available() ? 1 : 0; }
WEFT_ALIAS(MPIX_Query_cuda_support, (void));

WEFT_EXPORT int PMPIX_Last_error_message(char* message, int size, int* length) {
  return copy_text_out(weft::api::last_error().message, message, size, length);
}
WEFT_ALIAS(MPIX_Last_error_message, (char* message, int size, int* length));

WEFT_EXPORT int PMPIX_Settings(char* text, int size, int* length) {
  using weft::config::name_of;
  if (weft::api::g_state.load() == weft::api::State::before_init)
    if (auto read = weft::config::load(); !read) {
      copy_text_out(read.error().message(), text, size, length);
      return MPI_ERR_ARG;
    }
  std::string lines;
  for (const auto* setting : weft::config::all()) {
    lines += setting->variable() + '\t' + setting->value_text() + '\t' + setting->default_text() + '\t' +
             origin_text(*setting) + '\t' + name_of(setting->level()) + '\t' + setting->range_text() + '\t' +
             setting->help + '\t' + (setting->change_when == nullptr ? "" : setting->change_when) + '\n';
  }
  return copy_text_out(lines, text, size, length);
}
WEFT_ALIAS(MPIX_Settings, (char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Counters(char* text, int size, int* length) {
  std::string lines;
  for (const auto* counter : weft::counters::all())
    lines += std::string(counter->name()) + '\t' + std::to_string(counter->value()) + '\t' +
             name_of(counter->unit()) + '\t' + counter->help() + '\n';
  return copy_text_out(lines, text, size, length);
}
WEFT_ALIAS(MPIX_Counters, (char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Machine_name(char* text, int size, int* length) {
  return copy_text_out(weft::config::machine_name(), text, size, length);
}
WEFT_ALIAS(MPIX_Machine_name, (char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Job_name(char* text, int size, int* length) {
  const weft::core::Instance* const instance = weft::api::g_instance;
  return copy_text_out(instance == nullptr ? "" : instance->exchange->job().id, text, size, length);
}
WEFT_ALIAS(MPIX_Job_name, (char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Describe_paths(char* text, int size, int* length) {
  const auto state = weft::api::g_state.load();
  if (state == weft::api::State::before_init)
    if (auto read = weft::config::load(); !read) {
      copy_text_out(read.error().message(), text, size, length);
      return MPI_ERR_ARG;
    }
  if (state == weft::api::State::before_init) static_cast<void>(weft::device::open());
  return copy_text_out(weft::p2p::describe_paths(weft::api::g_instance), text, size, length);
}
WEFT_ALIAS(MPIX_Describe_paths, (char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Explain_send(const char* query, char* text, int size, int* length) {
  return explain(weft::p2p::explain_send, query, text, size, length);
}
WEFT_ALIAS(MPIX_Explain_send, (const char* query, char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Explain_collective(const char* query, char* text, int size, int* length) {
  return explain(weft::coll::explain, query, text, size, length);
}
WEFT_ALIAS(MPIX_Explain_collective, (const char* query, char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Explain_file(const char* query, char* text, int size, int* length) {
  return explain(weft::io::explain, query, text, size, length);
}
WEFT_ALIAS(MPIX_Explain_file, (const char* query, char* text, int size, int* length));

WEFT_EXPORT int PMPIX_Explain_window(const char* query, char* text, int size, int* length) {
  return explain(weft::rma::explain, query, text, size, length);
}
WEFT_ALIAS(MPIX_Explain_window, (const char* query, char* text, int size, int* length));

}  // extern "C"
