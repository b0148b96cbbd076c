// SPDX-License-Identifier: BSD-3-Clause
// Functions of libraries that the process has loaded.
#pragma once
#include <dlfcn.h>

namespace weft::jax {

/// A function of a library that this process may have loaded; null if it has not.
template <class Function>
Function find(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
}

constexpr char kDriver[] = "libcuda.so.1";

}  // namespace weft::jax
