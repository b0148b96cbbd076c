// SPDX-License-Identifier: BSD-3-Clause
// Control variables (MPI 5.0 section 15.3.6): the settings, and for communicators the settings that info
// hints override.
#include <cstring>

#include "api/handles.hpp"
#include "api/hints.hpp"
#include "api/impl.hpp"
#include "base/scope.hpp"
#include "base/secure.hpp"
#include "coll/schedule/hints.hpp"
#include "tool/tool.hpp"

namespace tool = weft::tool;

struct MPI_T_cvar_handle_t {
  const tool::ControlVariable* variable;
  tool::Binding object;
};

namespace weft::tool {

using api::apply_hints, api::g_instance, api::to_communicator;

namespace {

constexpr int kMaxText = 4096;  // characters of a text, with the terminating zero

Slab<MPI_T_cvar_handle_t>& cvar_handles() {
  static auto& slab = *new Slab<MPI_T_cvar_handle_t>;
  return slab;
}

enum class Value { count, choice, text };

Value value_of(const ControlVariable& variable) {
  if (variable.words != nullptr) return Value::choice;
  return dynamic_cast<const config::Size*>(variable.setting) != nullptr ? Value::count : Value::text;
}

int scope_of(const ControlVariable& variable) {
  if (variable.binding != MPI_T_BIND_NO_OBJECT) return MPI_T_SCOPE_GROUP_EQ;
  if (secure::execution()) return MPI_T_SCOPE_CONSTANT;
  switch (config::scope_of(*variable.setting)) {
    case config::Scope::host:
      return MPI_T_SCOPE_GROUP_EQ;
    case config::Scope::job:
      return MPI_T_SCOPE_ALL_EQ;
    case config::Scope::process:
      break;
  }
  return MPI_T_SCOPE_LOCAL;
}

MPI_Datatype type_of(const ControlVariable& variable) {
  switch (value_of(variable)) {
    case Value::count:
      return MPI_COUNT;
    case Value::choice:
      return MPI_INT;
    case Value::text:
      break;
  }
  return MPI_CHAR;
}

/// The value for the library, or for a communicator.
uint64_t number_of(const MPI_T_cvar_handle_t& handle) {
  const config::Setting& setting = *handle.variable->setting;
  const auto* choice = dynamic_cast<const config::Choice*>(&setting);
  const auto own = choice != nullptr
                       ? static_cast<uint64_t>(choice->index())
                       : static_cast<uint64_t>(size_t{static_cast<const config::Size&>(setting)});
  if (handle.object.kind == MPI_T_BIND_NO_OBJECT) return own;
  const core::Communicator* comm = to_communicator(static_cast<MPI_Comm>(handle.object.handle));
  return comm->info ? coll::hinted_value(*comm->info, setting, own) : own;
}

void read(const MPI_T_cvar_handle_t& handle, void* buf) {
  if (value_of(*handle.variable) == Value::text) {
    const std::string text = handle.variable->setting->value_text();
    const size_t length = text.copy(static_cast<char*>(buf), kMaxText - 1);
    static_cast<char*>(buf)[length] = '\0';
    return;
  }
  const uint64_t number = number_of(handle);
  if (value_of(*handle.variable) == Value::choice) {
    const auto narrow = static_cast<int>(number);
    std::memcpy(buf, &narrow, sizeof narrow);
  } else {
    std::memcpy(buf, &number, sizeof number);
  }
}

/// The text that config::Setting::parse() takes; false: a value of another kind.
bool text_of(const ControlVariable& variable, const void* buf, std::string& text) {
  if (value_of(variable) == Value::text) {
    text.assign(static_cast<const char*>(buf), ::strnlen(static_cast<const char*>(buf), kMaxText));
    return text.size() < kMaxText;
  }
  if (value_of(variable) == Value::count) {
    MPI_Count number = 0;
    std::memcpy(&number, buf, sizeof number);
    text = std::to_string(number);
    return true;
  }
  int index = 0;
  std::memcpy(&index, buf, sizeof index);
  if (check_index(variable.words->items, index) != MPI_SUCCESS) return false;
  text = variable.words->items[static_cast<size_t>(index)];
  return true;
}

int write_hint(const MPI_T_cvar_handle_t& handle, const std::string& text) {
  const core::Ref<core::Info> info(core::Info::create());
  if (!info) return MPI_T_ERR_MEMORY;
  info->set(coll::hint_key(*handle.variable->setting), text);
  core::Communicator& comm = *to_communicator(static_cast<MPI_Comm>(handle.object.handle));
  return apply_hints(comm, info.get()).ok() ? MPI_SUCCESS : MPI_T_ERR_INVALID;
}

int write_setting(config::Setting& setting, const std::string& text) {
  if (secure::execution()) return MPI_T_ERR_CVAR_SET_NEVER;
  // Most settings are read once at the start, and equal in all processes from then on.
  if (g_instance != nullptr && !config::adjustable(setting)) return MPI_T_ERR_CVAR_SET_NOT_NOW;
  if (!setting.parse(text)) return MPI_T_ERR_INVALID;
  setting.origin = config::Origin::tool;
  return MPI_SUCCESS;
}

}  // namespace

void free_cvar_handles() {
  cvar_handles().for_each([](MPI_T_cvar_handle_t& handle) { cvar_handles().destroy(&handle); });
}

}  // namespace weft::tool

namespace weft::api::impl {

using tool::cvar_handles;

int T_cvar_get_num(int* num_cvar) {
  WEFT_TOOL_CALL(Call);
  if (num_cvar == nullptr) return MPI_T_ERR_INVALID;
  *num_cvar = static_cast<int>(tool::tables().cvars.size());
  return MPI_SUCCESS;
}

int T_cvar_get_info(int cvar_index, char* name, int* name_len, int* verbosity, MPI_Datatype* datatype,
                    MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* scope) {
  WEFT_TOOL_CALL(Call);
  const auto& table = tool::tables().cvars;
  if (const int code = tool::check_index(table, cvar_index); code != MPI_SUCCESS) return code;
  const tool::ControlVariable& variable = table[static_cast<size_t>(cvar_index)];
  tool::copy_string(variable.name, name, name_len);
  tool::assign(verbosity, variable.setting->level() == config::Level::user
                              ? int{MPI_T_VERBOSITY_USER_BASIC}
                              : int{MPI_T_VERBOSITY_MPIDEV_BASIC});
  tool::assign(datatype, tool::type_of(variable));
  tool::assign(enumtype, MPI_T_enum{variable.words});
  tool::copy_string(variable.setting->help, desc, desc_len);
  tool::assign(bind, variable.binding);
  tool::assign(scope, tool::scope_of(variable));
  return MPI_SUCCESS;
}

int T_cvar_get_index(const char* name, int* cvar_index) {
  WEFT_TOOL_CALL(Call);
  if (cvar_index == nullptr) return MPI_T_ERR_INVALID;
  const int found = tool::find_name(tool::tables().cvars, name);
  if (found < 0) return MPI_T_ERR_INVALID_NAME;
  *cvar_index = found;
  return MPI_SUCCESS;
}

int T_cvar_handle_alloc(int cvar_index, void* obj_handle, MPI_T_cvar_handle* handle, int* count) {
  WEFT_TOOL_CALL(ObjectCall);
  const auto& table = tool::tables().cvars;
  if (const int code = tool::check_index(table, cvar_index); code != MPI_SUCCESS) return code;
  if (handle == nullptr) return MPI_T_ERR_INVALID;
  const tool::ControlVariable& variable = table[static_cast<size_t>(cvar_index)];
  tool::Binding object;
  if (!tool::bind(variable.binding, obj_handle, object)) return MPI_T_ERR_INVALID_HANDLE;
  MPI_T_cvar_handle_t* const made = cvar_handles().create(MPI_T_cvar_handle_t{&variable, object});
  if (made == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
  *handle = made;
  tool::assign(count, tool::value_of(variable) == tool::Value::text ? tool::kMaxText : 1);
  return MPI_SUCCESS;
}

int T_cvar_handle_free(MPI_T_cvar_handle* handle) {
  WEFT_TOOL_CALL(Call);
  if (handle == nullptr || cvar_handles().check(*handle) != HandleState::live)
    return MPI_T_ERR_INVALID_HANDLE;
  cvar_handles().destroy(*handle);
  *handle = MPI_T_CVAR_HANDLE_NULL;
  return MPI_SUCCESS;
}

int T_cvar_read(MPI_T_cvar_handle handle, void* buf) {
  WEFT_TOOL_CALL(ObjectCall);
  if (cvar_handles().check(handle) != HandleState::live || !tool::bound(handle->object))
    return MPI_T_ERR_INVALID_HANDLE;
  if (buf == nullptr) return MPI_T_ERR_INVALID;
  tool::read(*handle, buf);
  return MPI_SUCCESS;
}

int T_cvar_write(MPI_T_cvar_handle handle, const void* buf) {
  WEFT_TOOL_CALL(ObjectCall);
  if (cvar_handles().check(handle) != HandleState::live || !tool::bound(handle->object))
    return MPI_T_ERR_INVALID_HANDLE;
  std::string text;
  if (buf == nullptr || !tool::text_of(*handle->variable, buf, text)) return MPI_T_ERR_INVALID;
  if (handle->object.kind != MPI_T_BIND_NO_OBJECT) return tool::write_hint(*handle, text);
  return tool::write_setting(*handle->variable->setting, text);
}

}  // namespace weft::api::impl
