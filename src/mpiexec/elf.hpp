// SPDX-License-Identifier: BSD-3-Clause
// ELF: tells whether a program insists on another MPI's library. An old-style DT_RPATH is searched before
// LD_LIBRARY_PATH (ld.so(8)); a DT_RUNPATH, which today's compiler wrappers write, after it.
#pragma once
#include <string>

namespace weft::mpiexec {

/// True when `path` is a program of this machine's kind that needs `library` and has DT_RPATH without
/// DT_RUNPATH.
[[nodiscard]] bool has_overriding_rpath(const std::string& path, const std::string& library);

}  // namespace weft::mpiexec
