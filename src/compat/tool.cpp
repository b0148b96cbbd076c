// SPDX-License-Identifier: BSD-3-Clause
// Functions of the tool interface that take callbacks, or the address of the program's handle of an object.
#include <list>
#include <map>
#include <mutex>
#include <new>

#include "compat/handles.hpp"
#include "compat/translate.hpp"

namespace weft::compat {
namespace {

/// The native handle of the object that a variable or an event is bound to.
class ObjectIn {
 public:
  /// `binding`: MPI_T_BIND_*.
  ObjectIn(int binding, void* address) {
    if (address == nullptr) return;
    if (binding == MPI_T_BIND_MPI_COMM) {
      comm_ = in<Comm>(*static_cast<Handle*>(address));
      native_ = &comm_;
    } else if (binding == MPI_T_BIND_MPI_WIN) {
      win_ = in<Win>(*static_cast<Handle*>(address));
      native_ = &win_;
    } else if (binding == MPI_T_BIND_MPI_FILE) {
      file_ = in<File>(*static_cast<FileHandle*>(address));
      native_ = &file_;
    }
  }
  [[nodiscard]] void* address() const { return native_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win win_ = MPI_WIN_NULL;
  MPI_File file_ = MPI_FILE_NULL;
  void* native_ = nullptr;
};

struct Callback {
  MPI_T_event_cb_function* function;
  void* user_data;
};
struct FreeCallback {
  MPI_T_event_free_cb_function* function;
  void* user_data;
};

/// The program's functions of the event registrations.
struct Registration {
  MPI_T_event_dropped_cb_function* dropped = nullptr;
  std::list<Callback> callbacks;  // user data of the native callbacks; replaced ones stay
};
std::mutex registrations_lock;
std::map<MPI_T_event_registration, Registration>& registrations() {
  static auto& all = *new std::map<MPI_T_event_registration, Registration>;
  return all;
}

MPI_T_cb_safety foreign(MPI_T_cb_safety safety) {
  return static_cast<MPI_T_cb_safety>(out_callback_safety(safety));
}

void on_event(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety,
              void* data) {
  const auto& callback = *static_cast<const Callback*>(data);
  callback.function(instance, registration, foreign(safety), callback.user_data);
}

void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety,
                void* data) {
  MPI_T_event_dropped_cb_function* function = nullptr;
  {
    const std::lock_guard guard(registrations_lock);
    function = registrations()[registration].dropped;
  }
  const auto* const callback = static_cast<const Callback*>(data);
  if (function != nullptr)
    function(count, registration, source, foreign(safety),
             callback == nullptr ? nullptr : callback->user_data);
}

void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void* data) {
  const auto& callback = *static_cast<const FreeCallback*>(data);
  if (callback.function != nullptr) callback.function(registration, foreign(safety), callback.user_data);
}

}  // namespace

WEFT_COMPAT(int, T_cvar_handle_alloc, (int index, void* object, MPI_T_cvar_handle* handle, int* count)) {
  int binding = MPI_T_BIND_NO_OBJECT;
  native.T_cvar_get_info(index, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &binding,
                         nullptr);
  const ObjectIn native_object(binding, object);
  return out_error(native.T_cvar_handle_alloc(index, native_object.address(), handle, count));
}

WEFT_COMPAT(int, T_pvar_handle_alloc,
            (MPI_T_pvar_session session, int index, void* object, MPI_T_pvar_handle* handle, int* count)) {
  int binding = MPI_T_BIND_NO_OBJECT;
  native.T_pvar_get_info(index, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                         &binding, nullptr, nullptr, nullptr);
  const ObjectIn native_object(binding, object);
  return out_error(native.T_pvar_handle_alloc(session, index, native_object.address(), handle, count));
}

WEFT_COMPAT(int, T_event_handle_alloc,
            (int index, void* object, Handle info, MPI_T_event_registration* registration)) {
  int binding = MPI_T_BIND_NO_OBJECT;
  native.T_event_get_info(index, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                          nullptr, nullptr, &binding);
  const ObjectIn native_object(binding, object);
  return out_error(native.T_event_handle_alloc(index, native_object.address(), in<Info>(info), registration));
}

WEFT_COMPAT(int, T_event_register_callback,
            (MPI_T_event_registration registration, int safety, Handle info, void* user_data,
             MPI_T_event_cb_function* function))
try {
  Callback* callback = nullptr;
  if (function != nullptr) {
    const std::lock_guard guard(registrations_lock);
    callback = &registrations()[registration].callbacks.emplace_back(Callback{function, user_data});
  }
  return out_error(
      native.T_event_register_callback(registration, static_cast<MPI_T_cb_safety>(in_callback_safety(safety)),
                                       in<Info>(info), callback, function == nullptr ? nullptr : on_event));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

WEFT_COMPAT(int, T_event_set_dropped_handler,
            (MPI_T_event_registration registration, MPI_T_event_dropped_cb_function* function))
try {
  {
    const std::lock_guard guard(registrations_lock);
    registrations()[registration].dropped = function;
  }
  return out_error(
      native.T_event_set_dropped_handler(registration, function == nullptr ? nullptr : on_dropped));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

WEFT_COMPAT(int, T_event_handle_free,
            (MPI_T_event_registration registration, void* user_data,
             MPI_T_event_free_cb_function* function)) {
  FreeCallback callback{function, user_data};
  const int code = native.T_event_handle_free(registration, &callback, on_free);
  if (code == MPI_SUCCESS) {
    const std::lock_guard guard(registrations_lock);
    registrations().erase(registration);
  }
  return out_error(code);
}

}  // namespace weft::compat
