// SPDX-License-Identifier: BSD-3-Clause
// The folder of a library of lib/compat, in which it finds the other libraries of Weft.
#pragma once
#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <string>

namespace weft::compat {

/// Returns the folder of the library that defines an object; empty if it is unknown.
inline std::string folder_of(const void* object) {
  Dl_info info{};
  char resolved[PATH_MAX];
  if (::dladdr(object, &info) == 0 || ::realpath(info.dli_fname, resolved) == nullptr) return "";
  const std::string path = resolved;
  return path.substr(0, path.rfind('/'));
}

}  // namespace weft::compat
