// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmix/library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cctype>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/config.hpp"
#include "base/secure.hpp"
#include "launch/cpus.hpp"

namespace weft::launch::pmix {

namespace {

config::Path pmix_library{"launch.pmix_library", "",
                          "Path of the PMIx library; empty: the launcher's or the system's.",
                          "the launcher's PMIx library is not found or is not the intended one"};

constexpr const char* kName = "libpmix.so.2";
constexpr int kOldest = 3;     // oldest major version with the structures of abi.hpp
constexpr int kAncestors = 4;  // searched for the launcher's daemon; wrapper scripts add levels

/// Returns the parent of a process; 0: unknown.
pid_t parent_of(pid_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == stat.npos) return 0;
  std::istringstream words(stat.substr(name_end + 1));
  std::string state;
  pid_t parent = 0;
  words >> state >> parent;
  return parent;
}

/// Returns the library mapped by the launcher's daemon, which is compatible with the daemon's server. Daemons
/// of Slurm belong to root, and their maps are not readable.
std::string launcher_library() {
  pid_t pid = ::getppid();
  for (int i = 0; i < kAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
    std::ostringstream text;
    text << file.rdbuf();
    if (std::string found = find_mapped(text.str(), kName); !found.empty()) return found;
  }
  return {};
}

// RTLD_GLOBAL: plugins of libpmix resolve its symbols globally.
void* open_file(const std::string& path, int more = 0) {
  return secure::open_library(path, RTLD_NOW | RTLD_GLOBAL | more);
}

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Functions& call) {
#define WEFT_PMIX(name) find(library, #name, call.name)
  (void)WEFT_PMIX(PMIx_Query_info);
  return WEFT_PMIX(PMIx_Init) && WEFT_PMIX(PMIx_Finalize) && WEFT_PMIX(PMIx_Abort) && WEFT_PMIX(PMIx_Put) &&
         WEFT_PMIX(PMIx_Commit) && WEFT_PMIX(PMIx_Fence) && WEFT_PMIX(PMIx_Get) && WEFT_PMIX(PMIx_Spawn) &&
         WEFT_PMIX(PMIx_Publish) && WEFT_PMIX(PMIx_Lookup) && WEFT_PMIX(PMIx_Unpublish) &&
         WEFT_PMIX(PMIx_Resolve_peers) && WEFT_PMIX(PMIx_Resolve_nodes) && WEFT_PMIX(PMIx_Error_string) &&
         WEFT_PMIX(PMIx_Get_version);
#undef WEFT_PMIX
}

/// "OpenPMIx 4.2.2rc2, repo revision ..." -> "4.2.2rc2".
std::string version_in(const std::string& text) {
  const size_t begin = text.find_first_of("0123456789");
  return begin == text.npos ? text : text.substr(begin, text.find_first_of(", (", begin) - begin);
}

Result<Library> use(void* handle) {
  Library library{};
  if (!find_all(handle, library.call))
    return Error(Errc::unsupported, std::string(kName) + " lacks functions of PMIx 3");
  Dl_info where{};
  ::dladdr(reinterpret_cast<void*>(library.call.PMIx_Init), &where);
  library.path = where.dli_fname != nullptr ? where.dli_fname : kName;
  library.version = version_in(library.call.PMIx_Get_version());
  if (std::isdigit(static_cast<unsigned char>(library.version[0])) != 0 &&
      std::stoi(library.version) < kOldest)
    return Error(Errc::unsupported,
                 library.path + " is PMIx " + library.version + ": version 3 or later is needed");
  return library;
}

}  // namespace

std::string find_mapped(const std::string& maps, const std::string& name) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const size_t slash = line.find('/');
    if (slash == line.npos) continue;
    const std::string path = line.substr(slash), file = path.substr(path.rfind('/') + 1);
    // libpmix.so.2 may be a symbolic link to libpmix.so.2.6.2, whose name appears in the maps.
    if (file == name || file.starts_with(name + ".")) return path;
  }
  return {};
}

Result<Library> open_library() {
  std::string tried;
  const auto attempt = [&](const std::string& path, int more = 0) -> void* {
    if (path.empty()) return nullptr;
    void* handle = open_file(path, more);
    if (handle == nullptr && more == 0)
      tried += std::string(tried.empty() ? "" : "; ") + secure::open_error();
    return handle;
  };
  const std::string wanted = pmix_library.value();
  void* handle = attempt(wanted);
  if (handle == nullptr && wanted.empty()) {
    handle = attempt(kName, RTLD_NOLOAD);
    if (handle == nullptr) handle = attempt(launcher_library());
    if (handle == nullptr) handle = attempt(kName);
  }
  if (handle == nullptr)
    return Error(Errc::unsupported,
                 "a PMIx launcher started this process, but its library cannot be loaded (" + tried +
                     "). Install libpmix2, or set WEFT_LAUNCH_PMIX_LIBRARY.");
  return use(handle);
}

}  // namespace weft::launch::pmix
