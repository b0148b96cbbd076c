// SPDX-License-Identifier: BSD-3-Clause
// Error messages of the argument checks.
#include "api/check.hpp"

#include <atomic>
#include <string>
#include <string_view>

#include "api/caller.hpp"
#include "api/handles.hpp"
#include "api/objects.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "core/instance.hpp"

namespace weft::api {

config::Choice g_check_setting(
    "check", static_cast<int>(Check::arguments), {"arguments", "off", "gpu", "on"},
    "Checks in every MPI call. arguments: of all arguments; gpu: also finds buffers that queued GPU work "
    "changes while a call uses them; on: also compares the arguments of blocking collectives over all ranks "
    "and the datatypes of messages with those of their receives, and reports requests, objects and messages "
    "that MPI_Finalize finds and uses of extensions; off: only handles are checked.",
    "you look for mistakes in a program (on), or the program has been tested and its smallest messages must "
    "be as fast as possible (off)");

namespace {

config::Choice setting_summary(
    "check.summary", 0, {"off", "on"},
    "A line at the end of each process that counts its calls and compared buffers, for "
    "`weft check`.");

/// Reports of one process; later ones are dropped, since a loop may repeat a mistake without end.
constexpr int kMaxReports = 100;

std::string name_and_value(const char* name, MPI_Count value) {
  return std::string(name) + " = " + std::to_string(value);
}

std::string ranks(int size) { return std::to_string(size) + (size == 1 ? " rank" : " ranks"); }

std::string range(int size) { return size == 1 ? "0" : "0 to " + std::to_string(size - 1); }

}  // namespace

void report(const std::string& message) {
  static std::atomic<int> reports{0};
  const int number = ++reports;
  if (number > kMaxReports) return;
  log::write(log::Level::warn, "WEFT_CHECK: %s%s", message.c_str(),
             number == kMaxReports ? " (later reports are not shown)" : "");
}

void report_summary(core::Instance& instance) {
  if (setting_summary.is("off")) return;
  std::string text = "calls=" + std::to_string(instance.waits.table().calls.load(std::memory_order_relaxed));
  for (const counters::Counter* counter : counters::all())
    if (std::string_view(counter->name()).substr(0, 10) == "check.gpu_")
      text += " " + std::string(counter->name()).substr(6) + "=" + std::to_string(counter->value());
  log::write(log::Level::warn, "WEFT_CHECK summary: %s", text.c_str());
}

size_t find_negative(const CountArray& values, size_t n) {
  size_t i = 0;
  while (i < n && values[i] >= 0) ++i;
  return i;
}

size_t find_bad_datatype(const MPI_Datatype* handles, size_t n, bool committed) {
  size_t i = 0;
  for (; i < n; ++i) {
    const datatype::Datatype* type = to_datatype(handles[i]);
    if (type == nullptr || (committed && !type->committed())) break;
  }
  return i;
}

Status null_name(const char* handle, char* name, int* resultlen) {
  if (name == nullptr || resultlen == nullptr) return null_pointer(name == nullptr ? "name" : "resultlen");
  copy_text(handle, name, MPI_MAX_OBJECT_NAME, resultlen);
  return {};
}

Error null_pointer(const char* name) {
  return {Errc::arg, std::string(name) + " is a null pointer: pass the address of a variable"};
}

Error negative(Errc code, const char* name, MPI_Count value) {
  return {code, name_and_value(name, value) + ": must not be negative"};
}

Error negative_at(Errc code, const char* name, size_t index, MPI_Count value) {
  return negative(code, element_name(name, index).c_str(), value);
}

Error bad_datatype_at(const char* name, size_t index, MPI_Datatype handle) {
  const datatype::Datatype* type = to_datatype(handle);
  if (type != nullptr) return uncommitted(element_name(name, index).c_str(), *type);
  return bad_handle_at(HandleKind::datatype, name, index, handle);
}

Error uncommitted(const char* name, const datatype::Datatype& type) {
  const std::string what = type.name().empty() ? "a derived type" : type.name();
  return {Errc::type, std::string(name) + " is not committed (" + what + "): call MPI_Type_commit first"};
}

Error bad_rank(const char* name, int value, int size, bool wildcard) {
  return {Errc::rank, name_and_value(name, value) + " (communicator has " + ranks(size) + "): use " +
                          range(size) +
                          (wildcard ? ", MPI_ANY_SOURCE or MPI_PROC_NULL" : ", or MPI_PROC_NULL")};
}

Error bad_group_rank(const char* name, int value, int size) {
  return {Errc::rank, name_and_value(name, value) + " (there are " + ranks(size) + "): use " + range(size)};
}

Error bad_root(const char* name, int value, const core::Communicator& comm) {
  std::string message = name_and_value(name, value) + " (communicator has " + ranks(comm.remote_size()) +
                        "): use " + range(comm.remote_size());
  if (comm.inter()) message += ", MPI_ROOT or MPI_PROC_NULL";
  return {Errc::root, message};
}

Error bad_tag(const char* name, int value, bool wildcard) {
  return {Errc::tag, name_and_value(name, value) + ": use 0 to " + std::to_string(kTagUpperBound) +
                         (wildcard ? ", or MPI_ANY_TAG" : "")};
}

Error too_large(const char* name, MPI_Count value) {
  return {Errc::value_too_large,
          name_and_value(name, value) + " does not fit an int: use the large-count variant of the call (_c)"};
}

}  // namespace weft::api
