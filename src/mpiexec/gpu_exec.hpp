// SPDX-License-Identifier: BSD-3-Clause
// mpiexec --gpu-exec: shows a rank of another launcher its GPUs, and becomes the program. Each host assigns
// its own GPUs, by the local ranks that prterun and Hydra set.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "launch/environment.hpp"
#include "mpiexec/gpus.hpp"

namespace weft::mpiexec {

/// Option of mpiexec with the words VALUE PROGRAM ARGUMENTS..., VALUE as of --gpu-bind.
inline constexpr const char* kGpuExec = "--gpu-exec";

/// A rank on its host.
struct LocalRank {
  size_t rank = 0, ranks = 1;
};
/// Reads the variables of the launcher. Errc::unsupported: it sets none.
[[nodiscard]] Result<LocalRank> local_rank(const launch::Lookup& lookup);

/// Returns the entries of CUDA_VISIBLE_DEVICES for a rank under --gpu-bind `value`; empty: as it is.
/// `description`: set to that of --report-bindings if the value begins with "verbose,".
[[nodiscard]] Result<std::vector<std::string>> gpus_of_rank(const std::string& value, const LocalRank& local,
                                                            const Topology& topology,
                                                            const GpuVariables& variables,
                                                            std::string& description);

/// `words`: VALUE PROGRAM ARGUMENTS.... Returns only on error.
[[nodiscard]] Error exec_with_gpus(const std::vector<std::string>& words);

}  // namespace weft::mpiexec
