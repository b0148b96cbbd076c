// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/binding.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/assert.hpp"
#include "launch/environment.hpp"
#include "mpiexec/rankfile.hpp"

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

/// Returns the index-th of `parts` equal, contiguous shares of the cores. Cores that are left over stay free:
/// programs that take their number of threads from the binding (Scotch) need the same one in each process.
Cores share(const Cores& cores, size_t index, size_t parts) {
  const auto first = cores.begin() + static_cast<std::ptrdiff_t>(cores.size() * index / parts);
  return {first, first + static_cast<std::ptrdiff_t>(cores.size() / parts)};
}

Error too_many(const Options& options, size_t objects) {
  return Error(Errc::arg, "--map-by ppr:" + std::to_string(options.per_object) + ": " +
                              std::to_string(options.ranks()) + " processes, but " + std::to_string(objects) +
                              " of these objects on this host");
}

/// Binds each rank to cores of its first GPU's NUMA node, divided among the ranks of the node.
Result<std::vector<Binding>> plan_by_gpu(const Options& options, const Topology& topology,
                                         const std::vector<VisibleGpu>& gpus,
                                         const std::vector<size_t>& busy_gpus) {
  if (gpus.empty())
    return Error(Errc::arg, "--map-by gpu: this host has no visible NVIDIA GPU. Use --map-by slot.");
  const size_t ranks = static_cast<size_t>(options.ranks());
  std::map<int, size_t> ranks_of_node, placed_on_node;
  const size_t each = std::max<size_t>(static_cast<size_t>(options.per_object), 1);
  if (options.per_object > 0 && ranks > each * gpus.size() * static_cast<size_t>(fake_hosts()))
    return too_many(options, gpus.size());
  std::vector<std::vector<size_t>> assigned(ranks);
  if (GpuBinding binding = gpu_binding(options); binding.assigns() && binding.kind != GpuBind::closest) {
    if (binding.kind == GpuBind::single && binding.count == 0) binding.count = options.per_object;
    auto of_binding = assign_gpus(binding, gpus, ranks, {}, busy_gpus);
    if (!of_binding) return std::move(of_binding).error();
    assigned = std::move(*of_binding);
  }
  const auto gpu_of = [&](size_t rank) -> const VisibleGpu& {
    return gpus[assigned[rank].empty() ? rank / each % gpus.size() : assigned[rank][0]];
  };
  for (size_t rank = 0; rank < ranks; ++rank) ++ranks_of_node[gpu_of(rank).gpu.numa];
  std::vector<Binding> plan;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Gpu& gpu = gpu_of(rank).gpu;
    const std::string name = gpu.address.empty() ? gpu_of(rank).entry : gpu.address;
    const std::string suffix = ", next to GPU " + name;
    Cores near;
    for (const Core& core : topology.cores)
      if (core.numa == gpu.numa) near.push_back(&core);
    const size_t sharers = ranks_of_node[gpu.numa], index = placed_on_node[gpu.numa]++;
    if (gpu.numa < 0)
      plan.push_back(unbound("the system does not report which cores are near GPU " + name));
    else if (near.empty())
      plan.push_back(unbound("this process may use no core near GPU " + name));
    else if (options.bind_to == BindTo::core)
      plan.push_back(bind_to({near[index % near.size()]}, suffix));
    else if (near.size() < sharers)
      plan.push_back(bind_to(near, suffix));
    else
      plan.push_back(bind_to(share(near, index, sharers), suffix));
    plan.back().gpu_indices = assigned[rank];
  }
  return plan;
}

/// Number of the object of a kind that has the core; 0 for kinds without objects.
int object_of(const Core& core, MapBy kind) {
  return kind == MapBy::package   ? core.package
         : kind == MapBy::numa    ? core.numa
         : kind == MapBy::l3cache ? core.l3
                                  : 0;
}

/// The cores of each object of a kind; the whole host for kinds without objects.
std::vector<Cores> objects(const Topology& topology, MapBy kind) {
  std::map<int, Cores> groups;
  int number = 0;
  for (const Core& core : topology.cores) {
    groups[kind == MapBy::core ? number++ : object_of(core, kind)].push_back(&core);
  }
  std::vector<Cores> all;
  for (auto& [key, cores] : groups) all.push_back(std::move(cores));
  return all;
}

/// Distributes the ranks over the objects of --map-by, and the cores of each object over its ranks. `narrow`:
/// a rank of more ranks than cores gets one core, not all of them. Simulated hosts share the objects.
Result<std::vector<Binding>> plan_by_object(const Options& options, const Topology& topology, bool narrow) {
  const std::vector<Cores> all = objects(topology, options.map_by);
  const size_t ranks = static_cast<size_t>(options.ranks()), each = static_cast<size_t>(options.per_object);
  if (all.empty()) return std::vector<Binding>(ranks, unbound("no core is known"));
  if (each > 0 && ranks > each * all.size() * static_cast<size_t>(fake_hosts()))
    return too_many(options, all.size());
  const auto object_of = [&](size_t rank) { return (each > 0 ? rank / each : rank) % all.size(); };
  std::vector<size_t> sharers(all.size()), placed(all.size());
  for (size_t rank = 0; rank < ranks; ++rank) ++sharers[object_of(rank)];
  const bool one = options.bind_to == BindTo::core;
  const size_t width = options.cores_per_rank > 0 ? static_cast<size_t>(options.cores_per_rank) : one ? 1 : 0;
  std::vector<Binding> plan;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Cores& cores = all[object_of(rank)];
    const size_t index = placed[object_of(rank)]++, among = sharers[object_of(rank)];
    if (width > 0) {
      const size_t places = cores.size() / width;
      if (index >= places && (places == 0 || !options.oversubscribe))
        return Error(Errc::arg,
                     std::to_string(among) + " processes with " + std::to_string(width) +
                         " cores each, but only " + std::to_string(cores.size()) +
                         " cores (use --bind-to none, or --oversubscribe to let them share cores)");
      const auto first = cores.begin() + static_cast<std::ptrdiff_t>(index % places * width);
      plan.push_back(bind_to({first, first + static_cast<std::ptrdiff_t>(width)}));
    } else {
      if (among <= cores.size())
        plan.push_back(bind_to(share(cores, index, among)));
      else
        plan.push_back(bind_to(narrow ? Cores{cores[index * cores.size() / among]} : cores));
    }
  }
  return plan;
}

/// Binds each rank, placed by --map-by, to the whole package or NUMA node of its first core.
Result<std::vector<Binding>> plan_wide(const Options& options, const Topology& topology) {
  const MapBy kind = options.bind_to == BindTo::package ? MapBy::package
                     : options.bind_to == BindTo::numa  ? MapBy::numa
                                                        : MapBy::l3cache;
  const std::vector<Cores> all = objects(topology, kind);
  Options shares = options;
  shares.bind_to = BindTo::share;
  auto plan = plan_by_object(shares, topology, true);
  if (!plan) return plan;
  const auto contains = [](const Cores& cores, int cpu) {
    return std::any_of(cores.begin(), cores.end(), [&](const Core* core) {
      return std::find(core->cpus.begin(), core->cpus.end(), cpu) != core->cpus.end();
    });
  };
  for (Binding& binding : *plan) {
    if (binding.cpus.empty()) continue;
    const int cpu = binding.cpus[0];
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Cores& cores) { return contains(cores, cpu); });
    WEFT_ASSERT(found != all.end());
    binding = bind_to(*found);
  }
  return plan;
}

/// Gives the ranks other places of the same mapping, as --rank-by says. Unbound ranks keep their numbers.
void renumber(std::vector<Binding>& plan, const Topology& topology, RankBy order) {
  std::map<int, std::pair<size_t, const Core*>> core_of_cpu;
  for (size_t at = 0; at < topology.cores.size(); ++at)
    for (const int cpu : topology.cores[at].cpus) core_of_cpu[cpu] = {at, &topology.cores[at]};
  const auto core_of = [&](const Binding& binding) { return core_of_cpu.at(binding.cpus[0]); };
  for (const Binding& binding : plan)
    if (binding.cpus.empty()) return;
  std::stable_sort(plan.begin(), plan.end(),
                   [&](const Binding& a, const Binding& b) { return core_of(a).first < core_of(b).first; });
  if (order == RankBy::fill) return;
  const MapBy kind = order == RankBy::package ? MapBy::package
                     : order == RankBy::numa  ? MapBy::numa
                                              : MapBy::l3cache;
  std::map<int, size_t> placed;  // ranks in each object so far
  std::vector<std::pair<size_t, Binding>> turns;
  for (Binding& binding : plan)
    turns.emplace_back(placed[object_of(*core_of(binding).second, kind)]++, std::move(binding));
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(turns.begin(), turns.end(), plan.begin(), [](auto& turn) { return std::move(turn.second); });
}

/// The places of the ranks in the order of the mapping.
Result<std::vector<Binding>> plan_mapping(const Options& options, const Topology& topology,
                                          const std::vector<VisibleGpu>& gpus,
                                          const std::vector<size_t>& busy_gpus) {
  const size_t ranks = static_cast<size_t>(options.ranks());
  if (options.bind_to == BindTo::none) return std::vector<Binding>(ranks, unbound("--bind-to none"));
  if (options.map_by == MapBy::gpu) return plan_by_gpu(options, topology, gpus, busy_gpus);
  if (options.bind_to == BindTo::package || options.bind_to == BindTo::numa ||
      options.bind_to == BindTo::l3cache)
    return plan_wide(options, topology);
  const bool of_objects =
      options.map_by == MapBy::package || options.map_by == MapBy::numa || options.map_by == MapBy::l3cache;
  if (of_objects || options.per_object > 0 || options.cores_per_rank > 1)
    return plan_by_object(options, topology, false);
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

/// Assigns GPUs to bound ranks, if the options ask for it and the mapping has not, and describes them.
Status add_gpus(std::vector<Binding>& plan, const Options& options, const Topology& topology,
                const std::vector<VisibleGpu>& gpus, const std::vector<size_t>& busy_gpus) {
  const GpuBinding binding = gpu_binding(options);
  if (!binding.assigns()) {
    for (Binding& rank : plan)
      if (!gpus.empty()) rank.description += "; " + count_gpus(gpus.size()) + " visible";
    return {};
  }
  std::vector<std::vector<int>> distances;
  for (const Binding& rank : plan) distances.push_back(gpu_distances(gpus, topology, rank.cpus));
  if (plan[0].gpu_indices.empty()) {
    auto assigned = assign_gpus(binding, gpus, plan.size(), distances, busy_gpus);
    if (!assigned) return std::move(assigned).error();
    for (size_t rank = 0; rank < plan.size(); ++rank) plan[rank].gpu_indices = (*assigned)[rank];
  }
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    const auto& own = plan[rank].gpu_indices;
    for (const size_t gpu : own) plan[rank].gpus.push_back(gpus[gpu].entry);
    plan[rank].description += "; " + describe_gpus(gpus, own, distances[rank]);
  }
  return {};
}

bool decides_by_gpus(const Options& options) {
  return options.map_by == MapBy::gpu || gpu_binding(options).assigns();
}

}  // namespace

bool needs_gpus(const Options& options) {
  return decides_by_gpus(options) || options.report_bindings || options.do_not_launch;
}

Result<std::vector<Binding>> plan_bindings(const Options& options, const Topology& topology,
                                           const GpuVariables& gpu_variables,
                                           const std::vector<size_t>& busy_gpus) {
  std::vector<VisibleGpu> gpus;
  if (needs_gpus(options)) {
    auto visible = visible_gpus(topology.gpus, gpu_variables);
    if (visible)
      gpus = std::move(*visible);
    else if (decides_by_gpus(options))
      return std::move(visible).error();
  }
  if (options.map_by == MapBy::node && options.rankfile.empty() && fake_hosts() > 1)
    return Error(Errc::arg, "--map-by node: the ranks of a simulated host are consecutive");
  const Topology places = options.hardware_threads ? split_threads(topology) : topology;
  auto plan = !options.rankfile.empty() ? bindings_of_rankfile(options.rankfile, options.ranks(), topology)
                                        : plan_mapping(options, places, gpus, busy_gpus);
  if (!plan) return plan;
  if (options.rankfile.empty() && options.rank_by != RankBy::mapping)
    renumber(*plan, places, options.rank_by);
  WEFT_TRY(add_gpus(*plan, options, topology, gpus, busy_gpus));
  return plan;
}

}  // namespace weft::mpiexec
