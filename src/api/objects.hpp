// SPDX-License-Identifier: BSD-3-Clause
// Objects: how implementations hand objects to the application and take them back.
// Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include <cstring>
#include <string_view>

#include "api/handles.hpp"
#include "base/result.hpp"

namespace weft::api {

/// Hands an object to the application, with the one reference that the caller has.
template <class T, class H>
void publish(T* object, H* handle) {
  object->open_handle();
  *handle = handle_of(*object);
}
template <class T, class H>
Status publish(Result<T*> made, H* handle) {
  if (!made) return std::move(made).error();
  publish(*made, handle);
  return {};
}
/// The same for an object that somebody else holds too.
template <class T, class H>
void publish_shared(T* object, H* handle) {
  object->retain();
  publish(object, handle);
}
/// A new object that may be null because its slab is full.
template <class T, class H>
Status publish_new(T* object, H* handle) {
  if (object == nullptr) return Error(Errc::no_mem, "no room for another object of this kind: free some");
  publish(object, handle);
  return {};
}

/// Text into a buffer of `room` bytes, cut if need be; `length` gets the characters without the terminator.
inline void copy_text(std::string_view text, char* buffer, size_t room, int* length) {
  text = text.substr(0, room - 1);
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  *length = static_cast<int>(text.size());
}

}  // namespace weft::api
