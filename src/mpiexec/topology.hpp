// SPDX-License-Identifier: BSD-3-Clause
// Topology: the cores this process may use and the NVIDIA GPUs of the host, read from sysfs.
#pragma once
#include <string>
#include <vector>

#include "launch/cpus.hpp"

namespace weft::mpiexec {

using launch::allowed_cpus;
using launch::first_line;
using launch::format_cpu_list;
using launch::parse_cpu_list;

/// A physical core: its hardware threads that this process may use.
struct Core {
  int package = 0, number = 0;
  int numa = -1;  ///< NUMA node; -1: unknown
  std::vector<int> cpus;
};

struct Gpu {
  std::string address;  ///< PCI, "0000:3b:00.0"
  int numa = -1;
};

struct Topology {
  std::vector<Core> cores;  ///< neighbours are near each other
  std::vector<Gpu> gpus;    ///< by PCI address, as CUDA numbers equal GPUs
};

/// `sys` is "/sys", or a copy of it in tests; `allowed` the CPUs to consider.
[[nodiscard]] Topology read_topology(const std::string& sys, const std::vector<int>& allowed);

}  // namespace weft::mpiexec
