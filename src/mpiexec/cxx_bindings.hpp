// SPDX-License-Identifier: BSD-3-Clause
// MPICH's library for the C++ bindings that MPI 3 removed. The mpicxx of MPICH and Intel MPI links every
// program and module with it, though hardly any calls them. lib/compat/cxx has empty libraries of its names,
// each in a folder of that name.
#pragma once
#include <string>

namespace weft::mpiexec {

[[nodiscard]] bool is_cxx_bindings(const std::string& library);

/// Returns the folders of the empty libraries, as in LD_LIBRARY_PATH, at whose end they belong. Names that
/// this machine has are left out, as `search` (an LD_LIBRARY_PATH) and the cache of the dynamic linker show
/// them. Empty if `program` itself uses the bindings.
[[nodiscard]] std::string empty_cxx_bindings(const std::string& program, const std::string& search,
                                             const std::string& library_directory);

}  // namespace weft::mpiexec
