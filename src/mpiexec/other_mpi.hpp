// SPDX-License-Identifier: BSD-3-Clause
// Detects ranks that run on another MPI library, whose processes each believe to be alone.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::mpiexec {

/// The name that libraries of Open MPI and of MPICH have, if a program does not need a version.
inline constexpr const char* kUnversioned = "libmpi.so";

/// Returns the path of the library of Open MPI, MPICH or Intel MPI that the process has loaded, from
/// /proc/PID/maps; empty if there is none, or if the file cannot be read. The libraries of lib/compat are
/// Weft's.
[[nodiscard]] std::string other_mpi_of(pid_t pid);

/// Returns the path of Weft's library with the binary interface of the library `library` of another MPI;
/// empty if `library` is not of another MPI, or if Weft has none.
[[nodiscard]] std::string translation_for(const std::string& library, const std::string& library_directory);

/// Returns the first library of another MPI that Weft cannot replace; empty if there is none.
[[nodiscard]] std::string other_mpi_among(const std::vector<std::string>& libraries,
                                          const std::string& library_directory);

/// Times at which ranks without MPI_Init are examined, in seconds after the start of the job. A rank that has
/// exited has no maps, so the first time is short; the interval grows with the age of the job.
inline constexpr double kFirstExaminationSeconds = 0.02, kExaminationGrowth = 1.25,
                        kLastExaminationSeconds = 60;

}  // namespace weft::mpiexec
