// SPDX-License-Identifier: BSD-3-Clause
#include "base/secure.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>

namespace weft::secure {

bool execution() {
  static const bool marked = ::getauxval(AT_SECURE) != 0;
  return marked;
}

void* open_library(const std::string& path, int flags) {
  return ::dlopen(path.c_str(), execution() ? flags | RTLD_NOLOAD : flags);
}

std::string open_error() {
  const char* reason = ::dlerror();
  if (reason != nullptr) return reason;
  return execution() ? "a program with more privileges than its user opens no library" : "unknown reason";
}

}  // namespace weft::secure
