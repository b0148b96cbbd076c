// SPDX-License-Identifier: BSD-3-Clause
// Locality of network interfaces in the host's PCIe tree, and their distance from this rank's GPU (if exactly
// one CUDA context is active at start-up) or else from its cores. Read from sysfs.
#pragma once
#include <string>
#include <vector>

namespace weft::transport::ofi {

/// Position of a device or a set of cores in the machine.
struct Locality {
  std::string path;       ///< canonical sysfs path of the PCI device; empty: unknown
  std::vector<int> numa;  ///< NUMA nodes; empty: unknown
};

/// Distance between two localities, as classified by `nvidia-smi topo`.
enum class Distance { same_switch, same_bridge, same_node, across_nodes, unknown };
[[nodiscard]] const char* name(Distance distance);

/// `pci`: address such as 0000:17:00.0. `sysfs`: /sys, or a test tree.
[[nodiscard]] Locality locality_of_pci(const std::string& sysfs, const std::string& pci);
/// NUMA nodes of the cores on which this thread may run.
[[nodiscard]] Locality locality_of_cores(const std::string& sysfs);
[[nodiscard]] Distance distance(const Locality& a, const Locality& b);

/// Reference point for NIC distances.
struct LocalityAnchor {
  Locality locality;
  std::string name;  ///< "GPU 0000:17:00.0", "cores of NUMA node 1"
};
[[nodiscard]] LocalityAnchor anchor(const std::string& sysfs);

/// Kinds of network interfaces; smaller values are preferred for traffic between hosts.
enum class InterfaceKind { device, software, bridge, loopback };
[[nodiscard]] InterfaceKind kind_of_interface(const std::string& sysfs, const std::string& interface);
/// Speed in Mbit/s; 0: unknown.
[[nodiscard]] long speed_of_interface(const std::string& sysfs, const std::string& interface);

}  // namespace weft::transport::ofi
