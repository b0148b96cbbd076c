// SPDX-License-Identifier: BSD-3-Clause
// Attributes of communicators, datatypes and windows, keyvals, predefined attributes, and their deprecated
// functions (MPI 5.0 sections 7.7, 9.1.2 and 17.1).
#include "core/attribute.hpp"

#include <string>

#include "api/check.hpp"
#include "api/errors.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"

namespace weft::api::impl {
namespace {

using core::Attributed;

Error no_such_key(int keyval) {
  return Error(Errc::keyval,
               "keyval = " + std::to_string(keyval) +
                   (keyval == MPI_KEYVAL_INVALID ? " is MPI_KEYVAL_INVALID"
                                                 : " is not a keyval of this kind, or was freed") +
                   ": pass one from MPI_Comm_create_keyval, MPI_Type_create_keyval or MPI_Win_create_keyval");
}

/// Returns true if attributes can be set with this keyval.
bool is_settable(int keyval, Attributed kind) {
  const core::Keyval* key = core::find_keyval(keyval, kind);
  return key != nullptr && !key->freed;
}

bool is_predefined(int keyval) { return keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE; }

/// One implementation for all object kinds: the callback types differ only in the handle type.
template <class Copy, class Delete>
Status create_key(Attributed kind, Copy copy, Delete remove, int* keyval, void* extra) {
  *keyval = core::create_keyval({kind, reinterpret_cast<core::Keyval::Copy>(copy),
                                 reinterpret_cast<core::Keyval::Delete>(remove), extra});
  return {};
}

Status free_key(Attributed kind, int* keyval) {
  if (core::find_keyval(*keyval, kind) == nullptr) return no_such_key(*keyval);
  WEFT_TRY(core::free_keyval(*keyval, kind));
  *keyval = MPI_KEYVAL_INVALID;
  return {};
}

/// Returns a pointer to the value (MPI 5.0 section 9.1.2), hence the static storage.
Status get_predefined(int keyval, void** attribute, int* flag) {
  static int tag_ub = kTagUpperBound, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE, wtime_is_global,
             universe_size, last_code, appnum;
  *flag = 1;
  const launch::Job& job = g_instance->exchange->job();
  switch (keyval) {
    case MPI_TAG_UB:
      *attribute = &tag_ub;
      break;
    case MPI_HOST:
      *attribute = &host;
      break;
    case MPI_IO:
      *attribute = &io;
      break;
    case MPI_WTIME_IS_GLOBAL:
      wtime_is_global = job.local_size == job.size;  // ranks of one host share the clock
      *attribute = &wtime_is_global;
      break;
    case MPI_UNIVERSE_SIZE:
      if (universe_size == 0) universe_size = g_instance->exchange->universe_size();
      *attribute = &universe_size;
      break;
    case MPI_LASTUSEDCODE:
      last_code = last_used_code();
      *attribute = &last_code;
      break;
    default:  // MPI_APPNUM
      appnum = job.program;
      *attribute = &appnum;
      *flag = appnum >= 0;
  }
  return {};
}

Error read_only(int keyval) {
  return Error(Errc::keyval, "keyval = " + std::to_string(keyval) + " is predefined: it can only be read");
}

void read(const core::AttributeSet& set, int keyval, void** value, int* flag) {
  bool found = false;
  void* attribute = set.get(keyval, found);
  *flag = found;
  if (found) *value = attribute;
}

bool is_predefined_of_window(int keyval) { return keyval >= MPI_WIN_BASE && keyval <= MPI_WIN_MODEL; }

/// MPI_WIN_BASE is the address itself, the others are pointers to the value (MPI 5.0 section 12.2.6).
void* predefined_of_window(rma::Window& win, int keyval) {
  switch (keyval) {
    case MPI_WIN_BASE:
      return win.base;
    case MPI_WIN_SIZE:
      return &win.bytes;
    case MPI_WIN_DISP_UNIT:
      return &win.disp_unit_attribute;
    case MPI_WIN_CREATE_FLAVOR:
      return &win.flavor_attribute;
    default:
      return &win.model_attribute;
  }
}

void* pointer(uintptr_t handle) { return reinterpret_cast<void*>(handle); }

}  // namespace

Status Comm_create_keyval(MPI_Comm_copy_attr_function* copy, MPI_Comm_delete_attr_function* remove,
                          int* keyval, void* extra_state) {
  return create_key(Attributed::communicator, copy, remove, keyval, extra_state);
}

Status Comm_free_keyval(int* keyval) { return free_key(Attributed::communicator, keyval); }

Status Comm_set_attr(core::Communicator& comm, int keyval, void* value) {
  if (is_predefined(keyval)) return read_only(keyval);
  if (!is_settable(keyval, Attributed::communicator)) return no_such_key(keyval);
  return comm.attributes.set(comm.instance, pointer(comm.handle), keyval, value);
}

Status Comm_get_attr(core::Communicator& comm, int keyval, void* value, int* flag) {
  auto** const out = static_cast<void**>(value);
  if (is_predefined(keyval)) return get_predefined(keyval, out, flag);
  if (core::find_keyval(keyval, Attributed::communicator) == nullptr) return no_such_key(keyval);
  read(comm.attributes, keyval, out, flag);
  return {};
}

Status Comm_delete_attr(core::Communicator& comm, int keyval) {
  if (is_predefined(keyval)) return read_only(keyval);
  if (core::find_keyval(keyval, Attributed::communicator) == nullptr) return no_such_key(keyval);
  return comm.attributes.erase(comm.instance, pointer(comm.handle), keyval);
}

Status Type_create_keyval(MPI_Type_copy_attr_function* copy, MPI_Type_delete_attr_function* remove,
                          int* keyval, void* extra_state) {
  return create_key(Attributed::datatype, copy, remove, keyval, extra_state);
}

Status Type_free_keyval(int* keyval) { return free_key(Attributed::datatype, keyval); }

Status Type_set_attr(datatype::Datatype& type, int keyval, void* value) {
  if (!is_settable(keyval, Attributed::datatype)) return no_such_key(keyval);
  return core::attributes_of(type).set(*g_instance, pointer(type.handle()), keyval, value);
}

Status Type_get_attr(datatype::Datatype& type, int keyval, void* value, int* flag) {
  if (core::find_keyval(keyval, Attributed::datatype) == nullptr) return no_such_key(keyval);
  read(core::attributes_of(type), keyval, static_cast<void**>(value), flag);
  return {};
}

Status Type_delete_attr(datatype::Datatype& type, int keyval) {
  if (core::find_keyval(keyval, Attributed::datatype) == nullptr) return no_such_key(keyval);
  return core::attributes_of(type).erase(*g_instance, pointer(type.handle()), keyval);
}

Status Win_create_keyval(MPI_Win_copy_attr_function* copy, MPI_Win_delete_attr_function* remove, int* keyval,
                         void* extra_state) {
  return create_key(Attributed::window, copy, remove, keyval, extra_state);
}

Status Win_free_keyval(int* keyval) { return free_key(Attributed::window, keyval); }

Status Win_set_attr(rma::Window& win, int keyval, void* value) {
  if (is_predefined_of_window(keyval)) return read_only(keyval);
  if (!is_settable(keyval, Attributed::window)) return no_such_key(keyval);
  return win.attributes.set(win.instance, &win, keyval, value);
}

Status Win_get_attr(rma::Window& win, int keyval, void* value, int* flag) {
  auto** const out = static_cast<void**>(value);
  if (is_predefined_of_window(keyval)) {
    *flag = 1;
    *out = predefined_of_window(win, keyval);
    return {};
  }
  if (core::find_keyval(keyval, Attributed::window) == nullptr) return no_such_key(keyval);
  read(win.attributes, keyval, out, flag);
  return {};
}

Status Win_delete_attr(rma::Window& win, int keyval) {
  if (is_predefined_of_window(keyval)) return read_only(keyval);
  if (core::find_keyval(keyval, Attributed::window) == nullptr) return no_such_key(keyval);
  return win.attributes.erase(win.instance, &win, keyval);
}

// Deprecated.

Status Keyval_create(MPI_Copy_function* copy, MPI_Delete_function* remove, int* keyval, void* extra_state) {
  return create_key(Attributed::communicator, copy, remove, keyval, extra_state);
}

Status Keyval_free(int* keyval) { return Comm_free_keyval(keyval); }

Status Attr_put(core::Communicator& comm, int keyval, void* value) {
  return Comm_set_attr(comm, keyval, value);
}

Status Attr_get(core::Communicator& comm, int keyval, void* value, int* flag) {
  return Comm_get_attr(comm, keyval, value, flag);
}

Status Attr_delete(core::Communicator& comm, int keyval) { return Comm_delete_attr(comm, keyval); }

}  // namespace weft::api::impl
