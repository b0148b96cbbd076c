// SPDX-License-Identifier: BSD-3-Clause
// Objects: how implementations return objects to the application.
// Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "api/handles.hpp"
#include "base/result.hpp"

namespace weft::api {

/// Sets `handle` to an object; the caller's reference goes to the application.
template <class T, class H>
void return_object(T* object, H* handle) {
  object->open_handle();
  *handle = handle_of(*object);
}
template <class T, class H>
Status return_object(Result<T*> made, H* handle) {
  if (!made) return std::move(made).error();
  return_object(*made, handle);
  return {};
}
/// return_object() for an object with other owners: adds a reference.
template <class T, class H>
void return_shared_object(T* object, H* handle) {
  object->retain();
  return_object(object, handle);
}
/// return_object() for a new object; null is Errc::no_mem.
template <class T, class H>
Status return_new_object(T* object, H* handle) {
  if (object == nullptr) return Error(Errc::no_mem, "no more objects of this kind are available: free some");
  return_object(object, handle);
  return {};
}
/// Sets `handle` to a new communicator, which has its handle already; MPI_COMM_NULL if this process is not a
/// member.
inline Status return_communicator(Result<core::Communicator*> made, MPI_Comm* handle) {
  if (!made) return std::move(made).error();
  *handle = *made == nullptr ? MPI_COMM_NULL : handle_of(**made);
  return {};
}

/// Copies text into a buffer of `size` bytes, truncated if necessary. `length`: characters without the
/// terminator.
inline void copy_text(std::string_view text, char* buffer, size_t size, int* length) {
  text = text.substr(0, size - 1);
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  *length = static_cast<int>(text.size());
}

}  // namespace weft::api
