// SPDX-License-Identifier: BSD-3-Clause
// Topology and binding on the processors of real machines (machines.txt).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "mpiexec/binding.hpp"

namespace weft::mpiexec {
namespace {

namespace fs = std::filesystem;
using Cpus = std::vector<int>;

struct Machine {
  std::string name;
  std::map<int, std::string> package, core;  // by CPU
  std::map<int, Cpus> l3;                    // by CPU
  std::set<Cpus> threads, packages, caches, nodes;
  std::map<std::string, std::string> node_cpus;

  [[nodiscard]] Cpus cpus() const {
    Cpus all;
    for (const auto& [cpu, number] : core) all.push_back(cpu);
    return all;
  }
};

std::vector<Machine> machines() {
  std::vector<Machine> all;
  std::ifstream file(MACHINES);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string field, word, value;
    words >> field;
    if (field.empty() || field[0] == '#') continue;
    if (field == "machine") words >> all.emplace_back().name;
    if (field == "machine") continue;
    Machine& machine = all.back();
    if (field == "node") {
      words >> value >> word;
      machine.node_cpus[value] = word;
      machine.nodes.insert(parse_cpu_list(word).value());
    }
    while (field != "node" && words >> word) {
      const size_t equal = word.find('=');
      const Cpus cpus = parse_cpu_list(word.substr(equal == std::string::npos ? 0 : equal + 1)).value();
      if (field == "threads") machine.threads.insert(cpus);
      if (field == "package") machine.packages.insert(cpus);
      if (field == "l3") machine.caches.insert(cpus);
      for (const int cpu : cpus) {
        if (field == "package") machine.package[cpu] = word.substr(0, equal);
        if (field == "core") machine.core[cpu] = word.substr(0, equal);
        if (field == "l3") machine.l3[cpu] = cpus;
      }
    }
  }
  return all;
}

/// A folder with the files of sysfs that describe a machine.
class Tree {
 public:
  explicit Tree(const Machine& machine) {
    char name[] = "/tmp/launch-machine-XXXXXX";
    root_ = ::mkdtemp(name);
    for (const auto& [cpu, number] : machine.core) {
      const std::string folder = "/devices/system/cpu/cpu" + std::to_string(cpu);
      write(folder + "/topology/core_id", number);
      write(folder + "/topology/physical_package_id", machine.package.at(cpu));
      if (!machine.l3.contains(cpu)) continue;
      write(folder + "/cache/index3/level", "3");
      write(folder + "/cache/index3/shared_cpu_list", format_cpu_list(machine.l3.at(cpu)));
    }
    for (const auto& [node, cpus] : machine.node_cpus)
      write("/devices/system/node/node" + node + "/cpulist", cpus);
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  std::string root_;
};

Topology tree_topology(const Machine& machine) {
  const Tree tree(machine);
  return read_topology({tree.root(), tree.root() + "/nvidia", tree.root() + "/dev"}, machine.cpus());
}

/// All machines with their topologies.
const std::vector<std::pair<Machine, Topology>>& topologies() {
  static const auto kAll = [] {
    std::vector<std::pair<Machine, Topology>> all;
    for (const Machine& machine : machines()) all.emplace_back(machine, tree_topology(machine));
    return all;
  }();
  return kAll;
}

/// The CPUs of each rank. `ranks`: as many as there are objects.
std::vector<Cpus> bound(const Topology& topology, size_t ranks, BindTo bind_to, MapBy map_by) {
  Options options;
  options.programs.push_back(Program{static_cast<int>(ranks), {"a"}, {}, ""});
  options.bind_to = bind_to;
  options.map_by = map_by;
  const auto bindings = plan_bindings(options, topology, {});
  std::vector<Cpus> cpus;
  EXPECT_TRUE(bindings) << (bindings ? "" : bindings.error().message());
  if (!bindings) return cpus;
  for (const Binding& binding : *bindings) cpus.push_back(binding.cpus);
  for (Cpus& each : cpus) std::sort(each.begin(), each.end());
  return cpus;
}
std::set<Cpus> as_set(const std::vector<Cpus>& cpus) { return {cpus.begin(), cpus.end()}; }
bool within(const Cpus& cpus, const std::set<Cpus>& objects) {
  return std::any_of(objects.begin(), objects.end(), [&](const Cpus& object) {
    return std::includes(object.begin(), object.end(), cpus.begin(), cpus.end());
  });
}

TEST(Machines, CoresAreThoseOfTheKernel) {
  for (const auto& [machine, topology] : topologies()) {
    std::set<Cpus> cores;
    for (const Core& core : topology.cores) cores.insert(core.cpus);
    EXPECT_EQ(cores, machine.threads) << machine.name;
  }
  EXPECT_EQ(topologies().size(), 9U);
}

TEST(Machines, OneRankForEachObject) {
  for (const auto& [machine, topology] : topologies()) {
    SCOPED_TRACE(machine.name);
    const auto bound_to = [&topology = topology](const std::set<Cpus>& objects, BindTo bind_to,
                                                 MapBy map_by) {
      return as_set(bound(topology, objects.size(), bind_to, map_by));
    };
    EXPECT_EQ(bound_to(machine.threads, BindTo::core, MapBy::core), machine.threads);
    EXPECT_EQ(bound_to(machine.packages, BindTo::package, MapBy::package), machine.packages);
    EXPECT_EQ(bound_to(machine.nodes, BindTo::numa, MapBy::numa), machine.nodes);
    if (!machine.caches.empty()) {
      EXPECT_EQ(bound_to(machine.caches, BindTo::l3cache, MapBy::l3cache), machine.caches);
    }
  }
}

TEST(Machines, ThreadsAsCores) {
  for (const auto& [machine, topology] : topologies()) {
    const Topology threads = split_threads(topology);
    std::set<Cpus> each;
    for (const int cpu : machine.cpus()) each.insert({cpu});
    EXPECT_EQ(as_set(bound(threads, each.size(), BindTo::core, MapBy::core)), each) << machine.name;
  }
}

/// By default each rank gets an equal share, and no rank has processors of two NUMA nodes if the nodes divide
/// equally.
TEST(Machines, SharesStayInNodes) {
  for (const auto& [machine, topology] : topologies()) {
    SCOPED_TRACE(machine.name);
    for (const size_t per_node : {1U, 2U}) {
      const auto cpus = bound(topology, per_node * machine.nodes.size(), BindTo::share, MapBy::slot);
      Cpus all;
      for (const Cpus& each : cpus) {
        EXPECT_TRUE(within(each, machine.nodes)) << format_cpu_list(each);
        all.insert(all.end(), each.begin(), each.end());
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(all, machine.cpus());
    }
  }
}

}  // namespace
}  // namespace weft::mpiexec
