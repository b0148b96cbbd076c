// SPDX-License-Identifier: BSD-3-Clause
// Binding: computes the CPUs and the GPUs of each rank.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/gpus.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/topology.hpp"

namespace weft::mpiexec {

struct Binding {
  std::vector<int> cpus;              ///< empty: not bound
  std::string description;            ///< for --report-bindings: "core 3 (cpus 3,19)", "not bound (...)"
  std::vector<size_t> gpu_indices{};  ///< of visible_gpus(); empty: not assigned
  std::vector<std::string> gpus{};    ///< entries of CUDA_VISIBLE_DEVICES; empty: the variable stays as it is
};

/// Returns true if plan_bindings() uses the GPUs of the topology.
[[nodiscard]] bool needs_gpus(const Options& options);
/// Returns one Binding per rank. `gpu_variables`: of mpiexec's environment; `busy_gpus`: as for
/// assign_gpus().
[[nodiscard]] Result<std::vector<Binding>> plan_bindings(const Options& options, const Topology& topology,
                                                         const GpuVariables& gpu_variables,
                                                         const std::vector<size_t>& busy_gpus = {});

}  // namespace weft::mpiexec
