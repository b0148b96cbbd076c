// SPDX-License-Identifier: BSD-3-Clause
// Performance variables (MPI 5.0 section 15.3.7): the counters. A total counts for each handle while it is
// started; levels and high-water marks are the same for all handles.
#include <cstring>

#include "api/impl.hpp"
#include "tool/tool.hpp"

namespace tool = weft::tool;

struct MPI_T_pvar_session_t {};
struct MPI_T_pvar_handle_t {
  MPI_T_pvar_session session;
  const tool::PerformanceVariable* variable;
  tool::Binding object;
  // Totals: the value is `counted`, and while running also what the counter has gained since `start`.
  uint64_t counted = 0, start = 0;
  bool running = false;
  [[nodiscard]] uint64_t value() const {
    if (variable->level) return variable->counter->value();
    return running ? counted + (variable->counter->value() - start) : counted;
  }
  void set(uint64_t value) {
    counted = value;
    start = variable->counter->value();
  }
};

namespace weft::tool {
namespace {

Slab<MPI_T_pvar_session_t>& sessions() {
  static auto& slab = *new Slab<MPI_T_pvar_session_t>;
  return slab;
}
Slab<MPI_T_pvar_handle_t>& handles() {
  static auto& slab = *new Slab<MPI_T_pvar_handle_t>;
  return slab;
}

int check_session(MPI_T_pvar_session session) {
  return sessions().check(session) == HandleState::live ? MPI_SUCCESS : MPI_T_ERR_INVALID_SESSION;
}

/// Checks a session, and a handle of it that is not MPI_T_PVAR_ALL_HANDLES.
int check(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  if (const int code = check_session(session); code != MPI_SUCCESS) return code;
  if (handles().check(handle) != HandleState::live || handle->session != session)
    return MPI_T_ERR_INVALID_HANDLE;
  return MPI_SUCCESS;
}

void store(void* buf, uint64_t value) { std::memcpy(buf, &value, sizeof value); }

void start(MPI_T_pvar_handle_t& handle) {
  if (handle.running) return;
  handle.start = handle.variable->counter->value();
  handle.running = true;
}

void stop(MPI_T_pvar_handle_t& handle) {
  handle.counted = handle.value();
  handle.running = false;
}

/// Applies `change` to a handle, or to all of the session that it is not refused for. `refused`: the error of
/// levels.
template <class Change>
int change(MPI_T_pvar_session session, MPI_T_pvar_handle handle, int refused, Change&& change) {
  if (handle == MPI_T_PVAR_ALL_HANDLES) {
    if (const int code = check_session(session); code != MPI_SUCCESS) return code;
    handles().for_each([&](MPI_T_pvar_handle_t& one) {
      if (one.session == session && !one.variable->level) change(one);
    });
    return MPI_SUCCESS;
  }
  if (const int code = check(session, handle); code != MPI_SUCCESS) return code;
  if (handle->variable->level) return refused;
  change(*handle);
  return MPI_SUCCESS;
}

/// Reads a variable that is computed under the instance lock.
int read_computed(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
  WEFT_TOOL_CALL(ObjectCall);
  if (const int code = check(session, handle); code != MPI_SUCCESS) return code;
  if (handle->variable->read == nullptr || !bound(handle->object)) return MPI_T_ERR_INVALID_HANDLE;
  handle->variable->read(handle->object, static_cast<uint64_t*>(buf));
  return MPI_SUCCESS;
}

void free_handles_of(MPI_T_pvar_session session) {
  handles().for_each([&](MPI_T_pvar_handle_t& handle) {
    if (handle.session == session) handles().destroy(&handle);
  });
}

}  // namespace

void free_sessions() {
  handles().for_each([](MPI_T_pvar_handle_t& handle) { handles().destroy(&handle); });
  sessions().for_each([](MPI_T_pvar_session_t& session) { sessions().destroy(&session); });
}

}  // namespace weft::tool

namespace weft::api::impl {

int T_pvar_get_num(int* num_pvar) {
  WEFT_TOOL_CALL(Call);
  if (num_pvar == nullptr) return MPI_T_ERR_INVALID;
  *num_pvar = static_cast<int>(tool::tables().pvars.size());
  return MPI_SUCCESS;
}

int T_pvar_get_info(int pvar_index, char* name, int* name_len, int* verbosity, int* var_class,
                    MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind,
                    int* readonly, int* continuous, int* atomic) {
  WEFT_TOOL_CALL(Call);
  const auto& table = tool::tables().pvars;
  if (const int code = tool::check_index(table, pvar_index); code != MPI_SUCCESS) return code;
  const tool::PerformanceVariable& variable = table[static_cast<size_t>(pvar_index)];
  tool::copy_string(variable.name, name, name_len);
  tool::assign(verbosity, int{MPI_T_VERBOSITY_USER_DETAIL});
  tool::assign(var_class, variable.variable_class);
  tool::assign(datatype, MPI_UNSIGNED_LONG_LONG);
  tool::assign(enumtype, MPI_T_ENUM_NULL);
  tool::copy_string(variable.help, desc, desc_len);
  tool::assign(bind, variable.binding);
  tool::assign(readonly, int{variable.level});
  tool::assign(continuous, int{variable.level});
  tool::assign(atomic, int{!variable.level});
  return MPI_SUCCESS;
}

int T_pvar_get_index(const char* name, int var_class, int* pvar_index) {
  WEFT_TOOL_CALL(Call);
  if (pvar_index == nullptr) return MPI_T_ERR_INVALID;
  const int found = tool::find_name(tool::tables().pvars, name);
  if (found < 0 || tool::tables().pvars[static_cast<size_t>(found)].variable_class != var_class)
    return MPI_T_ERR_INVALID_NAME;
  *pvar_index = found;
  return MPI_SUCCESS;
}

int T_pvar_session_create(MPI_T_pvar_session* pe_session) {
  WEFT_TOOL_CALL(Call);
  if (pe_session == nullptr) return MPI_T_ERR_INVALID;
  MPI_T_pvar_session_t* const made = tool::sessions().create();
  if (made == nullptr) return MPI_T_ERR_OUT_OF_SESSIONS;
  *pe_session = made;
  return MPI_SUCCESS;
}

int T_pvar_session_free(MPI_T_pvar_session* pe_session) {
  WEFT_TOOL_CALL(Call);
  if (pe_session == nullptr || tool::check_session(*pe_session) != MPI_SUCCESS)
    return MPI_T_ERR_INVALID_SESSION;
  tool::free_handles_of(*pe_session);
  tool::sessions().destroy(*pe_session);
  *pe_session = MPI_T_PVAR_SESSION_NULL;
  return MPI_SUCCESS;
}

int T_pvar_handle_alloc(MPI_T_pvar_session pe_session, int pvar_index, void* obj_handle,
                        MPI_T_pvar_handle* handle, int* count) {
  WEFT_TOOL_CALL(ObjectCall);
  if (const int code = tool::check_session(pe_session); code != MPI_SUCCESS) return code;
  const auto& table = tool::tables().pvars;
  if (const int code = tool::check_index(table, pvar_index); code != MPI_SUCCESS) return code;
  if (handle == nullptr) return MPI_T_ERR_INVALID;
  const tool::PerformanceVariable& variable = table[static_cast<size_t>(pvar_index)];
  tool::Binding object;
  if (!tool::bind(variable.binding, obj_handle, object)) return MPI_T_ERR_INVALID_HANDLE;
  MPI_T_pvar_handle_t* const made =
      tool::handles().create(MPI_T_pvar_handle_t{pe_session, &variable, object});
  if (made == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
  *handle = made;
  tool::assign(count, variable.count != nullptr ? variable.count(object) : 1);
  return MPI_SUCCESS;
}

int T_pvar_handle_free(MPI_T_pvar_session pe_session, MPI_T_pvar_handle* handle) {
  WEFT_TOOL_CALL(Call);
  if (const int code = tool::check_session(pe_session); code != MPI_SUCCESS) return code;
  if (handle == nullptr) return MPI_T_ERR_INVALID_HANDLE;
  if (const int code = tool::check(pe_session, *handle); code != MPI_SUCCESS) return code;
  tool::handles().destroy(*handle);
  *handle = MPI_T_PVAR_HANDLE_NULL;
  return MPI_SUCCESS;
}

int T_pvar_start(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  WEFT_TOOL_CALL(Call);
  return tool::change(pe_session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, tool::start);
}

int T_pvar_stop(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  WEFT_TOOL_CALL(Call);
  return tool::change(pe_session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, tool::stop);
}

int T_pvar_reset(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  WEFT_TOOL_CALL(Call);
  return tool::change(pe_session, handle, MPI_T_ERR_PVAR_NO_WRITE,
                      [](MPI_T_pvar_handle_t& one) { one.set(0); });
}

int T_pvar_read(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, void* buf) {
  {
    WEFT_TOOL_CALL(Call);
    if (const int code = tool::check(pe_session, handle); code != MPI_SUCCESS) return code;
    if (buf == nullptr) return MPI_T_ERR_INVALID;
    if (handle->variable->read == nullptr) {
      tool::store(buf, handle->value());
      return MPI_SUCCESS;
    }
  }
  return tool::read_computed(pe_session, handle, buf);
}

int T_pvar_write(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, const void* buf) {
  WEFT_TOOL_CALL(Call);
  if (const int code = tool::check(pe_session, handle); code != MPI_SUCCESS) return code;
  if (handle->variable->level) return MPI_T_ERR_PVAR_NO_WRITE;
  if (buf == nullptr) return MPI_T_ERR_INVALID;
  uint64_t value = 0;
  std::memcpy(&value, buf, sizeof value);
  handle->set(value);
  return MPI_SUCCESS;
}

int T_pvar_readreset(MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, void* buf) {
  WEFT_TOOL_CALL(Call);
  if (const int code = tool::check(pe_session, handle); code != MPI_SUCCESS) return code;
  if (handle->variable->level) return MPI_T_ERR_PVAR_NO_ATOMIC;
  if (buf == nullptr) return MPI_T_ERR_INVALID;
  const uint64_t now = handle->variable->counter->value();
  tool::store(buf, handle->running ? handle->counted + (now - handle->start) : handle->counted);
  handle->counted = 0;
  handle->start = now;
  return MPI_SUCCESS;
}

}  // namespace weft::api::impl
