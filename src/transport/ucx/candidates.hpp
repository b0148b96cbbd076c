// SPDX-License-Identifier: BSD-3-Clause
// Copies of UCX on this machine, found without loading one: memory hooks and libraries of the same names make
// a second copy impossible in a process.
#pragma once
#include <string>
#include <vector>

namespace weft::transport::ucx {

inline constexpr const char* kLibraryName = "libucp.so.0";

struct Candidate {
  std::string path;         ///< of libucp.so.0
  std::string origin;       ///< "the system's", "of the Python environment"
  bool cuda = false;        ///< has its module for GPU memory
  bool infiniband = false;  ///< has its module for InfiniBand and RoCE
  /// "/usr/lib/libucp.so.0, the system's, without CUDA"
  [[nodiscard]] std::string text() const;
};

/// Places of the search.
struct SearchPlaces {
  std::string library_folder;   ///< of Weft's library
  std::string program;          ///< as the process was started: "/env/bin/python"
  std::string environments[2];  ///< VIRTUAL_ENV, CONDA_PREFIX
  std::string library_path;     ///< LD_LIBRARY_PATH
  std::string linker_cache;     ///< /etc/ld.so.cache
  std::string launcher_folder;  ///< of `weft hosts --setup`, with a UCX for hosts without another
};
[[nodiscard]] SearchPlaces places_of_this_process();

/// Returns the copies that exist, without duplicates: the copy of the dynamic linker, those of
/// Python environments, that of `weft hosts`.
[[nodiscard]] std::vector<Candidate> find_candidates(const SearchPlaces& places);

/// Hardware of this host.
struct Hardware {
  bool gpus, adapters;  ///< adapters: InfiniBand or RoCE
};
/// Sorts the copies so that the first fits the hardware best: the module for adapters counts more than CUDA,
/// since GPU memory can be staged through host memory; equal ones keep their order. Returns why the first one
/// is first.
[[nodiscard]] std::string rank(std::vector<Candidate>& candidates, const Hardware& hardware);

/// Returns the path of a library in the dynamic linker's cache (the format "glibc-ld.so.cache1.1" of glibc,
/// sysdeps/generic/dl-cache.h); empty if it is not there.
[[nodiscard]] std::string find_in_linker_cache(const std::string& cache, const std::string& library);

}  // namespace weft::transport::ucx
