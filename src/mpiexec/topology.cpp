// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/topology.hpp"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr int kMostCpus = 1 << 20;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> read_number(const std::string& path) {
  return launch::parse_int(first_line(path), -1, kMostCpus);
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

/// NUMA node of every CPU.
std::map<int, int> read_numa_nodes(const std::string& sys) {
  std::map<int, int> node_of_cpu;
  const std::string root = sys + "/devices/system/node";
  for (const std::string& name : list_directory(root)) {
    if (!name.starts_with("node")) continue;
    auto node = launch::parse_int(std::string_view(name).substr(4), 0, kMostCpus);
    auto cpus = parse_cpu_list(first_line(root + "/" + name + "/cpulist"));
    if (!node || !cpus) continue;
    for (int cpu : *cpus) node_of_cpu[cpu] = *node;
  }
  return node_of_cpu;
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
  std::map<std::tuple<int, int, int>, Core> cores;  // by node, package, core number
  for (int cpu : allowed) {
    const std::string directory = sys + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const int package = read_number(directory + "physical_package_id").value_or(0);
    const int number = read_number(directory + "core_id").value_or(cpu);
    auto node = node_of_cpu.find(cpu);
    const int numa = node == node_of_cpu.end() ? -1 : node->second;
    Core& core = cores[{numa, package, number}];
    core.package = package;
    core.number = number;
    core.numa = numa;
    core.cpus.push_back(cpu);
  }
  for (auto& [key, core] : cores) topology.cores.push_back(std::move(core));
  topology.gpus = read_gpus(sys);
  return topology;
}

std::vector<int> allowed_cpus() {
  // The kernel refuses sets smaller than its own: grow until it accepts.
  for (int most = 1024; most <= kMostCpus; most *= 4) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<size_t>(most)),
                                                         [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(most));
    if (::sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    return cpus;
  }
  return {};
}

std::optional<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::stringstream stream(text);
  for (std::string range; std::getline(stream, range, ',');) {
    const size_t dash = range.find('-');
    auto first = launch::parse_int(std::string_view(range).substr(0, dash), 0, kMostCpus);
    auto last = dash == range.npos ? first : launch::parse_int(range.substr(dash + 1), 0, kMostCpus);
    if (!first || !last || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += '-' + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace weft::mpiexec
