// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/cufile_library.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "base/config.hpp"
#include "base/secure.hpp"

namespace weft::io::cufile {
namespace {

config::Choice mode("io.cufile", 0, {"auto", "on", "off"},
                    "File accesses of GPU memory through cuFile (GPUDirect Storage): auto (if installed and "
                    "working), on (reports a slow path if not working), off.");
config::Path library_path("io.cufile_library", "libcufile.so.0", "Name or path of the cuFile library.");

std::atomic<bool> absent{false};

template <class F>
bool find(void* handle, const char* name, F& function) {
  void* const symbol = ::dlsym(handle, name);
  std::memcpy(&function, &symbol, sizeof symbol);
  return symbol != nullptr;
}

Library open_library() {
  Library found;
  void* const handle = secure::open_library(library_path.value(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    found.why_not =
        library_path.value() + " (WEFT_IO_CUFILE_LIBRARY) cannot be opened: " + secure::open_error();
    return found;
  }
  Properties properties{};
  if (!find(handle, "cuFileDriverOpen", found.open) ||
      !find(handle, "cuFileDriverGetProperties", found.properties) ||
      !find(handle, "cuFileHandleRegister", found.add) ||
      !find(handle, "cuFileHandleDeregister", found.remove) || !find(handle, "cuFileRead", found.read) ||
      !find(handle, "cuFileWrite", found.write))
    found.why_not = library_path.value() + " (WEFT_IO_CUFILE_LIBRARY) lacks functions of cuFile 1";
  else if (const Code opened = found.open(); opened.code != 0)
    found.why_not = "cuFileDriverOpen failed with error " + std::to_string(opened.code);
  else if (const Code queried = found.properties(&properties); queried.code != 0)
    found.why_not = "cuFileDriverGetProperties failed with error " + std::to_string(queried.code);
  else if (properties.nvfs.major == 0 && (properties.features & kPeerToPeerFeature) == 0)
    found.why_not =
        "cuFile is in compatibility mode and would copy through the host itself: load the module nvidia-fs";
  return found;
}

}  // namespace

const Library& library() {
  static const Library& opened = *new Library(open_library());
  absent.store(!opened.why_not.empty(), std::memory_order_relaxed);
  return opened;
}

bool known_absent() { return absent.load(std::memory_order_relaxed); }

bool disabled() { return mode.is("off"); }
bool required() { return mode.is("on"); }

}  // namespace weft::io::cufile
