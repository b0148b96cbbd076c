// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/own_fortran.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "mpiexec/elf.hpp"

namespace weft::mpiexec {

namespace {

constexpr std::string_view kFortranLibraries[] = {"libmpifort.so.12", "libmpichfort.so.12"};

/// Objects of modules, as gfortran names them; routines and constants of mpi_f08.
bool uses_module_objects(const std::string& program) {
  const std::vector<std::string> imported = read_symbols(program).imported;
  return std::any_of(imported.begin(), imported.end(), [](std::string_view name) {
    return (name.starts_with("mpi_") && (name.ends_with("_f08_") || name.ends_with("_f08ts_"))) ||
           name.starts_with("MPIR_F08_") || name.starts_with("__mpi_");
  });
}

/// Returns a search path without the folders below `directory`.
std::string without(const std::string& search, const std::string& directory) {
  std::string left;
  for (size_t begin = 0; begin < search.size();) {
    const size_t end = std::min(search.find(':', begin), search.size());
    const std::string folder = search.substr(begin, end - begin);
    if (!folder.starts_with(directory)) left += (left.empty() ? "" : ":") + folder;
    begin = end + 1;
  }
  return left;
}

std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Returns where the dynamic linker finds a library of the program, which is not run (ld.so(8)).
std::string path_of(const std::string& library, const std::string& program, const std::string& search) {
  const std::string command =
      "LD_TRACE_LOADED_OBJECTS=1 LD_LIBRARY_PATH=" + quoted(search) + " " + quoted(program) + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  const std::string wanted = library + " => ";
  std::array<char, 4096> line;
  std::string found;
  while (pipe != nullptr && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    const std::string_view text = line.data();
    const size_t at = text.find(wanted);
    if (at == text.npos) continue;
    const std::string_view path = text.substr(at + wanted.size());
    if (path.starts_with('/')) found = path.substr(0, path.find(" ("));
  }
  return found;
}

}  // namespace

std::string own_fortran_library(const std::string& program, const std::string& search,
                                const std::string& library_directory) {
  for (const std::string& needed : read_dynamic(program).needed)
    if (std::find(std::begin(kFortranLibraries), std::end(kFortranLibraries), needed) !=
        std::end(kFortranLibraries))
      return uses_module_objects(program) ? path_of(needed, program, without(search, library_directory)) : "";
  return "";
}

}  // namespace weft::mpiexec
