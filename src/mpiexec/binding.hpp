// SPDX-License-Identifier: BSD-3-Clause
// Binding: computes the CPUs of each rank.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/topology.hpp"

namespace weft::mpiexec {

struct Binding {
  std::vector<int> cpus;    ///< empty: not bound
  std::string description;  ///< for --report-bindings: "core 3 (cpus 3,19)", "not bound (...)"
};

/// Returns one Binding per rank. `visible_gpus` is CUDA_VISIBLE_DEVICES, nullptr if unset.
[[nodiscard]] Result<std::vector<Binding>> plan_bindings(const Options& options, const Topology& topology,
                                                         const char* visible_gpus);

}  // namespace weft::mpiexec
