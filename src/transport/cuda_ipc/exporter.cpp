// SPDX-License-Identifier: BSD-3-Clause
// The exporting side: one handle an allocation, who was told about it, and when it ends.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "base/config.hpp"
#include "device/copy.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

config::Size setting_exports("gpu.ipc_exports", 1024, 1, size_t{1} << 20,
                             "GPU allocations that other processes may keep mapped; the least recently used "
                             "above this are withdrawn");

// The driver shares whole 2 MiB blocks: the probe has one of its own, so that no user memory goes with it.
constexpr size_t kProbeAllocation = size_t{2} << 20;

/// Differs between any two processes of a job, also when one replaces another.
uint64_t make_epoch() {
  std::random_device random;
  const auto time = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (static_cast<uint64_t>(::getpid()) << 40) ^ (static_cast<uint64_t>(random()) << 20) ^ time ^
         random();
}

Region describe(const device::Memory& memory, const device::IpcHandle& handle, const device::Uuid& uuid,
                uint64_t epoch) {
  Region region{};
  region.handle = handle;
  region.base = memory.base;
  region.size = memory.size;
  region.buffer_id = memory.buffer_id;
  region.epoch = epoch;
  region.device = uuid;
  return region;
}

}  // namespace

Exporter::Exporter() : epoch_(make_epoch()) {}
Exporter::~Exporter() { close(); }

Result<Exporter::Told> Exporter::export_region(const device::Memory& memory, Peer peer) {
  if (latest_ != nullptr && latest_->memory.buffer_id == memory.buffer_id) return tell(*latest_, peer);
  auto at = exports_.find(memory.buffer_id);
  if (at == exports_.end()) {
    auto handle = device::export_ipc(memory);
    if (!handle) return std::move(handle).error();
    auto uuid = device::uuid_of(memory.device);
    if (!uuid) return std::move(uuid).error();
    Export entry{describe(memory, *handle, *uuid, epoch_), memory, {}, 0};
    at = exports_.emplace(memory.buffer_id, std::move(entry)).first;
  }
  latest_ = &at->second;
  return tell(at->second, peer);
}

Exporter::Told Exporter::tell(Export& entry, Peer peer) {
  entry.used = ++clock_;
  const bool before = std::find(entry.peers.begin(), entry.peers.end(), peer) != entry.peers.end();
  if (!before) entry.peers.push_back(peer);
  return Told{&entry.region, before};
}

Result<Probe> Exporter::probe(const device::Memory& memory) {
  if (const auto at = probes_.find(memory.device); at != probes_.end()) return at->second.first;
  auto scratch = device::allocate_scratch(memory, kProbeAllocation);
  if (!scratch) return std::move(scratch).error();
  Probe probe{};
  std::random_device random;
  for (uint8_t& byte : probe.content) byte = static_cast<uint8_t>(random());
  auto handle = device::export_ipc(*scratch);
  auto uuid = device::uuid_of(memory.device);
  Status status;
  if (!handle)
    status = std::move(handle).error();
  else if (!uuid)
    status = std::move(uuid).error();
  else
    status = device::copy(reinterpret_cast<void*>(scratch->base), *scratch, probe.content.data(),
                          device::Memory{}, probe.content.size());
  if (!status) {
    device::free_scratch(*scratch);
    return std::move(status).error();
  }
  probe.region = describe(*scratch, *handle, *uuid, epoch_);
  probes_.emplace(memory.device, std::make_pair(probe, *scratch));
  return probe;
}

bool Exporter::probe_due(const device::Memory& memory, Peer peer) const {
  return std::find(probes_sent_.begin(), probes_sent_.end(), std::make_pair(peer, memory.device)) ==
         probes_sent_.end();
}

void Exporter::probe_sent(const device::Memory& memory, Peer peer) {
  if (probe_due(memory, peer)) probes_sent_.emplace_back(peer, memory.device);
}

std::vector<Drop> Exporter::sweep_freed() {
  std::vector<Drop> drops;
  latest_ = nullptr;
  const auto withdraw = [&](std::map<uint64_t, Export>::iterator at) {
    for (const Peer peer : at->second.peers)
      drops.push_back({peer, epoch_, at->second.region.base, at->second.region.buffer_id});
    ++withdrawals_;
    return exports_.erase(at);
  };
  for (auto at = exports_.begin(); at != exports_.end();)
    at = device::alive(at->second.memory) ? std::next(at) : withdraw(at);
  while (exports_.size() > setting_exports)
    withdraw(std::min_element(exports_.begin(), exports_.end(),
                              [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  return drops;
}

void Exporter::forget_peer(Peer peer) {
  ++withdrawals_;
  for (auto& [id, entry] : exports_) std::erase(entry.peers, peer);
  std::erase_if(probes_sent_, [&](const auto& sent) { return sent.first == peer; });
}

void Exporter::close() {
  ++withdrawals_;
  for (const auto& [device, entry] : probes_) device::free_scratch(entry.second);
  probes_.clear();
  exports_.clear();
  latest_ = nullptr;
  probes_sent_.clear();
}

}  // namespace weft::transport::cuda_ipc
