// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/run_info.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "launch/cpus.hpp"
#include "mpiexec/cxx_bindings.hpp"
#include "mpiexec/elf.hpp"
#include "mpiexec/other_mpi.hpp"
#include "mpiexec/own_fortran.hpp"
#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

namespace {

bool is_fortran(const std::string& library) {
  return library.find("mpi_mpifh") != std::string::npos || library.find("mpi_usempi") != std::string::npos ||
         library.find("fort.so") != std::string::npos;
}
/// Returns whether a symbol belongs to a library for Fortran, or to one for C.
bool is_mpi_symbol(const std::string& name, bool fortran) {
  if (fortran)
    return ((name.starts_with("mpi_") || name.starts_with("pmpi_")) && name.ends_with("_")) ||
           name.starts_with("__mpi_") || name.starts_with("MPIR_F08_");
  for (const char* prefix : {"MPI_", "PMPI_", "MPIX_", "PMPIX_", "MPIR_", "ompi_", "OMPI_"})
    if (name.starts_with(prefix)) return true;
  return false;
}

/// Returns the name of the library with the interface of a program that needs `library`.
std::string versioned(const std::string& library, const std::string& program) {
  if (library != kUnversioned) return library;
  for (const std::string& name : read_symbols(program).imported)
    if (name.starts_with("ompi_") || name.starts_with("OMPI_")) return "libmpi.so.40";
  return "libmpi.so.12";
}

const char* interface_of(const std::string& library) {
  if (library == "libmpi_abi.so.1") return "the standard ABI";
  if (library.starts_with("libmpi") && library.ends_with(".so.12")) return "MPICH, Intel MPI, MVAPICH";
  return library.ends_with(".so.40") ? "Open MPI 4 and 5" : "another MPI";
}

std::set<std::string> exported_by(const std::string& library) {
  const std::vector<std::string> names = read_symbols(library).exported;
  return {names.begin(), names.end()};
}

/// Describes the library of MPICH's C++ bindings that `program` gets, if it is linked with one.
void describe_cxx_bindings(RunInfo& info, const std::string& program, const std::string& search,
                           const std::string& library_directory) {
  for (const std::string& library : read_dynamic(program).needed) {
    if (!is_cxx_bindings(library)) continue;
    const bool empty =
        empty_cxx_bindings(program, search, library_directory).find("/" + library) != std::string::npos;
    info.text += "linked with " + library + " (MPICH's C++ bindings)\n" +
                 (empty ? "mpiexec gives it an empty library of this name, as it finds none\n"
                        : "it gets MPICH's own, on top of Weft\n");
  }
}

/// Describes the symbols of MPI that `program` imports and `library` lacks.
void compare_symbols(RunInfo& info, const std::string& program, const std::string& library) {
  std::set<std::string> imported;
  for (const std::string& name : read_symbols(program).imported)
    if (is_mpi_symbol(name, is_fortran(library))) imported.insert(name);
  std::set<std::string> exported = exported_by(library);
  // A further name of a library is an empty library that needs it.
  const std::string folder = library.substr(0, library.rfind('/') + 1);
  for (const std::string& needed : read_dynamic(library).needed)
    if (::access((folder + needed).c_str(), R_OK) == 0) exported.merge(exported_by(folder + needed));
  std::string missing;
  for (const std::string& name : imported)
    if (!exported.contains(name)) missing += " " + name;
  info.text += "symbols of MPI: " + std::to_string(imported.size()) +
               ", missing:" + (missing.empty() ? " none" : missing) + "\n";
  info.runs &= missing.empty();
}

}  // namespace

Result<RunInfo> run_info(const std::string& path, const std::string& library_directory) {
  RunInfo info{path + "\n", true};
  std::string program = path;
  if (::access(path.c_str(), R_OK) != 0)
    return Error(Errc::arg, "--run-info: cannot read '" + path + "' (" + std::strerror(errno) + ")");
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return Error(Errc::arg, "--run-info: '" + path + "' is a folder: name a program in it");
  if (const std::string line = launch::first_line(path); line.starts_with("#!")) {
    std::stringstream words(line.substr(2));
    words >> program;
    std::string name;
    if (program.ends_with("/env") && words >> name) {
      const char* search = std::getenv("PATH");
      program = find_on_path(name, search != nullptr ? search : "");
    }
    info.text += "script of " + program + "\n";
  }
  const char* const search = std::getenv("LD_LIBRARY_PATH");
  const std::string own_fortran =
      own_fortran_library(program, search != nullptr ? search : "", library_directory);
  bool found = false;
  for (const std::string& library : read_dynamic(program).needed) {
    const std::string translation = translation_for(library, library_directory);
    const bool own = library == "libmpi_abi.so.1";
    if (!own && translation.empty() && other_mpi_among({library}, library_directory).empty()) continue;
    found = true;
    const bool keeps = is_fortran(library) && !own_fortran.empty();
    const std::string given = own ? library_directory + "/" + library : keeps ? own_fortran : translation;
    const std::string interface = versioned(library, program);
    info.text += "linked with " + library + " (" + interface_of(interface) +
                 (interface == library ? "" : ", by the symbols that it imports") + ")\n";
    info.text += "mpiexec gives it " + (given.empty() ? "no library: Weft has none of this name" : given) +
                 (keeps ? ", its own, for objects of its modules" : "") + "\n";
    if (given.empty())
      info.runs = false;
    else
      compare_symbols(info, program,
                      interface == library ? given : library_directory + "/compat/" + interface);
  }
  describe_cxx_bindings(info, program, search != nullptr ? search : "", library_directory);
  if (!found)
    info.text +=
        "not linked with MPI; what it loads finds libmpi_abi.so.1, libmpi.so.12, libmpi.so.40 and libmpi.so "
        "in " +
        library_directory + " and its folder compat\n";
  return info;
}

}  // namespace weft::mpiexec
