// SPDX-License-Identifier: BSD-3-Clause
// Opens libmpi_abi.so.1 in the folder above this library's. Its symbols stay private to this library: the
// functions of the program's MPI have the same names.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "compat/cxx.hpp"
#include "compat/folder.hpp"
#include "compat/native.hpp"

namespace weft::compat {

constinit Native native{};
constinit Extensions extensions{};

namespace {

[[noreturn]] void fail(const char* why) {
  std::fprintf(
      stderr,
      "weft: the library for programs of another MPI cannot start (%s): repair the installation of Weft\n",
      why);
  std::_Exit(127);
}

/// Returns the path of libmpi_abi.so.1 for a library in lib/compat.
std::string library_path() {
  const std::string folder = folder_of(&native);
  if (folder.empty()) fail("its own path is unknown");
  return folder.substr(0, folder.rfind('/')) + "/libmpi_abi.so.1";
}

/// Runs before the initialisers of all libraries and programs that need this one.
__attribute__((constructor)) void open_library() {
  void* library = ::dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail(::dlerror());
  auto* const members = reinterpret_cast<void**>(&native);
  constexpr size_t kCount = sizeof kNativeNames / sizeof kNativeNames[0];
  static_assert(sizeof(Native) == kCount * sizeof(void*));
  for (size_t i = 0; i < kCount; ++i) {
    void* const function = ::dlsym(library, kNativeNames[i]);
    if (function == nullptr) fail(::dlerror());
    members[i] = api::inner_entry(function);
  }
#define WEFT_COMPAT_FIND(name)                                                                    \
  extensions.name = reinterpret_cast<decltype(extensions.name)>(::dlsym(library, "MPIX_" #name)); \
  if (extensions.name == nullptr) fail(::dlerror());
  WEFT_COMPAT_EXTENSIONS(WEFT_COMPAT_FIND)
#undef WEFT_COMPAT_FIND
  open_bindings();
}

}  // namespace

}  // namespace weft::compat
