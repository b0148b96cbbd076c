// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/gpu_connections.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "base/wait_table.hpp"
#include "device/allocate.hpp"
#include "device/info.hpp"
#include "p2p/engine/engine.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {
namespace {

using wait_table::Gpus;
using wait_table::OwnGpu;

config::Size setting_max_ranks(
    "gpu.connect_max_ranks", 8, 0, 1024,
    "Largest number of ranks of a host, with a GPU each, that load kernels and map each other's bounce "
    "buffers in MPI_Init, if their threads have CUDA contexts then. With more ranks, and with 0, the first "
    "messages do so, which takes milliseconds. 0 if a kernel that runs during MPI_Init ends only after later "
    "calls of MPI.");

Gpus& gpus_of(const Engine& engine, uint32_t rank) { return engine.instance.shm->wait_table(rank).gpus; }

/// Publishes the state of this rank.
void publish(const Engine& engine, OwnGpu state) {
  gpus_of(engine, engine.instance.self).own.store(state, std::memory_order_release);
}

OwnGpu published(const Engine& engine, uint32_t rank) {
  return gpus_of(engine, rank).own.load(std::memory_order_acquire);
}

bool failed(const Engine& engine, uint32_t rank) { return engine.instance.failures.failed(rank); }

/// Whether the rank never announces a bounce buffer.
bool has_declined(const Engine& engine, uint32_t rank) {
  const OwnGpu state = published(engine, rank);
  return state == OwnGpu::none || state == OwnGpu::declined || failed(engine, rank);
}

/// Stores the GPU of the calling thread's context in the wait table. Returns its context, as memory on the
/// GPU; an error if there is none or GPUs are not to be connected.
Result<device::Memory> describe_own(const Engine& engine) {
  if (setting_max_ranks < 2 || BouncePool::chunk_count() == 0 || core::MappingRule::maps_at_once())
    return Error(Errc::unsupported, "GPUs are connected by their first messages");
  auto context = device::current_context();
  if (!context) return context;
  auto id = device::id_of(context->device);
  if (!id) return std::move(id).error();
  std::memcpy(gpus_of(engine, engine.instance.self).own_uuid, id->uuid.data(), id->uuid.size());
  return context;
}

}  // namespace

void GpuConnections::connect() {
  if (engine_.instance.shm != nullptr) connect_peers();
  done_ = true;
  announced_.clear();
}

void GpuConnections::give_up() {
  if (engine_.instance.shm != nullptr) publish(engine_, OwnGpu::none);
}

void GpuConnections::connect_peers() {
  const auto near = describe_own(engine_);
  publish(engine_, near ? OwnGpu::known : OwnGpu::none);
  if (!near) return;
  const trace::Range range("p2p.connect_gpus");
  const auto peers = peers_with_own_gpu();
  if (peers.empty() || !announce(peers, *near)) return publish(engine_, OwnGpu::declined);
  open(peers, *near);
}

/// Waits until all ranks of the host have published their GPUs. Returns the other ranks that have one; none
/// if they are too many, or if two ranks have the same GPU: either has not selected its own yet, or kernels
/// of both are to share it.
std::vector<uint32_t> GpuConnections::peers_with_own_gpu() const {
  const auto members = engine_.instance.shm->members();
  core::wait_until(engine_.instance, [&] {
    return std::all_of(members.begin(), members.end(), [&](uint32_t rank) {
      return published(engine_, rank) != OwnGpu::unknown || failed(engine_, rank);
    });
  });
  std::vector<uint32_t> peers;
  std::vector<device::Uuid> gpus;
  for (const uint32_t rank : members) {
    const OwnGpu state = published(engine_, rank);
    if (state != OwnGpu::known && state != OwnGpu::declined) continue;
    std::memcpy(gpus.emplace_back().data(), gpus_of(engine_, rank).own_uuid, sizeof Gpus::own_uuid);
    if (rank != engine_.instance.self) peers.push_back(rank);
  }
  std::sort(gpus.begin(), gpus.end());
  const bool shared = std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
  if (shared || gpus.size() > setting_max_ranks) return {};
  return peers;
}

/// Allocates the bounce buffer, for which the kernels are loaded, and announces it. Returns false if there is
/// none.
bool GpuConnections::announce(const std::vector<uint32_t>& peers, const device::Memory& near) {
  const auto arena = engine_.bounce_pool.arena(near);
  if (!arena) return false;
  return std::all_of(peers.begin(), peers.end(), [&](uint32_t peer) {
    return failed(engine_, peer) || engine_.regions.announce_bounce((*arena)->memory, peer);
  });
}

/// Maps the bounce buffers of the peers in the order of their announcements. A peer whose MPI_Init has
/// returned may have reset its GPU meanwhile, so that its buffer is gone: its first message tests the path
/// again.
void GpuConnections::open(const std::vector<uint32_t>& peers, const device::Memory& near) {
  std::vector<uint32_t> awaited = peers;
  while (!awaited.empty()) {
    core::wait_until(engine_.instance, [&] {
      return !announced_.empty() || std::all_of(awaited.begin(), awaited.end(),
                                                [&](uint32_t peer) { return has_declined(engine_, peer); });
    });
    if (announced_.empty()) return;
    const auto arrived = std::exchange(announced_, {});
    for (const Announcement& bounce : arrived) {
      std::erase(awaited, bounce.source);
      auto mapping = engine_.instance.memory->open(bounce.source, bounce.region, nullptr, near);
      if (mapping)
        engine_.importer().release(*mapping);
      else
        engine_.importer().forget_path_test(bounce.source, bounce.region.device, near.device);
    }
  }
}

}  // namespace weft::p2p
