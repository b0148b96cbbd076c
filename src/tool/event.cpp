// SPDX-License-Identifier: BSD-3-Clause
// Events (MPI 5.0 section 15.3.8): event types, registrations, callbacks, instances. A callback runs in the
// thread that raises the event, inside of MPI and under the lock of the interface, so that events have the
// order of their times.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "api/entry_point.hpp"
#include "api/impl.hpp"
#include "base/clock.hpp"
#include "tool/tool.hpp"

namespace tool = weft::tool;

namespace weft::tool {

using api::g_instance;

struct Callback {
  MPI_T_event_cb_function* function = nullptr;
  void* user_data = nullptr;
};
constexpr MPI_T_cb_safety kLevels[] = {MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED,
                                       MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};

}  // namespace weft::tool

struct MPI_T_event_registration_t {
  const tool::Event* event;
  tool::Binding object;
  tool::Callback callbacks[std::size(tool::kLevels)];  // by index in kLevels
  MPI_T_event_dropped_cb_function* dropped_handler = nullptr;
  MPI_Count dropped = 0;  // instances since the last call of the handler
};
struct MPI_T_event_instance_t {
  const tool::Event* event;
  const uint64_t* values;
  uint64_t time_ns;
};

namespace weft::tool {
namespace {

thread_local const MPI_T_event_instance_t* current = nullptr;  // its callbacks run

Slab<MPI_T_event_registration_t>& registrations() {
  static auto& slab = *new Slab<MPI_T_event_registration_t>;
  return slab;
}

bool is_live(MPI_T_event_registration registration) {
  return registrations().check(registration) == HandleState::live;
}

int level_of(MPI_T_cb_safety safety) {
  const auto* const at = std::find(std::begin(kLevels), std::end(kLevels), safety);
  return at == std::end(kLevels) ? -1 : static_cast<int>(at - std::begin(kLevels));
}

/// The least safe of the registered callbacks that is safe enough; null: none.
const Callback* select(const MPI_T_event_registration_t& registration, int level) {
  for (size_t i = static_cast<size_t>(level); i < std::size(kLevels); ++i)
    if (registration.callbacks[i].function != nullptr) return &registration.callbacks[i];
  return nullptr;
}

/// Reports dropped instances, with the user data of the callback for this level.
void report_dropped(MPI_T_event_registration_t& registration, int level) {
  if (registration.dropped == 0 || registration.dropped_handler == nullptr) return;
  const Callback* const callback = select(registration, level);
  const MPI_Count count = std::exchange(registration.dropped, 0);
  registration.dropped_handler(count, &registration, 0, kLevels[level],
                               callback == nullptr ? nullptr : callback->user_data);
}

template <class F>
void for_registrations(const events::Event& event, uint64_t object, F&& f) {
  registrations().for_each([&](MPI_T_event_registration_t& registration) {
    if (registration.event->event != &event) return;
    if (registration.object.kind != MPI_T_BIND_NO_OBJECT && registration.object.id != object) return;
    f(registration);
  });
}

/// The sink of all events. An event that a callback causes itself is dropped.
void deliver(const events::Event& event, std::initializer_list<uint64_t> values, uint64_t object) {
  const std::lock_guard lock(interface_lock());
  if (in_callback()) {
    for_registrations(event, object,
                      [](MPI_T_event_registration_t& registration) { ++registration.dropped; });
    return;
  }
  const bool threads = g_instance != nullptr && g_instance->threaded;
  const int level = level_of(threads ? MPI_T_CB_REQUIRE_THREAD_SAFE : MPI_T_CB_REQUIRE_MPI_RESTRICTED);
  MPI_T_event_instance_t instance{nullptr, values.begin(), monotonic_ns()};
  current = &instance;
  for_registrations(event, object, [&](MPI_T_event_registration_t& registration) {
    const Callback* const callback = select(registration, level);
    if (callback == nullptr) ++registration.dropped;
    report_dropped(registration, level);
    if (callback == nullptr) return;
    instance.event = registration.event;
    callback->function(&instance, &registration, kLevels[level], callback->user_data);
  });
  current = nullptr;
}

/// An event is wanted while a callback is registered for it.
void update_wanted(const Event& event) {
  bool wanted = false;
  registrations().for_each([&](const MPI_T_event_registration_t& registration) {
    wanted = wanted || (registration.event == &event && select(registration, 0) != nullptr);
  });
  event.event->set_wanted(wanted);
}

MPI_Datatype type_of(const events::Field& field) {
  return field.type == events::Type::amount ? MPI_UNSIGNED_LONG_LONG : MPI_INT;
}
size_t size_of(const events::Field& field) { return field.type == events::Type::amount ? 8 : 4; }

/// Byte displacements of the fields in the buffer of MPI_T_event_copy, each aligned to its size.
MPI_Aint next_displacement(MPI_Aint end, const events::Field& field) {
  const auto size = static_cast<MPI_Aint>(size_of(field));
  return (end + size - 1) / size * size;
}

void store(const events::Field& field, uint64_t value, void* buffer) {
  if (field.type == events::Type::amount) {
    std::memcpy(buffer, &value, sizeof value);
    return;
  }
  const int number = field.type == events::Type::counter
                         ? index_of(reinterpret_cast<const counters::Counter*>(value))
                         : static_cast<int>(value);
  std::memcpy(buffer, &number, sizeof number);
}

/// A new info object; for choices it has the keys "weft_values_FIELD": the names of the values, with commas.
int describe_values(int index, MPI_Info* info) {
  {
    WEFT_TOOL_CALL(Call);
    if (const int code = check_index(tables().events, index); code != MPI_SUCCESS) return code;
    if (in_callback()) return MPI_T_ERR_NOT_ACCESSIBLE;
  }
  if (PMPI_Info_create(info) != MPI_SUCCESS) return MPI_T_ERR_MEMORY;
  for (const events::Field& field : tables().events[static_cast<size_t>(index)].event->fields()) {
    if (field.words == nullptr) continue;
    std::string names;
    for (const char* word : field.words()) names.append(names.empty() ? "" : ",").append(word);
    if (PMPI_Info_set(*info, (std::string("weft_values_") + field.name).c_str(), names.c_str()) !=
        MPI_SUCCESS)
      return MPI_T_ERR_MEMORY;
  }
  return MPI_SUCCESS;
}

/// Registrations and callbacks have no hints: those of the program are ignored, as MPI allows.
int no_hints(MPI_T_event_registration registration, MPI_T_cb_safety safety, MPI_Info* info) {
  {
    WEFT_TOOL_CALL(ObjectCall);
    if (!is_live(registration)) return MPI_T_ERR_INVALID_HANDLE;
    if (level_of(safety) < 0 || info == nullptr) return MPI_T_ERR_INVALID;
  }
  return PMPI_Info_create(info) == MPI_SUCCESS ? MPI_SUCCESS : MPI_T_ERR_MEMORY;
}

}  // namespace

bool in_callback() { return current != nullptr; }

void free_registrations() {
  registrations().for_each([](MPI_T_event_registration_t& one) { registrations().destroy(&one); });
  for (const Event& event : tables().events) event.event->set_wanted(false);
}

}  // namespace weft::tool

namespace weft::api::impl {

int T_event_get_num(int* num_events) {
  WEFT_TOOL_CALL(Call);
  if (num_events == nullptr) return MPI_T_ERR_INVALID;
  *num_events = static_cast<int>(tool::tables().events.size());
  return MPI_SUCCESS;
}

int T_event_get_info(int event_index, char* name, int* name_len, int* verbosity,
                     MPI_Datatype* array_of_datatypes, MPI_Aint* array_of_displacements, int* num_elements,
                     MPI_T_enum* enumtype, MPI_Info* info, char* desc, int* desc_len, int* bind) {
  if (info != nullptr)  // before the lock is taken: info objects have a lock of their own
    if (const int code = tool::describe_values(event_index, info); code != MPI_SUCCESS) return code;
  WEFT_TOOL_CALL(Call);
  const auto& table = tool::tables().events;
  if (const int code = tool::check_index(table, event_index); code != MPI_SUCCESS) return code;
  const tool::Event& event = table[static_cast<size_t>(event_index)];
  const auto& fields = event.event->fields();
  const size_t capacity =
      num_elements == nullptr || *num_elements < 0 ? 0 : static_cast<size_t>(*num_elements);
  MPI_Aint end = 0;
  for (size_t i = 0; i < std::min(capacity, fields.size()); ++i) {
    const MPI_Aint displacement = tool::next_displacement(end, fields[i]);
    if (array_of_datatypes != nullptr) array_of_datatypes[i] = tool::type_of(fields[i]);
    if (array_of_displacements != nullptr) array_of_displacements[i] = displacement;
    end = displacement + static_cast<MPI_Aint>(tool::size_of(fields[i]));
  }
  tool::assign(num_elements, static_cast<int>(fields.size()));
  tool::copy_string(event.name, name, name_len);
  tool::copy_string(event.event->help(), desc, desc_len);
  tool::assign(verbosity, int{MPI_T_VERBOSITY_USER_DETAIL});
  tool::assign(enumtype, MPI_T_enum{event.fields});
  tool::assign(bind, event.event->binding() == events::Binding::none ? int{MPI_T_BIND_NO_OBJECT}
                                                                     : int{MPI_T_BIND_MPI_COMM});
  return MPI_SUCCESS;
}

int T_event_get_index(const char* name, int* event_index) {
  WEFT_TOOL_CALL(Call);
  if (event_index == nullptr) return MPI_T_ERR_INVALID;
  const int found = tool::find_name(tool::tables().events, name);
  if (found < 0) return MPI_T_ERR_INVALID_NAME;
  *event_index = found;
  return MPI_SUCCESS;
}

int T_event_handle_alloc(int event_index, void* obj_handle, MPI_Info,
                         MPI_T_event_registration* event_registration) {
  WEFT_TOOL_CALL(ObjectCall);
  const auto& table = tool::tables().events;
  if (const int code = tool::check_index(table, event_index); code != MPI_SUCCESS) return code;
  if (event_registration == nullptr) return MPI_T_ERR_INVALID;
  const tool::Event& event = table[static_cast<size_t>(event_index)];
  const bool of_object = event.event->binding() != events::Binding::none;
  tool::Binding object;
  if (!tool::bind(of_object ? MPI_T_BIND_MPI_COMM : MPI_T_BIND_NO_OBJECT, obj_handle, object))
    return MPI_T_ERR_INVALID_HANDLE;
  MPI_T_event_registration_t made{};
  made.event = &event;
  made.object = object;
  MPI_T_event_registration const stored = tool::registrations().create(made);
  if (stored == nullptr) return MPI_T_ERR_OUT_OF_HANDLES;
  *event_registration = stored;
  return MPI_SUCCESS;
}

int T_event_handle_free(MPI_T_event_registration event_registration, void* user_data,
                        MPI_T_event_free_cb_function free_cb_function) {
  {
    WEFT_TOOL_CALL(ObjectCall);
    if (!tool::is_live(event_registration)) return MPI_T_ERR_INVALID_HANDLE;
    const tool::Event& event = *event_registration->event;
    tool::registrations().destroy(event_registration);
    tool::update_wanted(event);
  }
  // No callback of the registration runs or begins any more.
  if (free_cb_function != nullptr) free_cb_function(event_registration, MPI_T_CB_REQUIRE_NONE, user_data);
  return MPI_SUCCESS;
}

int T_event_handle_get_info(MPI_T_event_registration event_registration, MPI_Info* info_used) {
  return tool::no_hints(event_registration, MPI_T_CB_REQUIRE_NONE, info_used);
}

int T_event_handle_set_info(MPI_T_event_registration event_registration, MPI_Info) {
  WEFT_TOOL_CALL(Call);
  return tool::is_live(event_registration) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

int T_event_callback_get_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                              MPI_Info* info_used) {
  return tool::no_hints(event_registration, cb_safety, info_used);
}

int T_event_callback_set_info(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                              MPI_Info) {
  WEFT_TOOL_CALL(Call);
  if (!tool::is_live(event_registration)) return MPI_T_ERR_INVALID_HANDLE;
  return tool::level_of(cb_safety) < 0 ? MPI_T_ERR_INVALID : MPI_SUCCESS;
}

int T_event_register_callback(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                              MPI_Info, void* user_data, MPI_T_event_cb_function event_cb_function) {
  WEFT_TOOL_CALL(ObjectCall);
  if (!tool::is_live(event_registration)) return MPI_T_ERR_INVALID_HANDLE;
  const int level = tool::level_of(cb_safety);
  if (level < 0) return MPI_T_ERR_INVALID;
  event_registration->callbacks[level] = {event_cb_function, user_data};
  events::set_sink(tool::deliver);
  tool::update_wanted(*event_registration->event);
  return MPI_SUCCESS;
}

int T_event_set_dropped_handler(MPI_T_event_registration event_registration,
                                MPI_T_event_dropped_cb_function dropped_cb_function) {
  WEFT_TOOL_CALL(ObjectCall);
  if (!tool::is_live(event_registration)) return MPI_T_ERR_INVALID_HANDLE;
  event_registration->dropped_handler = dropped_cb_function;
  return MPI_SUCCESS;
}

int T_event_read(MPI_T_event_instance event_instance, int element_index, void* buffer) {
  WEFT_TOOL_CALL(Call);
  if (event_instance == nullptr || event_instance != tool::current) return MPI_T_ERR_INVALID_HANDLE;
  const auto& fields = event_instance->event->event->fields();
  if (const int code = tool::check_index(fields, element_index); code != MPI_SUCCESS) return code;
  if (buffer == nullptr) return MPI_T_ERR_INVALID;
  const auto i = static_cast<size_t>(element_index);
  tool::store(fields[i], event_instance->values[i], buffer);
  return MPI_SUCCESS;
}

int T_event_copy(MPI_T_event_instance event_instance, void* buffer) {
  WEFT_TOOL_CALL(Call);
  if (event_instance == nullptr || event_instance != tool::current) return MPI_T_ERR_INVALID_HANDLE;
  if (buffer == nullptr) return MPI_T_ERR_INVALID;
  const auto& fields = event_instance->event->event->fields();
  MPI_Aint end = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    const MPI_Aint displacement = tool::next_displacement(end, fields[i]);
    tool::store(fields[i], event_instance->values[i], static_cast<char*>(buffer) + displacement);
    end = displacement + static_cast<MPI_Aint>(tool::size_of(fields[i]));
  }
  return MPI_SUCCESS;
}

int T_event_get_timestamp(MPI_T_event_instance event_instance, MPI_Count* event_timestamp) {
  WEFT_TOOL_CALL(Call);
  if (event_instance == nullptr || event_instance != tool::current) return MPI_T_ERR_INVALID_HANDLE;
  if (event_timestamp == nullptr) return MPI_T_ERR_INVALID;
  *event_timestamp = static_cast<MPI_Count>(event_instance->time_ns);
  return MPI_SUCCESS;
}

int T_event_get_source(MPI_T_event_instance event_instance, int* source_index) {
  WEFT_TOOL_CALL(Call);
  if (event_instance == nullptr || event_instance != tool::current) return MPI_T_ERR_INVALID_HANDLE;
  if (source_index == nullptr) return MPI_T_ERR_INVALID;
  *source_index = 0;
  return MPI_SUCCESS;
}

}  // namespace weft::api::impl
