// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/binding.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

using Cores = std::vector<const Core*>;

/// `text` is appended to the description, e.g. ", next to GPU 0000:3b:00.0".
Binding bind_to(const Cores& cores, const std::string& text = {}) {
  Binding binding;
  for (const Core* core : cores)
    binding.cpus.insert(binding.cpus.end(), core->cpus.begin(), core->cpus.end());
  std::sort(binding.cpus.begin(), binding.cpus.end());
  binding.description = std::to_string(cores.size()) + (cores.size() == 1 ? " core" : " cores") + ", cpus " +
                        format_cpu_list(binding.cpus) + text;
  return binding;
}

Binding unbound(const std::string& why) { return {{}, "not bound (" + why + ")"}; }

/// Returns the index-th of `parts` equal, contiguous shares of the cores.
Cores share(const Cores& cores, size_t index, size_t parts) {
  const auto at = [&](size_t part) {
    return cores.begin() + static_cast<std::ptrdiff_t>(cores.size() * part / parts);
  };
  return {at(index), at(index + 1)};
}

/// Returns the GPUs that CUDA_VISIBLE_DEVICES selects, in its order.
Result<std::vector<Gpu>> select_gpus(const std::vector<Gpu>& gpus, const char* visible) {
  if (visible == nullptr) return gpus;
  std::vector<Gpu> selected;
  std::stringstream stream{std::string(visible)};
  for (std::string word; std::getline(stream, word, ',');) {
    auto index = launch::parse_int(word, 0, static_cast<int>(gpus.size()) - 1);
    if (!index)
      return Error(Errc::unsupported, std::string("--map-by gpu: CUDA_VISIBLE_DEVICES=") + visible +
                                          " is not a list of GPU numbers from 0 to " +
                                          std::to_string(static_cast<int>(gpus.size()) - 1) +
                                          " (UUIDs are not supported). Use numbers or --map-by slot.");
    selected.push_back(gpus[static_cast<size_t>(*index)]);
  }
  return selected;
}

/// Binds each rank to cores of its GPU's NUMA node, divided among the ranks of the node.
Result<std::vector<Binding>> plan_by_gpu(const Options& options, const Topology& topology,
                                         const char* visible) {
  auto gpus = select_gpus(topology.gpus, visible);
  if (!gpus) return std::move(gpus).error();
  if (gpus->empty())
    return Error(Errc::arg, "--map-by gpu: this host has no visible NVIDIA GPU. Use --map-by slot.");
  const size_t ranks = static_cast<size_t>(options.ranks());
  std::map<int, size_t> ranks_of_node, placed_on_node;
  const auto gpu_of = [&](size_t rank) -> const Gpu& { return (*gpus)[rank % gpus->size()]; };
  for (size_t rank = 0; rank < ranks; ++rank) ++ranks_of_node[gpu_of(rank).numa];
  std::vector<Binding> plan;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Gpu& gpu = gpu_of(rank);
    const std::string suffix = ", next to GPU " + gpu.address;
    Cores near;
    for (const Core& core : topology.cores)
      if (core.numa == gpu.numa) near.push_back(&core);
    const size_t sharers = ranks_of_node[gpu.numa], index = placed_on_node[gpu.numa]++;
    if (gpu.numa < 0)
      plan.push_back(unbound("the system does not report which cores are near GPU " + gpu.address));
    else if (near.empty())
      plan.push_back(unbound("this process may use no core near GPU " + gpu.address));
    else if (options.bind_to == BindTo::core)
      plan.push_back(bind_to({near[index % near.size()]}, suffix));
    else if (near.size() < sharers)
      plan.push_back(bind_to(near, suffix));
    else
      plan.push_back(bind_to(share(near, index, sharers), suffix));
  }
  return plan;
}

}  // namespace

Result<std::vector<Binding>> plan_bindings(const Options& options, const Topology& topology,
                                           const char* visible_gpus) {
  const size_t ranks = static_cast<size_t>(options.ranks());
  if (options.bind_to == BindTo::none) return std::vector<Binding>(ranks, unbound("--bind-to none"));
  if (options.map_by == MapBy::gpu) return plan_by_gpu(options, topology, visible_gpus);
  Cores cores;
  for (const Core& core : topology.cores) cores.push_back(&core);
  const bool one_each = options.bind_to == BindTo::core || options.map_by == MapBy::core;
  if (cores.empty() || (ranks > cores.size() && options.bind_to != BindTo::core))
    return std::vector<Binding>(
        ranks, unbound(std::to_string(ranks) + " processes on " + std::to_string(cores.size()) + " cores"));
  if (ranks > cores.size() && !options.oversubscribe)
    return Error(Errc::arg, "--bind-to core: " + std::to_string(ranks) + " processes, but only " +
                                std::to_string(cores.size()) +
                                " cores (use --bind-to none, or --oversubscribe to let them share cores)");
  std::vector<Binding> plan;
  for (size_t rank = 0; rank < ranks; ++rank)
    plan.push_back(bind_to(one_each ? Cores{cores[rank % cores.size()]} : share(cores, rank, ranks)));
  return plan;
}

}  // namespace weft::mpiexec
