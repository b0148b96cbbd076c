// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/other_mpi.hpp"

#include <fstream>
#include <string_view>

namespace weft::mpiexec {

namespace {

// Open MPI, Intel MPI and MPICH; MPICH of Debian; Cray MPICH. Weft's library is libmpi_abi.so.
constexpr std::string_view kLibraries[] = {"libmpi.so.", "libmpich.so.", "libmpi_cray.so.", "libmpi_gnu_"};

bool is_other_mpi(std::string_view file) {
  for (const std::string_view library : kLibraries)
    if (file.starts_with(library)) return true;
  return false;
}

}  // namespace

std::string other_mpi_among(const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries)
    if (is_other_mpi(library)) return library;
  return "";
}

std::string other_mpi_of(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == line.npos) continue;
    if (is_other_mpi(std::string_view(line).substr(line.rfind('/') + 1))) return line.substr(path);
  }
  return "";
}

}  // namespace weft::mpiexec
