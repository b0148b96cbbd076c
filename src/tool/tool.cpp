// SPDX-License-Identifier: BSD-3-Clause
// Tool interface: start and end, locks, strings, objects that handles are bound to.
#include "tool/tool.hpp"

#include <algorithm>
#include <cstring>

#include "api/entry_point.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "base/clock.hpp"

namespace weft::tool {

using api::g_instance, api::g_state, api::State, api::to_communicator, api::to_file, api::to_window;

namespace {

int user_count = 0;  // MPI_T_init_thread calls without their MPI_T_finalize

std::unique_lock<core::InstanceLock> lock_instance() {
  if (g_instance == nullptr || !g_instance->threaded || in_callback()) return {};
  return std::unique_lock<core::InstanceLock>(g_instance->lock);
}

}  // namespace

std::recursive_mutex& interface_lock() {
  static auto& lock = *new std::recursive_mutex;  // never destroyed: static destructors may call MPI_T
  return lock;
}

Call::Call() : lock_(interface_lock()), code_(user_count != 0 ? MPI_SUCCESS : MPI_T_ERR_NOT_INITIALIZED) {}

ObjectCall::ObjectCall()
    : instance_(lock_instance()),
      lock_(interface_lock()),
      code_(user_count == 0 ? MPI_T_ERR_NOT_INITIALIZED
            : in_callback() ? MPI_T_ERR_NOT_ACCESSIBLE
                            : MPI_SUCCESS) {}

void copy_string(const std::string& from, char* text, int* length) {
  if (length == nullptr) return;
  if (text != nullptr && *length > 0) {
    const size_t copied = std::min(from.size(), static_cast<size_t>(*length) - 1);
    std::memcpy(text, from.data(), copied);
    text[copied] = '\0';
  }
  *length = static_cast<int>(from.size()) + 1;
}

bool bind(int kind, const void* address, Binding& binding) {
  binding = {};
  binding.kind = kind;
  if (kind == MPI_T_BIND_NO_OBJECT) return true;
  if (address == nullptr || g_state.load() != State::running) return false;
  std::memcpy(&binding.handle, address, sizeof binding.handle);
  if (kind == MPI_T_BIND_MPI_COMM) {
    const core::Communicator* comm = to_communicator(static_cast<MPI_Comm>(binding.handle));
    if (comm != nullptr) binding.id = comm->id;
    return comm != nullptr;
  }
  if (kind == MPI_T_BIND_MPI_WIN) {
    const rma::Window* window = to_window(static_cast<MPI_Win>(binding.handle));
    if (window != nullptr) binding.id = window->comm->id;
    return window != nullptr;
  }
  const io::File* file = to_file(static_cast<MPI_File>(binding.handle));
  if (file != nullptr) binding.id = file->comm->id;
  return file != nullptr;
}

bool bound(const Binding& binding) {
  Binding now;
  return bind(binding.kind, &binding.handle, now) && now.id == binding.id;
}

}  // namespace weft::tool

namespace weft::api::impl {

int T_init_thread(int required, int* provided) {
  // Variables have the values of the environment before MPI_Init, too.
  if (g_state.load() == State::before_init && g_instance == nullptr)
    if (!config::load()) return MPI_T_ERR_CANNOT_INIT;
  (void)required;  // all functions take locks at every level
  const std::lock_guard guard(tool::interface_lock());
  (void)tool::tables();
  ++tool::user_count;
  tool::assign(provided, static_cast<int>(MPI_THREAD_MULTIPLE));
  return MPI_SUCCESS;
}

int T_finalize() {
  WEFT_TOOL_CALL(ObjectCall);
  if (--tool::user_count != 0) return MPI_SUCCESS;
  tool::free_cvar_handles();
  tool::free_sessions();
  tool::free_registrations();
  return MPI_SUCCESS;
}

int T_enum_get_info(MPI_T_enum enumtype, int* num, char* name, int* name_len) {
  WEFT_TOOL_CALL(Call);
  for (const MPI_T_enum_t& known : tool::tables().enums) {
    if (&known != enumtype) continue;
    tool::assign(num, static_cast<int>(known.items.size()));
    tool::copy_string(known.name, name, name_len);
    return MPI_SUCCESS;
  }
  return MPI_T_ERR_INVALID_HANDLE;
}

int T_enum_get_item(MPI_T_enum enumtype, int indx, int* value, char* name, int* name_len) {
  WEFT_TOOL_CALL(Call);
  for (const MPI_T_enum_t& known : tool::tables().enums) {
    if (&known != enumtype) continue;
    if (tool::check_index(known.items, indx) != MPI_SUCCESS) return MPI_T_ERR_INVALID_ITEM;
    tool::assign(value, indx);
    tool::copy_string(known.items[static_cast<size_t>(indx)], name, name_len);
    return MPI_SUCCESS;
  }
  return MPI_T_ERR_INVALID_HANDLE;
}

int T_source_get_num(int* num_sources) {
  WEFT_TOOL_CALL(Call);
  if (num_sources == nullptr) return MPI_T_ERR_INVALID;
  *num_sources = 1;
  return MPI_SUCCESS;
}

int T_source_get_info(int source_index, char* name, int* name_len, char* desc, int* desc_len,
                      MPI_T_source_order* ordering, MPI_Count* ticks_per_second, MPI_Count* max_ticks,
                      MPI_Info* info) {
  if (info != nullptr) {  // before the lock is taken: info objects have a lock of their own
    {
      WEFT_TOOL_CALL(Call);
      if (source_index != 0) return MPI_T_ERR_INVALID_INDEX;
      if (tool::in_callback()) return MPI_T_ERR_NOT_ACCESSIBLE;
    }
    if (PMPI_Info_create(info) != MPI_SUCCESS) return MPI_T_ERR_MEMORY;
  }
  WEFT_TOOL_CALL(Call);
  if (source_index != 0) return MPI_T_ERR_INVALID_INDEX;
  tool::copy_string("process", name, name_len);
  tool::copy_string("All events of this process, with times of CLOCK_MONOTONIC in nanoseconds", desc,
                    desc_len);
  tool::assign(ordering, MPI_T_SOURCE_ORDERED);
  tool::assign(ticks_per_second, MPI_Count{1'000'000'000});
  tool::assign(max_ticks, MPI_Count{INT64_MAX});
  return MPI_SUCCESS;
}

int T_source_get_timestamp(int source_index, MPI_Count* timestamp) {
  WEFT_TOOL_CALL(Call);
  if (source_index != 0) return MPI_T_ERR_INVALID_INDEX;
  if (timestamp == nullptr) return MPI_T_ERR_INVALID;
  *timestamp = static_cast<MPI_Count>(monotonic_ns());
  return MPI_SUCCESS;
}

}  // namespace weft::api::impl
