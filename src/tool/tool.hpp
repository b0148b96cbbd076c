// SPDX-License-Identifier: BSD-3-Clause
// Tool: state of the tool information interface (MPI 5.0 chapter 15). Variables, events and categories are
// tables over the settings, counters and events of all layers. Threading: under Call or ObjectCall.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/events.hpp"
#include "base/slab.hpp"
#include "core/instance.hpp"

struct MPI_T_enum_t {
  std::string name;
  std::vector<std::string> items;  ///< the value of an item is its index
};

namespace weft::tool {

/// The object of a handle: its kind (MPI_T_BIND_*), handle value and a number that no later object has.
struct Binding {
  int kind = MPI_T_BIND_NO_OBJECT;
  void* handle = nullptr;
  uint64_t id = 0;
};

/// A setting, or the value that a communicator has for it instead.
struct ControlVariable {
  std::string name;
  config::Setting* setting;
  MPI_T_enum_t* words;  ///< null: not a choice
  int binding;
};

/// A counter, or a value computed from the state of the library or of an MPI object.
struct PerformanceVariable {
  std::string name;
  const char* help;
  int variable_class;
  const counters::Counter* counter;  ///< null: computed by read()
  /// Under the instance lock: stores count() values, or one.
  void (*read)(const Binding&, uint64_t* values) = nullptr;
  int binding = MPI_T_BIND_NO_OBJECT;
  /// Readonly and continuous: it has one value for all handles. Others count since their start.
  bool level = true;
  int (*count)(const Binding&) = nullptr;  ///< null: one value
};

struct Event {
  std::string name;
  events::Event* event;
  MPI_T_enum_t* fields;  ///< names of the elements
};

struct Category {
  std::string name, help;
  std::vector<int> cvars, pvars, events, categories;
};

/// Made at the first MPI_T_init_thread, and constant afterwards.
struct Tables {
  Tables();
  std::vector<ControlVariable> cvars;
  std::vector<PerformanceVariable> pvars;
  std::vector<Event> events;
  std::vector<Category> categories;
  std::deque<MPI_T_enum_t> enums;  // stable addresses

 private:
  MPI_T_enum_t* add_enum(std::string name, std::vector<std::string> items);
  void add_cvars();
  void add_pvars();
  void add_categories();
};
[[nodiscard]] const Tables& tables();
/// Index of the variable of a counter; -1: none.
[[nodiscard]] int index_of(const counters::Counter* counter);

/// Recursive: callbacks of events call functions of the interface.
[[nodiscard]] std::recursive_mutex& interface_lock();

/// A function that runs under the lock of the interface. The instance lock is taken before that lock, never
/// after it.
class Call {
 public:
  Call();
  /// MPI_SUCCESS, or MPI_T_ERR_NOT_INITIALIZED.
  [[nodiscard]] int code() const { return code_; }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  int code_;
};

/// The same for functions that use or change state of MPI itself: they also hold the instance lock. A
/// callback of an event may run under that lock, so there they return MPI_T_ERR_NOT_ACCESSIBLE.
class ObjectCall {
 public:
  ObjectCall();
  [[nodiscard]] int code() const { return code_; }

 private:
  std::unique_lock<core::InstanceLock> instance_;
  std::unique_lock<std::recursive_mutex> lock_;
  int code_;
};

/// Whether this thread runs a callback of an event.
[[nodiscard]] bool in_callback();

/// Copies a name as the interface does: `length` holds the capacity of `text` and becomes the length with the
/// terminating zero. Null pointers: nothing is copied or returned.
void copy_string(const std::string& from, char* text, int* length);
template <class T>
void assign(T* to, T value) {
  if (to != nullptr) *to = value;
}
/// MPI_T_ERR_INVALID_INDEX unless `index` is one of `table`.
template <class Table>
[[nodiscard]] int check_index(const Table& table, int index) {
  return index >= 0 && static_cast<size_t>(index) < table.size() ? MPI_SUCCESS : MPI_T_ERR_INVALID_INDEX;
}
/// Index of the element with this name; -1: none.
template <class Table>
[[nodiscard]] int find_name(const Table& table, const char* name) {
  for (size_t i = 0; name != nullptr && i < table.size(); ++i)
    if (table[i].name == name) return static_cast<int>(i);
  return -1;
}

/// Resolves the object that `address` points to. Returns false if it is no live object of `kind`. Under
/// ObjectCall.
[[nodiscard]] bool bind(int kind, const void* address, Binding& binding);
/// Returns whether the object still exists. Under ObjectCall.
[[nodiscard]] bool bound(const Binding& binding);

/// End of the last user: frees all handles. Under ObjectCall.
void free_cvar_handles();
void free_sessions();
void free_registrations();

}  // namespace weft::tool

/// Returns the error of a call that cannot begin.
#define WEFT_TOOL_CALL(type)        \
  const weft::tool::type tool_call; \
  if (tool_call.code() != MPI_SUCCESS) return tool_call.code()
