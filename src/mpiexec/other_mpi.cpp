// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/other_mpi.hpp"

#include <unistd.h>

#include <fstream>
#include <string_view>

namespace weft::mpiexec {

namespace {

// Open MPI, Intel MPI and MPICH; MPICH of Debian; Cray MPICH. Weft's library is libmpi_abi.so.
constexpr std::string_view kLibraries[] = {"libmpi.so.",     "libmpich.so.",     "libmpi_cray.so.",
                                           "libmpi_gnu_",    "libmpi_mpifh.so.", "libmpi_usempi",
                                           "libmpifort.so.", "libmpichfort.so."};

bool is_other_mpi(std::string_view file) {
  if (file == kUnversioned) return true;
  for (const std::string_view library : kLibraries)
    if (file.starts_with(library)) return true;
  return false;
}

/// Returns true for a library in the folder `compat` below a libmpi_abi.so.1.
bool is_translation(std::string_view path) {
  const std::string_view folder = path.substr(0, path.rfind('/'));
  constexpr std::string_view kFolder = "/compat";
  return folder.ends_with(kFolder) &&
         ::access(
             (std::string(folder.substr(0, folder.size() - kFolder.size())) + "/libmpi_abi.so.1").c_str(),
             R_OK) == 0;
}

}  // namespace

std::string translation_for(const std::string& library, const std::string& library_directory) {
  if (!is_other_mpi(library) || library_directory.empty()) return "";
  const std::string path = library_directory + "/compat/" + library;
  return ::access(path.c_str(), R_OK) == 0 ? path : "";
}

std::string other_mpi_among(const std::vector<std::string>& libraries, const std::string& library_directory) {
  for (const std::string& library : libraries)
    if (is_other_mpi(library) && translation_for(library, library_directory).empty()) return library;
  return "";
}

std::string other_mpi_of(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == line.npos) continue;
    const std::string_view file = std::string_view(line).substr(line.rfind('/') + 1);
    // A library for Fortran says nothing: it may be on top of Weft's (own_fortran.hpp), else its MPI is there
    // too.
    if (is_other_mpi(file) && file.find("fort.so.") == file.npos && !is_translation(line.substr(path)))
      return line.substr(path);
  }
  return "";
}

}  // namespace weft::mpiexec
