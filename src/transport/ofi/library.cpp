// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "base/config.hpp"
#include "base/secure.hpp"

namespace weft::transport::ofi {
namespace {

config::Path library_path{"net.ofi_library", "",
                          "Path of libfabric; empty: libfabric.so.1 as found by the dynamic linker.",
                          "libfabric is installed outside the linker's search path"};

/// The PSM libraries that some packages of libfabric load install handlers of SIGSEGV, SIGABRT and SIGBUS
/// that print a backtrace and end the process with code 1, or hang.
void disable_signal_handlers() {
  for (const char* variable : {"IPATH_NO_BACKTRACE", "HFI_NO_BACKTRACE"}) ::setenv(variable, "1", 0);
}

void* open_file() {
  disable_signal_handlers();
  if (!library_path.value().empty()) return secure::open_library(library_path.value(), RTLD_NOW | RTLD_LOCAL);
  // Prefer the copy loaded by the program: its settings and memory hooks are active.
  if (void* loaded = ::dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD)) return loaded;
  return secure::open_library("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
}

template <class F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(handle, name));
  return function != nullptr;
}

Status load(Library& out) {
  void* handle = open_file();
  if (handle == nullptr)
    return Error(Errc::unsupported, "libfabric cannot be loaded (" + secure::open_error() +
                                        "): install the package libfabric1, or set WEFT_NET_OFI_LIBRARY");
  if (!find(handle, "fi_version", out.version) || !find(handle, "fi_getinfo", out.getinfo) ||
      !find(handle, "fi_freeinfo", out.freeinfo) || !find(handle, "fi_dupinfo", out.dupinfo) ||
      !find(handle, "fi_fabric", out.fabric) || !find(handle, "fi_strerror", out.strerror))
    return Error(
        Errc::unsupported,
        "the file loaded as libfabric.so.1 lacks functions of libfabric: correct WEFT_NET_OFI_LIBRARY");
  Dl_info where{};
  if (::dladdr(reinterpret_cast<void*>(out.getinfo), &where) != 0 && where.dli_fname != nullptr)
    out.path = where.dli_fname;
  if (out.version() < abi::kVersion)
    return Error(Errc::unsupported, "libfabric " + out.version_text() + " (" + out.path +
                                        ") is too old: Weft needs 1.17 or newer");
  return {};
}

}  // namespace

std::string Library::version_text() const {
  return std::to_string(version() >> 16) + "." + std::to_string(version() & 0xffff);
}

Error Library::error(const std::string& what, ssize_t code) const {
  return Error(Errc::other, what + " (" + strerror(static_cast<int>(code < 0 ? -code : code)) + ")");
}

Result<const Library*> library() {
  static Library opened;
  static const Status outcome = load(opened);
  if (!outcome) return outcome.error().copy();
  return &opened;
}

}  // namespace weft::transport::ofi
