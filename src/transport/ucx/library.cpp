// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ucx/library.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <utility>
#include <vector>

#include "base/config.hpp"
#include "base/secure.hpp"
#include "device/memory.hpp"
#include "transport/ucx/preferences.hpp"

namespace weft::transport::ucx {
namespace {

config::Path setting_library(
    "net.ucx_library", "",
    "Path of libucp.so.0; empty: a copy already loaded, the system's, or the Python package "
    "libucx-cu13 or libucx-cu12 of the environment, if it has modules for this host that the system's lacks.",
    "another UCX than the automatically chosen one is to be used");

constexpr unsigned kMajor = 1, kMinor = 13;  // oldest supported version

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

std::string path_of(const void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Opens the libraries that libucp needs first, by path: in a Python wheel they are in the same folder.
void* open_with_siblings(const std::string& path) {
  for (const char* sibling : {"libucm.so.0", "libucs.so.0", "libuct.so.0"}) {
    const std::string sibling_path = folder_of(path) + "/" + sibling;
    if (path.find('/') != std::string::npos && exists(sibling_path))
      static_cast<void>(secure::open_library(sibling_path, RTLD_NOW | RTLD_GLOBAL));
  }
  return secure::open_library(path, RTLD_NOW | RTLD_GLOBAL);
}

/// Opens the library that is loaded already, that of the setting, or the copy that fits this host best. Sets
/// `why` and `others` of the library.
Result<void*> find(Library& library) {
  std::vector<Candidate> candidates = find_candidates(places_of_this_process());
  const auto opened = [&](void* handle, std::string why) {
    library.why = std::move(why);
    library.seen = candidates;
    return handle;
  };
  if (void* loaded = ::dlopen(kLibraryName, RTLD_NOW | RTLD_NOLOAD))
    return opened(loaded, "loaded already by the program");
  std::string tried;
  if (!setting_library.value().empty()) {
    if (void* handle = open_with_siblings(setting_library.value()))
      return opened(handle, "named by WEFT_NET_UCX_LIBRARY");
    tried = secure::open_error();
  } else {
    const std::string why = rank(candidates, {device::available(), has_rdma_adapters()});
    for (const Candidate& one : candidates) {
      if (void* handle = open_with_siblings(one.path))
        return opened(handle,
                      one.origin + (&one == &candidates.front() && !why.empty() ? ", chosen " + why : ""));
      tried += (tried.empty() ? "" : "; ") + secure::open_error();
    }
    if (void* handle = open_with_siblings(kLibraryName)) return opened(handle, "the system's");
    tried += (tried.empty() ? "" : "; ") + secure::open_error();
  }
  return Error(
      Errc::unsupported,
      "libucp.so.0 cannot be opened (" + tried +
          "): install UCX (Python: libucx-cu13, Debian: libucx0, Fedora: ucx), run weft hosts --setup, "
          "or set WEFT_NET_UCX_LIBRARY");
}

Status resolve(void* handle, Library& library) {
  const char* missing = nullptr;
#define WEFT_UCX_RESOLVE(result, name, arguments)                                  \
  library.name = reinterpret_cast<decltype(library.name)>(::dlsym(handle, #name)); \
  if (library.name == nullptr && missing == nullptr) missing = #name;
  WEFT_UCX_FUNCTIONS(WEFT_UCX_RESOLVE)
#undef WEFT_UCX_RESOLVE
  if (library.ucp_get_version != nullptr) {
    unsigned major = 0, minor = 0, release = 0;
    library.ucp_get_version(&major, &minor, &release);
    library.path = path_of(reinterpret_cast<const void*>(library.ucp_get_version));
    library.version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
    if (major != kMajor || minor < kMinor)
      return Error(Errc::unsupported, "UCX " + library.version + " (" + library.path +
                                          ") is not supported: Weft needs 1.13 or a later 1.x");
  }
  if (missing != nullptr)
    return Error(Errc::unsupported, std::string("libucp.so.0 (") + library.path + ") lacks " + missing);
  std::erase_if(library.seen, [&](const Candidate& one) { return is_same_file(one.path, library.path); });
  library.cuda_module = exists(folder_of(library.path) + "/ucx/libuct_cuda.so.0");
  return {};
}

}  // namespace

Result<const Library*> library() {
  static Library library;
  static bool open = false;
  if (open) return &library;
  auto handle = find(library);
  if (!handle) return std::move(handle).error();
  WEFT_TRY(resolve(*handle, library));
  open = true;
  return &library;
}

}  // namespace weft::transport::ucx
