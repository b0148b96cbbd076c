// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/nic.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/info.hpp"

namespace weft::transport::ofi {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

Locality locality_of_device(const fs::path& device) {
  std::error_code failed;
  const fs::path real = fs::canonical(device, failed);
  if (failed) return {};
  Locality locality{real.string(), {}};
  const std::string node = first_line(real / "numa_node");
  if (!node.empty() && node[0] != '-') locality.numa.push_back(std::atoi(node.c_str()));
  return locality;
}

/// Returns whether a core of a list such as "0-3,8" is in `allowed`.
bool contains_any(const std::string& list, const cpu_set_t& allowed) {
  for (const char* at = list.c_str(); *at != '\0';) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    if (end == at) return false;
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long core = first; core <= last && core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(static_cast<size_t>(core), &allowed)) return true;
    at = *end == ',' ? end + 1 : end;
  }
  return false;
}

/// Splits a path such as /sys/devices/pci0000:00/0000:00:01.0/0000:17:00.0 after the host bridge.
bool split_at_bridge(const std::string& path, std::string& bridge, std::string& below) {
  const size_t start = path.find("/pci");
  if (start == std::string::npos) return false;
  const size_t end = path.find('/', start + 1);
  if (end == std::string::npos) return false;
  bridge = path.substr(0, end);
  below = path.substr(end + 1);
  return true;
}

}  // namespace

const char* name(Distance distance) {
  switch (distance) {
    case Distance::same_switch:
      return "same PCIe switch";
    case Distance::same_bridge:
      return "same PCIe host bridge";
    case Distance::same_node:
      return "same NUMA node";
    case Distance::across_nodes:
      return "another NUMA node";
    case Distance::unknown:
      break;
  }
  return "distance unknown";
}

Locality locality_of_pci(const std::string& sysfs, const std::string& pci) {
  return locality_of_device(fs::path(sysfs) / "bus/pci/devices" / pci);
}

Locality locality_of_cores(const std::string& sysfs) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  Locality locality;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(fs::path(sysfs) / "devices/system/node", failed)) {
    const std::string file = entry.path().filename();
    if (file.rfind("node", 0) == 0 && contains_any(first_line(entry.path() / "cpulist"), allowed))
      locality.numa.push_back(std::atoi(file.c_str() + 4));
  }
  std::sort(locality.numa.begin(), locality.numa.end());
  return locality;
}

Distance distance(const Locality& a, const Locality& b) {
  std::string bridge_a, below_a, bridge_b, below_b;
  if (split_at_bridge(a.path, bridge_a, below_a) && split_at_bridge(b.path, bridge_b, below_b) &&
      bridge_a == bridge_b)
    return below_a.substr(0, below_a.find('/')) == below_b.substr(0, below_b.find('/'))
               ? Distance::same_switch
               : Distance::same_bridge;
  if (a.numa.empty() || b.numa.empty()) return Distance::unknown;
  for (const int node : a.numa)
    if (std::find(b.numa.begin(), b.numa.end(), node) != b.numa.end()) return Distance::same_node;
  return Distance::across_nodes;
}

LocalityAnchor anchor(const std::string& sysfs) {
  const int active = device::available() ? device::only_active_device() : -1;
  if (active >= 0) {
    if (auto devices = device::devices(device::Initialise::no))
      for (const device::DeviceInfo& info : *devices)
        if (info.ordinal == active) return {locality_of_pci(sysfs, info.pci), "GPU " + info.pci};
  }
  LocalityAnchor cores{locality_of_cores(sysfs), "cores"};
  if (cores.locality.numa.size() == 1)
    cores.name += " of NUMA node " + std::to_string(cores.locality.numa[0]);
  return cores;
}

InterfaceKind kind_of_interface(const std::string& sysfs, const std::string& interface) {
  const fs::path folder = fs::path(sysfs) / "class/net" / interface;
  std::error_code failed;
  constexpr int kLoopback = 772;  // ARPHRD_LOOPBACK
  if (std::atoi(first_line(folder / "type").c_str()) == kLoopback) return InterfaceKind::loopback;
  if (fs::exists(folder / "bridge", failed)) return InterfaceKind::bridge;
  return fs::exists(folder / "device", failed) ? InterfaceKind::device : InterfaceKind::software;
}

long speed_of_interface(const std::string& sysfs, const std::string& interface) {
  return std::max(0L, std::atol(first_line(fs::path(sysfs) / "class/net" / interface / "speed").c_str()));
}

}  // namespace weft::transport::ofi
