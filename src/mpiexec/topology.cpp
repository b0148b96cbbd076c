// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/topology.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>

#include "base/text_file.hpp"
#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr int kMaxMinor = 1 << 20;  // Linux has 20 bits for the minor number of a device

std::optional<int> read_number(const std::string& path) {
  return launch::parse_int(first_line(path), -1, launch::kMaxCpus);
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory.get()))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the NUMA node of every CPU.
std::map<int, int> read_numa_nodes(const std::string& sys) {
  std::map<int, int> node_of_cpu;
  const std::string root = sys + "/devices/system/node";
  for (const std::string& name : list_directory(root)) {
    if (!name.starts_with("node")) continue;
    auto node = launch::parse_int(std::string_view(name).substr(4), 0, launch::kMaxCpus);
    auto cpus = parse_cpu_list(first_line(root + "/" + name + "/cpulist"));
    if (!node || !cpus) continue;
    for (int cpu : *cpus) node_of_cpu[cpu] = *node;
  }
  return node_of_cpu;
}

/// Returns the first CPU with the level 3 cache of this one; -1: no such cache.
int read_l3(const std::string& cpu) {
  for (const std::string& index : list_directory(cpu + "/cache")) {
    const std::string folder = cpu + "/cache/" + index;
    if (!index.starts_with("index") || first_line(folder + "/level") != "3") continue;
    const auto shared = parse_cpu_list(first_line(folder + "/shared_cpu_list"));
    return shared && !shared->empty() ? shared->front() : -1;
  }
  return -1;
}

/// Returns the distances of NUMA nodes as the firmware reports them.
std::map<std::pair<int, int>, int> read_distances(const std::string& sys) {
  std::vector<std::pair<int, std::string>> rows;
  const std::string root = sys + "/devices/system/node";
  for (const std::string& name : list_directory(root))
    if (name.starts_with("node"))
      if (const auto node = launch::parse_int(std::string_view(name).substr(4), 0, launch::kMaxCpus))
        rows.emplace_back(*node, first_line(root + "/" + name + "/distance"));
  std::sort(rows.begin(), rows.end());  // a row has one number for each node, in this order
  std::map<std::pair<int, int>, int> distances;
  for (const auto& [node, row] : rows) {
    std::istringstream numbers(row);
    int distance = 0;
    for (size_t i = 0; i < rows.size() && numbers >> distance; ++i)
      distances[{node, rows[i].first}] = distance;
  }
  return distances;
}

/// Completes a GPU from the files of the driver. Returns false if this process may not use it.
bool read_driver_files(Gpu& gpu, const SystemFolders& folders) {
  const std::string file = folders.nvidia + "/gpus/" + gpu.address + "/information";
  if (::access(file.c_str(), R_OK) != 0) return false;
  gpu.uuid = value_in_file(file, "GPU UUID");
  if (gpu.uuid.find('?') != gpu.uuid.npos) gpu.uuid.clear();  // of a GPU that nothing has used yet
  const auto minor = launch::parse_int(value_in_file(file, "Device Minor"), 0, kMaxMinor);
  if (!minor) return true;
  const std::string number = std::to_string(*minor);
  for (const std::string& name : list_directory(folders.nvidia + "/capabilities/gpu" + number + "/mig"))
    gpu.mig |= name.starts_with("gi");
  // access() asks the device controller of the cgroup, too, and does not wake the GPU as open() does.
  return ::access((folders.devices + "/nvidia" + number).c_str(), R_OK | W_OK) == 0;
}

std::vector<Gpu> read_gpus(const SystemFolders& folders) {
  std::vector<Gpu> gpus;
  const std::string root = folders.sys + "/bus/pci/devices";
  const bool has_driver_files = !list_directory(folders.nvidia + "/gpus").empty();
  for (const std::string& address : list_directory(root)) {
    const std::string device = root + "/" + address;
    if (first_line(device + "/vendor") != "0x10de") continue;
    const std::string kind = first_line(device + "/class");
    if (!kind.starts_with("0x0300") && !kind.starts_with("0x0302")) continue;  // display or 3D controller
    Gpu gpu{address, read_number(device + "/numa_node").value_or(-1)};
    gpu.model = first_line(device + "/device");
    if (!has_driver_files || read_driver_files(gpu, folders)) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

Topology read_topology(const SystemFolders& folders, const std::vector<int>& allowed, bool with_gpus) {
  const std::string& sys = folders.sys;
  Topology topology;
  const auto node_of_cpu = read_numa_nodes(sys);
  std::map<std::tuple<int, int, int>, Core> cores;  // key: node, package, core number
  for (int cpu : allowed) {
    const std::string root = sys + "/devices/system/cpu/cpu" + std::to_string(cpu);
    const std::string directory = root + "/topology/";
    const int package = read_number(directory + "physical_package_id").value_or(0);
    const int number = read_number(directory + "core_id").value_or(cpu);
    auto node = node_of_cpu.find(cpu);
    const int numa = node == node_of_cpu.end() ? -1 : node->second;
    Core& core = cores[{numa, package, number}];
    core.package = package;
    core.number = number;
    core.numa = numa;
    if (core.cpus.empty()) core.l3 = read_l3(root);
    core.cpus.push_back(cpu);
  }
  for (auto& [key, core] : cores) topology.cores.push_back(std::move(core));
  if (!with_gpus) return topology;
  topology.gpus = read_gpus(folders);
  topology.distances = read_distances(sys);
  return topology;
}

Topology split_threads(const Topology& topology) {
  Topology split;
  split.gpus = topology.gpus;
  split.distances = topology.distances;
  for (const Core& core : topology.cores)
    for (const int cpu : core.cpus) {
      split.cores.push_back(core);
      split.cores.back().cpus = {cpu};
    }
  return split;
}

}  // namespace weft::mpiexec
