// SPDX-License-Identifier: BSD-3-Clause
// Topology: the cores this process may use and the NVIDIA GPUs of the host, read from sysfs.
#pragma once
#include <sched.h>

#include <optional>
#include <string>
#include <vector>

namespace weft::mpiexec {

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

/// CPUs this process may run on, ascending.
[[nodiscard]] std::vector<int> allowed_cpus();

/// "0-2,5" as sysfs writes it. Nothing: not such a list.
[[nodiscard]] std::optional<std::vector<int>> parse_cpu_list(const std::string& text);
[[nodiscard]] std::string format_cpu_list(std::vector<int> cpus);

}  // namespace weft::mpiexec
