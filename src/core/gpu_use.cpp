// SPDX-License-Identifier: BSD-3-Clause
#include "core/gpu_use.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "base/config.hpp"
#include "base/log.hpp"
#include "core/instance.hpp"
#include "device/info.hpp"
#include "transport/shm/shm.hpp"

namespace weft::core {
namespace {

config::Choice setting_binding("launch.gpu_bind", 0, {"other", "rotate"},
                               "Set by mpiexec --gpu-bind rotate: device 0 of each rank is its own GPU.");

/// GPUs of the ranks of this host.
struct HostUse {
  std::set<device::Uuid> visible;
  std::map<device::Uuid, int> ranks;  ///< that have used the GPU
  std::map<device::Uuid, std::string> pci;
  int not_first = 0;  ///< ranks that have used GPUs, but not their device 0
};

/// Returns false while a rank may still begin to use a GPU.
bool collect(const transport::shm::Shm& shm, HostUse& host) {
  for (const auto peer : shm.members()) {
    const wait_table::Gpus& gpus = shm.wait_table(peer).gpus;
    if (gpus.known.load(std::memory_order_acquire) == 0) return false;
    const uint64_t used = gpus.used.load(std::memory_order_relaxed);
    if (used != 0 && (used & 1) == 0) ++host.not_first;
    for (uint32_t i = 0; i < gpus.visible; ++i) {
      device::Uuid uuid;
      std::memcpy(uuid.data(), gpus.gpu[i].uuid, uuid.size());
      host.visible.insert(uuid);
      host.pci[uuid] = gpus.gpu[i].pci;
      if ((used >> i & 1) != 0) ++host.ranks[uuid];
    }
  }
  return true;
}

}  // namespace

void GpuUse::look(Instance& instance) {
  const uint64_t used = device::used_devices();
  if (used == published_) [[likely]]
    return;
  publish(instance, used);
  check(instance);
}

void GpuUse::finish(Instance& instance) {
  publish(instance, device::used_devices());
  check(instance);
}

void GpuUse::publish(Instance& instance, uint64_t used) {
  wait_table::Gpus& table = instance.waits.table().gpus;
  if (published_ == 0 && used != 0) {
    auto devices = device::devices(device::Initialise::no);
    const size_t count = devices ? std::min<size_t>(devices->size(), wait_table::kMaxGpus) : 0;
    for (size_t i = 0; i < count; ++i) {
      const device::DeviceInfo& device = (*devices)[i];
      std::memcpy(table.gpu[i].uuid, device.uuid.data(), device.uuid.size());
      table.gpu[i].pci[device.pci.copy(table.gpu[i].pci, sizeof table.gpu[i].pci - 1)] = 0;
    }
    table.visible = static_cast<uint32_t>(count);
  }
  published_ = used;
  table.used.store(used, std::memory_order_relaxed);
  table.known.store(1, std::memory_order_release);
}

/// The last rank of the host to publish finds the others. Only the host of rank 0 reports.
void GpuUse::check(Instance& instance) {
  if (instance.shm == nullptr || instance.host != instance.host_of(0)) return;
  HostUse host;
  if (!collect(*instance.shm, host)) return;
  const auto shared =
      std::find_if(host.ranks.begin(), host.ranks.end(), [](const auto& gpu) { return gpu.second > 1; });
  const size_t idle = host.visible.size() - host.ranks.size();
  const bool rotated = setting_binding.is("rotate") && host.not_first > 0;
  if (!rotated && (shared == host.ranks.end() || idle == 0)) return;
  wait_table::Gpus& first = instance.shm->wait_table(instance.shm->members().front()).gpus;
  if (first.reported.exchange(1) != 0) return;
  if (rotated)
    log::write(
        log::Level::warn,
        "%d ranks of this host use another GPU than their device 0, which --gpu-bind rotate makes their own: "
        "the program selects its GPU by rank. Use --gpu-bind none, or single.",
        host.not_first);
  else
    log::write(
        log::Level::warn,
        "%d ranks of this host share the GPU %s (%s) and %zu other GPU%s idle: give each rank a GPU of its "
        "own (mpiexec --gpu-bind single, srun --gpu-bind=single:1)",
        shared->second, host.pci[shared->first].c_str(), device::text(shared->first).c_str(), idle,
        idle == 1 ? " is" : "s are");
}

}  // namespace weft::core
