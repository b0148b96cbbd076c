// SPDX-License-Identifier: BSD-3-Clause
// Topology: cores and NVIDIA GPUs that this process may use, read from sysfs and the files of NVIDIA's
// driver.
#pragma once
#include <map>
#include <string>
#include <utility>
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
  int numa = -1;        ///< NUMA node; -1: unknown
  std::string uuid{};   ///< "GPU-..."; empty: unknown
  std::string model{};  ///< PCI device number
  bool mig = false;     ///< divided into MIG instances
};

struct Topology {
  std::vector<Core> cores;                         ///< ordered by NUMA node, package and core number
  std::vector<Gpu> gpus;                           ///< in PCI order, as CUDA enumerates equal GPUs
  std::map<std::pair<int, int>, int> distances{};  ///< of two NUMA nodes; 10: the same
};

/// Folders from which the topology is read; tests replace them.
struct SystemFolders {
  std::string sys = "/sys";
  std::string nvidia = "/proc/driver/nvidia";
  std::string devices = "/dev";
};

/// Returns the topology in which each hardware thread is a core.
[[nodiscard]] Topology split_threads(const Topology& topology);

/// `allowed`: CPUs to consider. `with_gpus`: also reads GPUs. GPUs that a cgroup or a container denies to
/// this process are left out, as CUDA does not count them.
[[nodiscard]] Topology read_topology(const SystemFolders& folders, const std::vector<int>& allowed,
                                     bool with_gpus = true);

}  // namespace weft::mpiexec
