// SPDX-License-Identifier: BSD-3-Clause
// Exporter: one IPC handle per allocation, the peers it was sent to, and its withdrawal.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <utility>

#include "base/cold.hpp"
#include "base/config.hpp"
#include "device/copy.hpp"
#include "device/pool.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

config::Size setting_exports("gpu.ipc_max_exports", 1024, 1, size_t{1} << 20,
                             "Largest number of GPU allocations exported to other processes; above it the "
                             "least recently used ones are withdrawn.");

constexpr size_t kMaxUnsupportedEntries = 1024;
// Exporting and mapping a descriptor takes some milliseconds: allocations used within this many exports are
// not withdrawn in favour of others.
constexpr uint64_t kMinIdleExports = 4096;

// The driver shares whole 2 MiB blocks: the probe has its own block, so that no user memory is exposed.
constexpr size_t kProbeAllocation = size_t{2} << 20;

/// Returns a number unique among the processes of a job, including replaced ones.
uint64_t make_epoch() {
  std::random_device random;
  const auto time = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (static_cast<uint64_t>(::getpid()) << 40) ^ (static_cast<uint64_t>(random()) << 20) ^ time ^
         random();
}

Region describe(const device::Memory& memory, const device::IpcHandle& handle, const device::GpuId& device,
                uint64_t epoch) {
  Region region{};
  region.handle = handle;
  region.base = memory.base;
  region.size = memory.size;
  region.buffer_id = memory.buffer_id;
  region.epoch = epoch;
  region.device = device;
  return region;
}

}  // namespace

Exporter::Exporter() : epoch_(make_epoch()) {}
Exporter::~Exporter() { close(); }

Result<Exporter::ExportedRegion> Exporter::find_or_export(const device::Memory& memory, Peer peer) {
  if (memory.mapped) WEFT_TRY(check_descriptor_export(peer));
  if (most_recent_ == nullptr || most_recent_->memory.buffer_id != memory.buffer_id) {
    auto at = exports_.find(memory.buffer_id);
    if (at == exports_.end()) {
      auto created = make(memory);
      if (!created) return std::move(created).error();
      at = exports_.emplace(memory.buffer_id, std::move(*created)).first;
    }
    most_recent_ = &at->second;
  }
  Export& entry = *most_recent_;
  const bool sent_before = entry.sent_to(peer);
  if (!sent_before) {
    if (memory.mapped) WEFT_TRY(send_descriptors(entry, peer));
    entry.peers.push_back(peer);
  }
  entry.used = ++clock_;
  return ExportedRegion{&entry.region, sent_before};
}

Result<Exporter::Export> Exporter::make(const device::Memory& memory) {
  device::IpcHandle handle{};
  std::unique_ptr<DescriptorList> list;
  if (memory.mapped) {
    auto created = descriptors_of(memory);
    if (!created) return std::move(created).error();
    list = std::move(*created);
  } else {
    auto created = device::export_ipc(memory);
    if (!created) return std::move(created).error();
    handle = *created;
  }
  auto id = device::id_of(memory.device);
  if (!id) return std::move(id).error();
  Export entry{describe(memory, handle, *id, epoch_), memory, {}, 0, std::move(list)};
  if (entry.descriptors) {
    entry.descriptors->put_into(entry.region);
    descriptors_ += entry.descriptors->size();
    if (watch_) std::exchange(watch_, nullptr)();
  }
  return entry;
}

/// Failures are cached in unsupported_.
Result<std::unique_ptr<DescriptorList>> Exporter::descriptors_of(const device::Memory& memory) {
  if (const auto entry = unsupported_.find(memory.buffer_id); entry != unsupported_.end())
    return Error(Errc::unsupported, entry->second);
  if (descriptors_ >= max_open_descriptors() && !withdraw_idle())
    return Error(Errc::unsupported,
                 "WEFT_GPU_IPC_MAX_DESCRIPTORS or a quarter of the limit on open files is reached (" +
                     std::to_string(descriptors_) + ")");
  auto descriptors = device::export_shareable_handles(memory);
  if (descriptors) return std::make_unique<DescriptorList>(epoch_, memory.buffer_id, std::move(*descriptors));
  if (unsupported_.size() >= kMaxUnsupportedEntries) unsupported_.clear();
  unsupported_.emplace(memory.buffer_id, descriptors.error().message());
  return std::move(descriptors).error();
}

Status Exporter::check_descriptor_export(Peer peer) const {
  if (!descriptor_sharing_enabled())
    return Error(Errc::unsupported, "sharing of cuMemMap memory is disabled (WEFT_GPU_IPC_FD=off)");
  if (const auto at = mailboxes_.find(peer); at != mailboxes_.end() && at->second == 0)
    return Error(Errc::unsupported,
                 "process " + std::to_string(peer) + " cannot map cuMemMap memory of this one: see its log");
  return {};
}

/// Sends the descriptors to a peer with a mailbox, before the region is sent.
Status Exporter::send_descriptors(const Export& entry, Peer peer) const {
  const auto mailbox = mailboxes_.find(peer);
  return mailbox == mailboxes_.end() ? Status() : entry.descriptors->send(mailbox->second);
}

void Exporter::use_mailbox(Peer peer, uint64_t mailbox) {
  ++withdrawals_;
  mailboxes_.insert_or_assign(peer, mailbox);
  if (mailbox == 0) return;
  for (auto& [id, entry] : exports_)  // if this fails, the region is sent again with its next message
    if (entry.descriptors && std::erase(entry.peers, peer) != 0 && send_descriptors(entry, peer))
      entry.peers.push_back(peer);
}

Result<Probe> Exporter::probe(const device::Memory& memory) {
  if (const auto at = probes_.find(memory.device); at != probes_.end()) {
    if (device::alive(at->second.block)) return at->second.probe;
    drop_probe(at);
  }
  const cold::Timer timer(cold::Part::probes);
  auto block = device::allocate_scratch(memory, kProbeAllocation);
  if (!block) return std::move(block).error();
  auto probe = write_probe(*block, block->base);
  if (!probe) {
    device::free_scratch(*block);
    return probe;
  }
  return probes_.emplace(memory.device, PlacedProbe{*probe, *block, true}).first->second.probe;
}

/// The program has reset the context of a probe: all peers are sent a new one.
void Exporter::drop_probe(std::map<int, PlacedProbe>::iterator at) {
  std::erase_if(probes_sent_, [&](const auto& sent) { return sent.second == at->first; });
  if (at->second.own) device::free_scratch(at->second.block);
  probes_.erase(at);
}

Status Exporter::place_probe(const device::Memory& block, uint64_t address) {
  if (const auto at = probes_.find(block.device); at != probes_.end()) {
    if (device::alive(at->second.block)) return {};
    drop_probe(at);
  }
  const cold::Timer timer(cold::Part::probes);
  auto probe = write_probe(block, address);
  if (!probe) return std::move(probe).error();
  probes_.emplace(block.device, PlacedProbe{*probe, block, false});
  return {};
}

/// Writes the content of a probe into memory of the library.
Result<Probe> Exporter::write_probe(const device::Memory& block, uint64_t address) const {
  auto handle = device::export_ipc(block);
  if (!handle) return std::move(handle).error();
  auto id = device::id_of(block.device);
  if (!id) return std::move(id).error();
  Probe probe{describe(block, *handle, *id, epoch_), address, {}};
  std::random_device random;
  for (uint8_t& byte : probe.content) byte = static_cast<uint8_t>(random());
  WEFT_TRY(device::copy(reinterpret_cast<void*>(address), block, probe.content.data(), device::Memory{},
                        probe.content.size()));
  return probe;
}

bool Exporter::probe_due(const device::Memory& memory, Peer peer) const {
  if (const auto at = probes_.find(memory.device); at != probes_.end() && !device::alive(at->second.block))
    return true;
  return std::find(probes_sent_.begin(), probes_sent_.end(), std::make_pair(peer, memory.device)) ==
         probes_sent_.end();
}

void Exporter::probe_sent(const device::Memory& memory, Peer peer) {
  if (probe_due(memory, peer)) probes_sent_.emplace_back(peer, memory.device);
}

Exporter::Table::iterator Exporter::withdraw(Table::iterator at) {
  most_recent_ = nullptr;
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
  if (oldest == exports_.end() || clock_ - oldest->second.used < kMinIdleExports) return false;
  withdraw(oldest);
  return true;
}

std::vector<Drop> Exporter::sweep_freed() {
  unsupported_.clear();
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
  for (const auto& [device, placed] : probes_)
    if (placed.own) device::free_scratch(placed.block);
  probes_.clear();
  exports_.clear();
  drops_.clear();
  descriptors_ = 0;
  unsupported_.clear();
  mailboxes_.clear();
  most_recent_ = nullptr;
  probes_sent_.clear();
}

}  // namespace weft::transport::cuda_ipc
