// SPDX-License-Identifier: BSD-3-Clause
// Handles: conversion between ABI handle values and objects. Values below 0x1000 are predefined; other
// handles are addresses of objects in a slab and are validated before use. to_*() returns null if the handle
// is not live. Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include <cstdint>

#include "api/entry_point.hpp"
#include "core/communicator.hpp"
#include "core/errhandler.hpp"
#include "core/group.hpp"
#include "core/info.hpp"
#include "core/op.hpp"
#include "core/request.hpp"
#include "core/session.hpp"
#include "datatype/datatype.hpp"
#include "io/file/file.hpp"
#include "p2p/message/transfer.hpp"
#include "rma/window.hpp"

namespace weft::api {

inline constexpr uintptr_t kPredefinedEnd = 0x1000;
inline constexpr uintptr_t kDatatypeFirst = 0x200, kDatatypes = 0x100, kOpFirst = 0x20, kOps = 0x20;
/// Number of operations of MPI, which those of weft.h follow.
inline constexpr uintptr_t kStandardOps = 0x1e;

/// A predefined type whose elements are contiguous and basic.
struct SimpleType {
  uint8_t bytes = 0;  ///< 0: another type
  datatype::Basic basic{};
  bool comparable = false;  ///< by MPI_Compare_and_swap
};

/// Read-only after the library is loaded.
struct HandleTables {
  HandleTables();
  datatype::Datatype* datatypes[kDatatypes];
  core::Op* ops[kOps];
  SimpleType simple_types[kDatatypes];
  Slab<core::Communicator>& communicators;
  Slab<core::Group>& groups;
  Slab<core::Op>& ops_slab;
  Slab<core::Info>& infos;
  Slab<core::Errhandler>& errhandlers;
  Slab<core::Session>& sessions;
  Slab<p2p::Transfer>& transfers;
  p2p::CompletedSend* completed_send;
  Slab<rma::Window>& windows;
  Slab<io::File>& files;
};
WEFT_HIDDEN extern const HandleTables g_handles;

template <class H>
uintptr_t value_of(H handle) {
  return reinterpret_cast<uintptr_t>(handle);
}
/// Null unless the object is alive and still has a handle: pending operations may keep a freed object alive.
template <class T, class H>
T* live(const Slab<T>& slab, H handle) {
  if (slab.check(handle) != HandleState::live) return nullptr;
  auto* object = reinterpret_cast<T*>(handle);
  return object->has_handle() ? object : nullptr;
}

/// MPI_COMM_WORLD or MPI_COMM_SELF of a program that has called MPI_Session_init but not MPI_Init: an
/// extension, as in MPICH and Open MPI. Made at the first use; for MPI_COMM_WORLD all processes connect. Null
/// after MPI_Finalize. Defined in instance.cpp.
[[gnu::cold]] core::Communicator* predefined_of_session(MPI_Comm handle);

inline core::Communicator* to_communicator(MPI_Comm handle) {
  if (handle == MPI_COMM_WORLD) {
    core::Communicator* world = g_instance->world.get();
    return world != nullptr ? world : predefined_of_session(handle);
  }
  if (handle == MPI_COMM_SELF) {
    core::Communicator* self = g_instance->self_comm.get();
    return self != nullptr ? self : predefined_of_session(handle);
  }
  if (g_handles.communicators.check(handle) != HandleState::live) return nullptr;
  auto* comm = reinterpret_cast<core::Communicator*>(handle);
  return comm->has_handle ? comm : nullptr;
}
inline datatype::Datatype* to_datatype(MPI_Datatype handle) {
  const uintptr_t index = value_of(handle) - kDatatypeFirst;
  if (index < kDatatypes) return g_handles.datatypes[index];
  return datatype::find(value_of(handle));
}
inline core::Op* to_op(MPI_Op handle) {
  const uintptr_t index = value_of(handle) - kOpFirst;
  return index < kOps ? g_handles.ops[index] : live(g_handles.ops_slab, handle);
}
inline core::Group* to_group(MPI_Group handle) {
  return handle == MPI_GROUP_EMPTY ? core::Group::empty() : live(g_handles.groups, handle);
}
/// Also null for MPI_INFO_NULL, which the caller checks first.
inline core::Info* to_info(MPI_Info handle) {
  return handle == MPI_INFO_ENV ? core::Info::environment() : live(g_handles.infos, handle);
}
core::Errhandler* to_errhandler(MPI_Errhandler handle);
inline core::Session* to_session(MPI_Session handle) { return live(g_handles.sessions, handle); }
inline rma::Window* to_window(MPI_Win handle) { return live(g_handles.windows, handle); }
inline io::File* to_file(MPI_File handle) { return live(g_handles.files, handle); }

/// Registers the slab of a request class other than those in HandleTables, before its first request exists.
/// core::Request must be the first base of the class.
using RequestCheck = HandleState (*)(const void* handle);
void register_request_slab(RequestCheck check);
[[nodiscard]] HandleState check_other_request(const void* handle);
/// Also null for MPI_REQUEST_NULL, which the caller checks first.
inline core::Request* to_request(MPI_Request handle) {
  if (static_cast<const void*>(handle) == g_handles.completed_send ||
      g_handles.transfers.check(handle) == HandleState::live ||
      check_other_request(handle) == HandleState::live)
    return reinterpret_cast<core::Request*>(handle);
  return nullptr;
}

inline MPI_Comm handle_of(const core::Communicator& comm) { return reinterpret_cast<MPI_Comm>(comm.handle); }
inline MPI_Datatype handle_of(const datatype::Datatype& type) {
  return reinterpret_cast<MPI_Datatype>(type.handle());
}
inline MPI_Op handle_of(const core::Op& op) { return reinterpret_cast<MPI_Op>(op.handle); }
inline MPI_Request handle_of(const core::Request& request) {
  return reinterpret_cast<MPI_Request>(reinterpret_cast<uintptr_t>(&request));
}
inline MPI_Session handle_of(const core::Session& session) {
  return reinterpret_cast<MPI_Session>(reinterpret_cast<uintptr_t>(&session));
}
inline MPI_Win handle_of(const rma::Window& window) {
  return reinterpret_cast<MPI_Win>(reinterpret_cast<uintptr_t>(&window));
}
inline MPI_File handle_of(const io::File& file) {
  return reinterpret_cast<MPI_File>(reinterpret_cast<uintptr_t>(&file));
}
MPI_Group handle_of(const core::Group& group);
MPI_Info handle_of(const core::Info& info);
MPI_Errhandler handle_of(const core::Errhandler& handler);

/// Kind of MPI object, for error messages.
enum class HandleKind {
  communicator,
  datatype,
  op,
  group,
  info,
  errhandler,
  request,
  message,
  window,
  file,
  session
};
/// Error for an invalid handle: null, freed or foreign. `name`: name of the argument.
[[nodiscard]] Error bad_handle(HandleKind kind, const char* name, const void* handle);
/// bad_handle() for an element of an array argument.
[[nodiscard]] Error bad_handle_at(HandleKind kind, const char* name, size_t index, const void* handle);

/// MPI_*_toint and MPI_*_fromint. Predefined handles keep their value; other handles get a number for the
/// life of the process. handle_from_int() returns null for an unknown number.
[[nodiscard]] int handle_to_int(const void* handle);
[[nodiscard]] void* handle_from_int(int number);

}  // namespace weft::api
