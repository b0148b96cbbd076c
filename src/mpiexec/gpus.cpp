// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/gpus.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>
#include <set>
#include <sstream>

#include "base/assert.hpp"
#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr int kSameNode = 10;  // distance of a NUMA node to itself (ACPI specification, SLIT)

bool same_text(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// Returns true if CUDA's numbers are those of PCI order: by CUDA_DEVICE_ORDER, or because the GPUs are
/// equal.
bool numbered_by_pci(const std::vector<Gpu>& gpus, const GpuVariables& variables) {
  if (variables.order != nullptr && std::string_view(variables.order) == "PCI_BUS_ID") return true;
  return std::all_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.model == gpus[0].model; });
}

Error bad_entry(const std::string& entry, const GpuVariables& variables, const std::string& why) {
  return Error(Errc::arg,
               std::string("CUDA_VISIBLE_DEVICES=") + variables.visible + ": '" + entry + "' " + why);
}

/// Finds the GPU of an entry "GPU-UUID" (a prefix of the UUID suffices), "MIG-GPU-UUID/..." or "MIG-...".
Result<Gpu> find_by_uuid(const std::string& entry, const std::vector<Gpu>& gpus,
                         const GpuVariables& variables) {
  const bool mig = entry.starts_with("MIG-");
  const std::string uuid = entry.substr(mig ? 4 : 0, entry.find('/') - (mig ? 4 : 0));
  std::vector<const Gpu*> found;
  for (const Gpu& gpu : gpus)
    if (gpu.uuid.size() >= uuid.size() && same_text(std::string_view(gpu.uuid).substr(0, uuid.size()), uuid))
      found.push_back(&gpu);
  if (found.size() == 1) return *found[0];
  const bool known = std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return !gpu.uuid.empty(); });
  if (mig || !known) return Gpu{};  // the instance's own UUID does not tell the GPU
  return bad_entry(
      entry, variables,
      found.empty() ? "is no GPU of this host (nvidia-smi -L lists them)" : "names several GPUs");
}

Result<VisibleGpu> find_entry(const std::string& entry, const std::vector<Gpu>& gpus,
                              const GpuVariables& variables) {
  VisibleGpu visible{entry};
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
    auto gpu = find_by_uuid(entry, gpus, variables);
    if (!gpu) return std::move(gpu).error();
    visible.gpu = std::move(*gpu);
    return visible;
  }
  const auto number = launch::parse_int(entry, 0, kMaxGpus - 1);
  if (!number) return bad_entry(entry, variables, "is neither a number nor a UUID (GPU-..., MIG-...)");
  if (gpus.empty()) return visible;  // the kernel does not show them: only the driver knows
  if (static_cast<size_t>(*number) >= gpus.size())
    return bad_entry(entry, variables,
                     "is no GPU of this host, which has " + std::to_string(gpus.size()) + ", from number 0");
  if (numbered_by_pci(gpus, variables)) visible.gpu = gpus[static_cast<size_t>(*number)];
  return visible;
}

std::string plural(size_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

Error too_few(const GpuBinding& binding, const std::string& wanted, size_t gpus) {
  return Error(Errc::arg, "--gpu-bind " + binding.text + ": " + wanted + ", but " + plural(gpus, "GPU") +
                              (gpus == 1 ? " is" : " are") + " visible here");
}

/// Numbers of ranks that GPUs take. A GPU that has `each` ranks takes one of the `extra` ranks, once.
struct Capacity {
  size_t each, extra;
  size_t block;  ///< ranks that a GPU takes before the next one
  std::vector<size_t> used;

  /// Returns one of the candidates with room; used.size() if none has.
  size_t take(const std::vector<size_t>& candidates) {
    size_t best = used.size();
    for (const size_t gpu : candidates)
      if (used[gpu] < each && (best == used.size() || used[gpu] / block < used[best] / block)) best = gpu;
    for (const size_t gpu : candidates)
      if (best == used.size() && extra > 0 && used[gpu] == each) {
        best = gpu;
        --extra;
      }
    if (best < used.size()) ++used[best];
    return best;
  }
};

/// Returns the GPUs with the smallest known distance first, and then the others; `near`: only the first
/// group.
std::vector<size_t> nearest(size_t gpus, const std::vector<int>& distances, bool near) {
  std::vector<size_t> order(gpus);
  for (size_t gpu = 0; gpu < gpus; ++gpu) order[gpu] = gpu;
  if (distances.empty()) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return distances[a] < distances[b]; });
  const auto far = std::find_if(order.begin(), order.end(),
                                [&](size_t gpu) { return distances[gpu] > distances[order[0]]; });
  return near ? std::vector<size_t>(order.begin(), far) : order;
}

using Assignment = std::vector<std::vector<size_t>>;

/// One GPU for each rank: a near one with room, else a far one. `per_gpu`: ranks of a GPU, or a multiple
/// where there are more; 0: equal shares.
Assignment assign_single(size_t per_gpu, const std::vector<size_t>& busy, size_t ranks,
                         const std::vector<std::vector<int>>& distances) {
  const size_t gpus = busy.size();
  const size_t all = std::accumulate(busy.begin(), busy.end(), ranks);
  const size_t share = std::max<size_t>(all / gpus, 1),
               rounds = (all - 1) / (std::max<size_t>(per_gpu, 1) * gpus) + 1;
  Capacity capacity = per_gpu > 0 ? Capacity{per_gpu * rounds, 0, per_gpu, busy}
                                  : Capacity{share, all > gpus ? all % gpus : 0, share, busy};
  Assignment assignment;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int>& to = distances.empty() ? std::vector<int>() : distances[rank];
    size_t own = capacity.take(nearest(gpus, to, true));
    if (own == gpus) own = capacity.take(nearest(gpus, to, false));
    WEFT_ASSERT(own < gpus);
    assignment.push_back({own});
  }
  return assignment;
}

/// A number of GPUs of its own for each rank, near ones first.
Assignment assign_several(size_t count, std::vector<size_t> busy, size_t ranks,
                          const std::vector<std::vector<int>>& distances) {
  Assignment assignment(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int>& to = distances.empty() ? std::vector<int>() : distances[rank];
    for (const size_t gpu : nearest(busy.size(), to, false))
      if (busy[gpu] == 0 && assignment[rank].size() < count) {
        ++busy[gpu];
        assignment[rank].push_back(gpu);
      }
    std::sort(assignment[rank].begin(), assignment[rank].end());
  }
  return assignment;
}

Result<Assignment> assign_lists(const GpuBinding& binding, size_t gpus, size_t ranks) {
  Assignment assignment;
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<size_t> own;
    for (const int gpu : binding.lists[rank % binding.lists.size()]) {
      if (static_cast<size_t>(gpu) >= gpus)
        return too_few(binding, "rank " + std::to_string(rank) + " gets GPU " + std::to_string(gpu), gpus);
      own.push_back(static_cast<size_t>(gpu));
    }
    assignment.push_back(std::move(own));
  }
  return assignment;
}

Error unknown_distances(const GpuBinding& binding) {
  return Error(Errc::arg,
               "--gpu-bind " + binding.text +
                   ": it is not known which cores are near which GPU (virtual machine, MIG instances, "
                   "or GPUs of different models without CUDA_DEVICE_ORDER=PCI_BUS_ID): use "
                   "--gpu-bind single");
}

}  // namespace

GpuVariables gpu_variables() {
  return {std::getenv("CUDA_VISIBLE_DEVICES"), std::getenv("CUDA_DEVICE_ORDER")};
}

Result<std::vector<VisibleGpu>> visible_gpus(const std::vector<Gpu>& gpus, const GpuVariables& variables) {
  std::vector<VisibleGpu> visible;
  if (variables.visible == nullptr) {
    const bool by_pci = variables.order == nullptr || numbered_by_pci(gpus, variables);
    for (size_t i = 0; i < gpus.size(); ++i) visible.push_back({std::to_string(i), by_pci ? gpus[i] : Gpu{}});
    return visible;
  }
  std::stringstream stream{std::string(variables.visible)};
  for (std::string word; std::getline(stream, word, ',');) {
    word.erase(0, std::min(word.find_first_not_of(' '), word.size()));
    word.erase(word.find_last_not_of(' ') + 1);
    if (word == "-1" || word == "NoDevFiles") break;  // Slurm, CUDA: no GPU from here on
    auto found = find_entry(word, gpus, variables);
    if (!found) return std::move(found).error();
    visible.push_back(std::move(*found));
  }
  return visible;
}

std::vector<int> gpu_distances(const std::vector<VisibleGpu>& gpus, const Topology& topology,
                               const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const Core& core : topology.cores)
    if (cpus.empty() || std::any_of(core.cpus.begin(), core.cpus.end(), [&](int cpu) {
          return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
        }))
      nodes.insert(core.numa);
  std::vector<int> distances;
  for (const VisibleGpu& visible : gpus) {
    int least = -1;
    for (const int node : nodes) {
      if (node < 0 || visible.gpu.numa < 0) continue;
      const auto known = topology.distances.find({node, visible.gpu.numa});
      const int distance = known != topology.distances.end() ? known->second
                           : node == visible.gpu.numa        ? kSameNode
                                                             : 2 * kSameNode;
      if (least < 0 || distance < least) least = distance;
    }
    distances.push_back(least);
  }
  return distances;
}

Result<Assignment> assign_gpus(const GpuBinding& binding, const std::vector<VisibleGpu>& gpus, size_t ranks,
                               const std::vector<std::vector<int>>& distances, std::vector<size_t> busy) {
  if (gpus.empty())
    return Error(Errc::arg,
                 "--gpu-bind " + binding.text +
                     ": no NVIDIA GPU is visible here. If the program sees GPUs that the kernel does "
                     "not list (WSL), name them: CUDA_VISIBLE_DEVICES=0,1 mpiexec ...");
  for (const VisibleGpu& visible : gpus)
    if (visible.gpu.mig && !visible.entry.starts_with("MIG-"))
      return Error(Errc::arg, "--gpu-bind " + binding.text + ": GPU " + visible.gpu.address +
                                  " is divided into MIG instances: name them, as nvidia-smi -L prints them: "
                                  "CUDA_VISIBLE_DEVICES=MIG-...,MIG-... mpiexec ...");
  busy.resize(gpus.size());
  std::vector<std::vector<int>> to = distances;
  for (const auto& row : to)
    if (std::find(row.begin(), row.end(), -1) != row.end()) {
      to.clear();
      break;
    }
  switch (binding.kind) {
    case GpuBind::unset:
    case GpuBind::none:
      break;
    case GpuBind::closest: {
      if (to.size() < ranks) return unknown_distances(binding);
      Assignment assignment;
      for (size_t rank = 0; rank < ranks; ++rank) assignment.push_back(nearest(gpus.size(), to[rank], true));
      return assignment;
    }
    case GpuBind::single:
      return assign_single(static_cast<size_t>(binding.count), busy, ranks, to);
    case GpuBind::per_task: {
      const auto count = static_cast<size_t>(binding.count);
      const auto idle = static_cast<size_t>(std::count(busy.begin(), busy.end(), 0));
      const std::string wanted = plural(ranks, "rank") + " with " + plural(count, "GPU") + " each";
      if (count * ranks > gpus.size()) return too_few(binding, wanted, gpus.size());
      if (count * ranks > idle)
        return Error(Errc::arg, "--gpu-bind " + binding.text + ": " + wanted + ", but only " +
                                    plural(idle, "GPU") + " not in use by the other processes of the job");
      return assign_several(count, busy, ranks, to);
    }
    case GpuBind::list:
      return assign_lists(binding, gpus.size(), ranks);
    case GpuBind::rotate: {
      Assignment assignment = assign_single(0, busy, ranks, to);
      for (auto& own : assignment)
        for (size_t next = 1; next < gpus.size(); ++next) own.push_back((own[0] + next) % gpus.size());
      return assignment;
    }
  }
  return Assignment(ranks);
}

std::string count_gpus(size_t gpus) { return plural(gpus, "GPU"); }

std::string describe_gpus(const std::vector<VisibleGpu>& gpus, const std::vector<size_t>& own,
                          const std::vector<int>& distances) {
  std::string text;
  for (const size_t index : own) {
    const VisibleGpu& visible = gpus[index];
    std::string details;
    const auto add = [&](const std::string& word) { details += (details.empty() ? "" : " ") + word; };
    if (!visible.gpu.address.empty()) add(visible.gpu.address);
    if (!visible.gpu.uuid.empty() && visible.entry != visible.gpu.uuid) add(visible.gpu.uuid);
    if (index < distances.size() && distances[index] >= 0)
      details += (details.empty() ? "NUMA distance " : ", NUMA distance ") + std::to_string(distances[index]);
    text +=
        (text.empty() ? "GPU " : ", GPU ") + visible.entry + (details.empty() ? "" : " (" + details + ")");
  }
  if (own.size() < gpus.size()) text += ", " + plural(gpus.size() - own.size(), "GPU") + " hidden";
  return text;
}

}  // namespace weft::mpiexec
