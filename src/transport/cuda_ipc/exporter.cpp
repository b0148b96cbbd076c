// SPDX-License-Identifier: BSD-3-Clause
// The exporting side: one handle an allocation, who was told about it, and when it ends.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "base/config.hpp"
#include "device/copy.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

config::Size setting_exports("gpu.ipc_exports", 1024, 1, size_t{1} << 20,
                             "GPU allocations that other processes may keep mapped; the least recently used "
                             "above this are withdrawn");

constexpr size_t kUnshared = 1024;
// To make a descriptor and map it elsewhere takes some milliseconds: what was used within so many messages
// keeps its own rather than make room.
constexpr uint64_t kIdle = 4096;

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
  if (memory.mapped) WEFT_TRY(may_take_descriptors(peer));
  if (latest_ == nullptr || latest_->memory.buffer_id != memory.buffer_id) {
    auto at = exports_.find(memory.buffer_id);
    if (at == exports_.end()) {
      auto made = make(memory);
      if (!made) return std::move(made).error();
      at = exports_.emplace(memory.buffer_id, std::move(*made)).first;
    }
    latest_ = &at->second;
  }
  Export& entry = *latest_;
  const bool before = entry.knows(peer);
  if (!before) {
    if (memory.mapped) WEFT_TRY(send_descriptors(entry, peer));
    entry.peers.push_back(peer);
  }
  entry.used = ++clock_;
  return Told{&entry.region, before};
}

Result<Exporter::Export> Exporter::make(const device::Memory& memory) {
  device::IpcHandle handle{};
  std::unique_ptr<DescriptorList> list;
  if (memory.mapped) {
    auto made = descriptors_of(memory);
    if (!made) return std::move(made).error();
    list = std::move(*made);
  } else {
    auto made = device::export_ipc(memory);
    if (!made) return std::move(made).error();
    handle = *made;
  }
  auto uuid = device::uuid_of(memory.device);
  if (!uuid) return std::move(uuid).error();
  Export entry{describe(memory, handle, *uuid, epoch_), memory, {}, 0, std::move(list)};
  if (entry.descriptors) {
    entry.descriptors->put_into(entry.region);
    descriptors_ += entry.descriptors->size();
  }
  return entry;
}

/// What was found to be no use is not asked about again.
Result<std::unique_ptr<DescriptorList>> Exporter::descriptors_of(const device::Memory& memory) {
  if (const auto known = unshared_.find(memory.buffer_id); known != unshared_.end())
    return Error(Errc::unsupported, known->second);
  if (descriptors_ >= most_descriptors() && !withdraw_idle())
    return Error(Errc::unsupported,
                 "WEFT_GPU_IPC_DESCRIPTORS or a quarter of the limit on open files is reached (" +
                     std::to_string(descriptors_) + ")");
  auto pieces = device::export_descriptors(memory);
  if (pieces) return std::make_unique<DescriptorList>(epoch_, memory.buffer_id, std::move(*pieces));
  if (unshared_.size() >= kUnshared) unshared_.clear();
  unshared_.emplace(memory.buffer_id, pieces.error().message());
  return std::move(pieces).error();
}

Status Exporter::may_take_descriptors(Peer peer) const {
  if (!shares_descriptors())
    return Error(Errc::unsupported, "cuMemMap memory is not mapped by other processes (WEFT_GPU_IPC_FD=off)");
  if (const auto at = mailboxes_.find(peer); at != mailboxes_.end() && at->second == 0)
    return Error(Errc::unsupported,
                 "process " + std::to_string(peer) + " cannot map cuMemMap memory of this one: see its log");
  return {};
}

/// To a peer that cannot take them, before it is told of the memory.
Status Exporter::send_descriptors(const Export& entry, Peer peer) const {
  const auto mailbox = mailboxes_.find(peer);
  return mailbox == mailboxes_.end() ? Status() : entry.descriptors->send(mailbox->second);
}

void Exporter::no_descriptors(Peer peer, uint64_t mailbox) {
  ++withdrawals_;
  mailboxes_.insert_or_assign(peer, mailbox);
  if (mailbox == 0) return;
  for (auto& [id, entry] : exports_)  // what cannot be sent now is told anew with its next message
    if (entry.descriptors && std::erase(entry.peers, peer) != 0 && send_descriptors(entry, peer))
      entry.peers.push_back(peer);
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

Exporter::Table::iterator Exporter::withdraw(Table::iterator at) {
  latest_ = nullptr;
  for (const Peer peer : at->second.peers)
    drops_.push_back({peer, epoch_, at->second.region.base, at->second.region.buffer_id});
  ++withdrawals_;
  if (at->second.descriptors) descriptors_ -= at->second.descriptors->size();
  return exports_.erase(at);
}

Exporter::Table::iterator Exporter::least_recent(bool with_descriptors) {
  auto oldest = exports_.end();
  for (auto at = exports_.begin(); at != exports_.end(); ++at)
    if ((!with_descriptors || at->second.descriptors) &&
        (oldest == exports_.end() || at->second.used < oldest->second.used))
      oldest = at;
  return oldest;
}

bool Exporter::withdraw_idle() {
  const auto oldest = least_recent(true);
  if (oldest == exports_.end() || clock_ - oldest->second.used < kIdle) return false;
  withdraw(oldest);
  return true;
}

std::vector<Drop> Exporter::sweep_freed() {
  unshared_.clear();
  for (auto at = exports_.begin(); at != exports_.end();)
    at = device::alive(at->second.memory) ? std::next(at) : withdraw(at);
  while (exports_.size() > setting_exports) withdraw(least_recent(false));
  return std::exchange(drops_, {});
}

void Exporter::forget_peer(Peer peer) {
  ++withdrawals_;
  for (auto& [id, entry] : exports_) std::erase(entry.peers, peer);
  std::erase_if(probes_sent_, [&](const auto& sent) { return sent.first == peer; });
  mailboxes_.erase(peer);
  std::erase_if(drops_, [&](const Drop& drop) { return drop.peer == peer; });
}

void Exporter::close() {
  ++withdrawals_;
  for (const auto& [device, entry] : probes_) device::free_scratch(entry.second);
  probes_.clear();
  exports_.clear();
  drops_.clear();
  descriptors_ = 0;
  unshared_.clear();
  mailboxes_.clear();
  latest_ = nullptr;
  probes_sent_.clear();
}

}  // namespace weft::transport::cuda_ipc
