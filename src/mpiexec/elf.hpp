// SPDX-License-Identifier: BSD-3-Clause
// ELF: detects programs whose DT_RPATH overrides LD_LIBRARY_PATH. ld.so(8) searches DT_RPATH before
// LD_LIBRARY_PATH, and DT_RUNPATH, which current compiler wrappers write, after it.
#pragma once
#include <string>
#include <vector>

namespace weft::mpiexec {

/// Entries of the dynamic section of a program.
struct Dynamic {
  std::vector<std::string> needed;
  bool rpath = false, runpath = false;
};
/// Empty if `path` is no ELF program of this word size.
[[nodiscard]] Dynamic read_dynamic(const std::string& path);

/// Names of the dynamic symbols of a program or library, without versions.
struct Symbols {
  std::vector<std::string> imported;  ///< without weak ones, which need not be there
  std::vector<std::string> exported;
};
/// Empty if `path` is no ELF file of this word size, or has no section headers.
[[nodiscard]] Symbols read_symbols(const std::string& path);

/// Returns true if `path` is an ELF program of this word size that needs `library` and has DT_RPATH but no
/// DT_RUNPATH.
[[nodiscard]] bool has_overriding_rpath(const std::string& path, const std::string& library);

}  // namespace weft::mpiexec
