// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/rankfile.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/text_file.hpp"
#include "launch/environment.hpp"
#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

namespace {

using Cores = std::vector<const Core*>;

/// The cores of a package, or of the host, in the order of the topology.
Cores cores_of(const Topology& topology, std::optional<int> package) {
  std::set<int> packages;
  for (const Core& core : topology.cores) packages.insert(core.package);
  if (package && *package >= static_cast<int>(packages.size())) return {};
  const int id = package ? *std::next(packages.begin(), *package) : 0;
  Cores cores;
  for (const Core& core : topology.cores)
    if (!package || core.package == id) cores.push_back(&core);
  return cores;
}

/// Returns the CPUs of "0:1,3-4", "1:*" or "2,3"; empty: no such cores, or another text.
std::vector<int> cpus_of_slot(const std::string& slot, const Topology& topology) {
  const size_t colon = slot.find(':');
  std::optional<int> package;
  if (colon != slot.npos) {
    package = launch::parse_int(slot.substr(0, colon), 0, launch::kMaxCpus);
    if (!package) return {};
  }
  const std::string list = colon == slot.npos ? slot : slot.substr(colon + 1);
  const Cores cores = cores_of(topology, package);
  std::vector<int> cpus;
  const auto add = [&](const Core& core) { cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end()); };
  if (list == "*") {
    for (const Core* core : cores) add(*core);
    return cpus;
  }
  const auto numbers = parse_cpu_list(list);
  if (!numbers) return {};
  for (const int number : *numbers) {
    if (number >= static_cast<int>(cores.size())) return {};
    add(*cores[static_cast<size_t>(number)]);
  }
  return cpus;
}

/// Applies one line. Returns why it is wrong; empty: it is right.
std::string read_line(std::string line, std::vector<Binding>& plan, const Topology& topology) {
  line.erase(std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t'; }),
             line.end());
  const size_t equals = line.find('='), slot = line.find("slot=");
  const auto rank = line.starts_with("rank") && equals != line.npos
                        ? launch::parse_int(line.substr(4, equals - 4), 0, kMaxRanks - 1)
                        : std::nullopt;
  if (!rank || slot == line.npos || slot < equals) return "a line is: rank 0=HOST slot=0:1";
  const std::string host = line.substr(equals + 1, slot - equals - 1);
  if (host != "+n0" && !is_this_host(host))
    return "host " + host + " is not this one; for several hosts use --launcher prrte";
  if (*rank >= static_cast<int>(plan.size()))
    return "the job has " + std::to_string(plan.size()) + " processes (-n)";
  Binding& binding = plan[static_cast<size_t>(*rank)];
  if (!binding.cpus.empty()) return "rank " + std::to_string(*rank) + " is there twice";
  binding.cpus = cpus_of_slot(line.substr(slot + 5), topology);
  if (binding.cpus.empty()) return "no such cores: " + line.substr(slot + 5);
  std::sort(binding.cpus.begin(), binding.cpus.end());
  binding.description = "cpus " + format_cpu_list(binding.cpus) + ", by the rank file";
  return {};
}

}  // namespace

Result<std::vector<Binding>> bindings_of_rankfile(const std::string& path, int ranks,
                                                  const Topology& topology) {
  auto text = read_text_file(path, Errc::file);
  if (!text) return Error(Errc::file, "--rankfile: " + text.error().message());
  std::istringstream file(*text);
  std::vector<Binding> plan(static_cast<size_t>(ranks));
  for (std::string line; std::getline(file, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (const std::string wrong = read_line(line, plan, topology); !wrong.empty())
      return Error(Errc::arg, "--rankfile: " + path + ": " + line + ": " + wrong);
  }
  for (size_t rank = 0; rank < plan.size(); ++rank)
    if (plan[rank].cpus.empty())
      return Error(Errc::arg, "--rankfile: " + path + " has no line for rank " + std::to_string(rank));
  return plan;
}

}  // namespace weft::mpiexec
