// SPDX-License-Identifier: BSD-3-Clause
#include "api/hardware.hpp"

#include <algorithm>
#include <optional>

#include "launch/cpus.hpp"
#include "launch/environment.hpp"

namespace weft::api {
namespace {

constexpr int kMaxNumaNodes = 1024, kMaxCacheIndices = 16;

/// Lowest CPU of a list; it identifies the resource that the CPUs share.
std::optional<int> first_of(const std::string& path) {
  const auto cpus = launch::parse_cpu_list(launch::first_line(path));
  if (!cpus || cpus->empty()) return std::nullopt;
  return *std::min_element(cpus->begin(), cpus->end());
}

std::string folder_of(const std::string& sys, int cpu) {
  return sys + "/devices/system/cpu/cpu" + std::to_string(cpu);
}

std::optional<int> package(const std::string& sys, int cpu) {
  return first_of(folder_of(sys, cpu) + "/topology/core_siblings_list");
}

std::optional<int> core(const std::string& sys, int cpu) {
  return first_of(folder_of(sys, cpu) + "/topology/thread_siblings_list");
}

std::optional<int> numa_node(const std::string& sys, int cpu) {
  for (int node = 0; node < kMaxNumaNodes; ++node) {
    const auto cpus = launch::parse_cpu_list(
        launch::first_line(sys + "/devices/system/node/node" + std::to_string(node) + "/cpulist"));
    if (cpus && std::find(cpus->begin(), cpus->end(), cpu) != cpus->end()) return node;
  }
  return std::nullopt;
}

/// Data or unified cache of a level.
template <int level>
std::optional<int> cache(const std::string& sys, int cpu) {
  for (int index = 0; index < kMaxCacheIndices; ++index) {
    const std::string folder = folder_of(sys, cpu) + "/cache/index" + std::to_string(index);
    const std::string found = launch::first_line(folder + "/level");
    if (found.empty()) break;
    if (found == std::to_string(level) && launch::first_line(folder + "/type") != "Instruction")
      return first_of(folder + "/shared_cpu_list");
  }
  return std::nullopt;
}

std::optional<int> hardware_thread(const std::string&, int cpu) { return cpu; }

struct ResourceType {
  const char* name;
  std::optional<int> (*instance)(const std::string& sys, int cpu);
};
constexpr ResourceType kTypes[] = {{"hwloc://Package", package},   {"hwloc://NUMANode", numa_node},
                                   {"hwloc://L3Cache", cache<3>},  {"hwloc://L2Cache", cache<2>},
                                   {"hwloc://L1Cache", cache<1>},  {"hwloc://Core", core},
                                   {"hwloc://PU", hardware_thread}};

}  // namespace

std::vector<HardwareResource> hardware_resources(const std::string& sys, const std::vector<int>& cpus) {
  std::vector<HardwareResource> resources = {{"hwloc://Machine", 0}};
  if (cpus.empty()) return resources;
  for (const ResourceType& type : kTypes) {
    const auto first = type.instance(sys, cpus.front());
    if (!first) continue;  // absent, or not reported by sysfs
    const bool restricted =
        std::all_of(cpus.begin(), cpus.end(), [&](int cpu) { return type.instance(sys, cpu) == first; });
    resources.push_back({type.name, restricted ? *first : -1});
  }
  return resources;
}

}  // namespace weft::api
