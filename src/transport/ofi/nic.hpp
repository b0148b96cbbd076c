// SPDX-License-Identifier: BSD-3-Clause
// Where network interfaces are on the PCIe tree of the host, and how far from what this rank works with: its
// GPU when exactly one context is active at start-up, else the cores it is bound to. Read from sysfs.
#pragma once
#include <string>
#include <vector>

namespace weft::transport::ofi {

/// A place in the machine.
struct Place {
  std::string path;       ///< sysfs path of the PCI device, all links resolved; empty: unknown
  std::vector<int> numa;  ///< NUMA nodes; empty: unknown
};

/// How far two places are apart, in the words of `nvidia-smi topo`.
enum class Distance { same_switch, same_bridge, same_node, across_nodes, unknown };
[[nodiscard]] const char* name(Distance distance);

/// `pci` as 0000:17:00.0. `sysfs` is /sys, or a copy of its tree in tests.
[[nodiscard]] Place place_of_pci(const std::string& sysfs, const std::string& pci);
/// The device behind a network interface (eth0); virtual ones are nowhere.
[[nodiscard]] Place place_of_interface(const std::string& sysfs, const std::string& interface);
/// The NUMA nodes whose cores this thread may run on.
[[nodiscard]] Place place_of_cores(const std::string& sysfs);
[[nodiscard]] Distance distance(const Place& a, const Place& b);

/// What the rank's NICs should be near to, and its name for a human.
struct Anchor {
  Place place;
  std::string name;  ///< "GPU 0000:17:00.0", "cores of NUMA node 1"
};
[[nodiscard]] Anchor anchor(const std::string& sysfs);

/// How good a network interface is for traffic between hosts when several have addresses: smaller is better.
enum class InterfaceKind { device, software, bridge, loopback };
[[nodiscard]] InterfaceKind kind_of_interface(const std::string& sysfs, const std::string& interface);
/// Megabits a second; 0: unknown.
[[nodiscard]] long speed_of_interface(const std::string& sysfs, const std::string& interface);

}  // namespace weft::transport::ofi
