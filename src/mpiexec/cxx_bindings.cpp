// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/cxx_bindings.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "mpiexec/elf.hpp"

namespace weft::mpiexec {

namespace {

// Debian's name is the second.
constexpr std::string_view kLibraries[] = {"libmpicxx.so.12", "libmpichcxx.so.12"};

/// Returns true for a program that is linked with the bindings and uses them.
bool uses_bindings(const std::string& program) {
  const std::vector<std::string> needed = read_dynamic(program).needed;
  if (std::none_of(needed.begin(), needed.end(), is_cxx_bindings)) return false;
  const std::vector<std::string> imported = read_symbols(program).imported;
  return std::any_of(imported.begin(), imported.end(), [](std::string_view name) {
    return name.starts_with("_Z") && (name.find("N3MPI") != name.npos || name.find("NK3MPI") != name.npos);
  });
}

bool is_in_folders(std::string_view library, const std::string& search) {
  for (size_t begin = 0; begin < search.size();) {
    const size_t end = std::min(search.find(':', begin), search.size());
    if (::access((search.substr(begin, end - begin) + "/" + std::string(library)).c_str(), R_OK) == 0)
      return true;
    begin = end + 1;
  }
  return false;
}

/// Returns true if ldconfig(8) has found the library: its cache has names and paths that end with a null.
bool is_in_cache(std::string_view library) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string cache{std::istreambuf_iterator<char>(file), {}};
  const std::string name = std::string(library) + '\0';
  for (size_t at = cache.find(name); at != cache.npos; at = cache.find(name, at + 1))
    if (at > 0 && (cache[at - 1] == '/' || cache[at - 1] == '\0')) return true;
  return false;
}

}  // namespace

bool is_cxx_bindings(const std::string& library) {
  return std::find(std::begin(kLibraries), std::end(kLibraries), library) != std::end(kLibraries);
}

std::string empty_cxx_bindings(const std::string& program, const std::string& search,
                               const std::string& library_directory) {
  if (uses_bindings(program)) return "";
  std::string folders;
  for (const std::string_view library : kLibraries) {
    const std::string folder = library_directory + "/compat/cxx/" + std::string(library);
    if (::access(folder.c_str(), R_OK) != 0 || is_in_folders(library, search) || is_in_cache(library))
      continue;
    folders += (folders.empty() ? "" : ":") + folder;
  }
  return folders;
}

}  // namespace weft::mpiexec
