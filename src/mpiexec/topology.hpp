// SPDX-License-Identifier: BSD-3-Clause
// Topology: cores that this process may use and NVIDIA GPUs of the host, read from sysfs.
#pragma once
#include <string>
#include <vector>

#include "launch/cpus.hpp"

namespace weft::mpiexec {

using launch::allowed_cpus;
using launch::first_line;
using launch::format_cpu_list;
using launch::parse_cpu_list;

/// A physical core with the hardware threads that this process may use.
struct Core {
  int package = 0, number = 0;
  int numa = -1;  ///< NUMA node; -1: unknown
  int l3 = -1;    ///< first CPU of the cores that share the level 3 cache; -1: unknown
  std::vector<int> cpus;
};

struct Gpu {
  std::string address;  ///< PCI, "0000:3b:00.0"
  int numa = -1;
};

struct Topology {
  std::vector<Core> cores;  ///< ordered by NUMA node, package and core number
  std::vector<Gpu> gpus;    ///< in PCI order, as CUDA enumerates equal GPUs
};

/// Returns the topology in which each hardware thread is a core.
[[nodiscard]] Topology split_threads(const Topology& topology);

/// `sys`: "/sys", or a copy in tests; `allowed`: CPUs to consider.
[[nodiscard]] Topology read_topology(const std::string& sys, const std::vector<int>& allowed);

}  // namespace weft::mpiexec
