// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/topology.hpp"

#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

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

std::vector<Gpu> read_gpus(const std::string& sys) {
  std::vector<Gpu> gpus;
  const std::string root = sys + "/bus/pci/devices";
  for (const std::string& address : list_directory(root)) {
    const std::string device = root + "/" + address;
    if (first_line(device + "/vendor") != "0x10de") continue;
    const std::string kind = first_line(device + "/class");
    if (!kind.starts_with("0x0300") && !kind.starts_with("0x0302")) continue;  // display or 3D controller
    gpus.push_back({address, read_number(device + "/numa_node").value_or(-1)});
  }
  return gpus;
}

}  // namespace

Topology read_topology(const std::string& sys, const std::vector<int>& allowed) {
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
  topology.gpus = read_gpus(sys);
  return topology;
}

Topology split_threads(const Topology& topology) {
  Topology split;
  split.gpus = topology.gpus;
  for (const Core& core : topology.cores)
    for (const int cpu : core.cpus) {
      split.cores.push_back(core);
      split.cores.back().cpus = {cpu};
    }
  return split;
}

}  // namespace weft::mpiexec
