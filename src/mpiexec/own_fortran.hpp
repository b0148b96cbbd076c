// SPDX-License-Identifier: BSD-3-Clause
// Programs that use objects of MPICH's modules for Fortran: mpi_f08, whose routines get array descriptors of
// one compiler and whose constants are objects, and MPI_Sizeof of module mpi. Such a program keeps the
// libmpifort.so.12 that it was built with, on top of Weft's libmpi.so.12.
#pragma once
#include <string>

namespace weft::mpiexec {

/// Returns the path of the program's own library for Fortran, as the dynamic linker finds it with the
/// LD_LIBRARY_PATH `search`; empty if the program uses no such object, or has no such library.
[[nodiscard]] std::string own_fortran_library(const std::string& program, const std::string& search,
                                              const std::string& library_directory);

}  // namespace weft::mpiexec
