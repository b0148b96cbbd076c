// SPDX-License-Identifier: BSD-3-Clause
// The importing side: proves the path of a pair of devices once, then keeps each mapping until told.
#include <algorithm>
#include <climits>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

config::Size setting_mappings(
    "gpu.ipc_mappings", 1024, 1, size_t{1} << 20,
    "Allocations of other processes kept mapped; the least recently used idle one is "
    "closed above this");
config::Size setting_bytes("gpu.ipc_mapped_bytes", size_t{512} << 30, size_t{1} << 20, size_t{1} << 50,
                           "Bytes of other processes' GPU memory kept mapped");

void log_close(const Status& status) {
  if (!status) log::write(log::Level::warn, "%s", status.error().message().c_str());
}

/// Reads the probe through a mapping of its own and compares.
Status try_probe(const Probe& probe, int device, const device::Memory& local) {
  auto mapped = device::open_ipc(probe.region.handle, probe.region.size, device, local);
  if (!mapped) return std::move(mapped).error();
  std::array<uint8_t, 16> seen{};
  static_assert(sizeof seen == sizeof probe.content);
  Status status = device::copy(seen.data(), device::Memory{}, reinterpret_cast<void*>(mapped->base), *mapped,
                               seen.size());
  log_close(device::close_ipc(*mapped));
  if (status.ok() && seen != probe.content)
    return Error(Errc::unsupported,
                 "CUDA IPC between this pair of GPUs delivers wrong bytes (the start-up test read something "
                 "else than the peer wrote): transfers are staged");
  return status;
}

/// Everything that can be known without moving bytes; the exporter's device as an ordinal here.
Result<int> reachable(const Region& region, const device::Memory& local) {
  if (local.device < 0)
    return Error(Errc::unsupported,
                 "mapping a peer's GPU buffer needs a local GPU (the local buffer is on the "
                 "host): transfers are staged");
  auto device = device::find_device(region.device);
  if (!device) return std::move(device).error();
  auto can = device::can_access_peer(local.device, *device);
  if (!can) return std::move(can).error();
  if (!*can)
    return Error(Errc::unsupported, "GPU " + std::to_string(local.device) + " cannot access GPU " +
                                        std::to_string(*device) +
                                        " directly (no peer access): transfers are staged");
  return *device;
}

}  // namespace

Result<Mapping*> Importer::open(Peer peer, const Region& region, const Probe* probe,
                                const device::Memory& local) {
  if (probe != nullptr) learn(peer, *probe);
  const Key key{peer, region.base, region.buffer_id, local.device};
  if (Mapping* mapping = cached(key, region); mapping != nullptr) [[likely]] {
    if (local.context == nullptr || local.context == mapping->memory_.context) {
      ++mapping->references_;
      mapping->used_ = ++clock_;
      ++counters_.hits;
      return mapping;
    }
    ++counters_.refusals;
    return Error(Errc::unsupported,
                 "a peer's GPU buffer is mapped in another context of this process: "
                 "transfers of this one are staged");
  }
  Status proved = prove(peer, region, local);
  if (!proved) {
    ++counters_.refusals;
    return std::move(proved).error();
  }
  return map_region(key, region, local);
}

/// The mapping of exactly this allocation; an old one at a reused address is retired on the way, and one
/// that was retired while in use is taken back rather than opened twice.
Mapping* Importer::cached(const Key& key, const Region& region) {
  const auto same = [&](const Mapping& m) {
    return m.epoch_ == region.epoch && m.buffer_id_ == region.buffer_id && m.base_ == region.base;
  };
  if (latest_ != nullptr && same(*latest_) && latest_->peer_ == std::get<0>(key) &&
      latest_->local_device_ == std::get<3>(key))
    return latest_;
  if (const auto at = mappings_.find(key); at != mappings_.end()) {
    if (same(*at->second)) [[likely]]
      return latest_ = at->second.get();
  }
  retire_older(key, region);
  for (auto& mapping : retired_) {
    if (!same(*mapping) || mapping->peer_ != std::get<0>(key) || mapping->local_device_ != std::get<3>(key))
      continue;
    mapping->retired_ = false;
    Mapping* revived = mapping.get();
    mappings_.emplace(key, std::move(mapping));
    std::erase(retired_, nullptr);
    return revived;
  }
  return nullptr;
}

/// What lies at the same base there and is another allocation: an old one, unless both are runs of cuMemMap's
/// mappings.
void Importer::retire_older(const Key& key, const Region& region) {
  const auto& [peer, base, id, device] = key;
  for (auto at = mappings_.lower_bound(Key{peer, base, 0, INT_MIN});
       at != mappings_.end() && at->second->peer_ == peer && at->second->base_ == base;) {
    const Mapping& other = *at->second;
    const bool both_runs = region.descriptors != 0 && other.memory_.mapped && other.epoch_ == region.epoch;
    if (other.local_device_ != device || both_runs) {
      ++at;
      continue;
    }
    ++counters_.drops;
    at = retire(at);
  }
}

Result<device::Memory> Importer::open_memory(Peer peer, const Region& region, const device::Memory& local) {
  auto device = device::find_device(region.device);
  if (!device) return std::move(device).error();
  if (region.descriptors == 0) return device::open_ipc(region.handle, region.size, *device, local);
  Descriptors& state = descriptors_[peer];
  auto pieces = descriptors_of(region, state);
  if (!pieces) return std::move(pieces).error();
  auto mapped = device::open_descriptors(*pieces, *device, local);
  device::close_all(*pieces);
  if (!mapped) {
    state.way = Descriptors::Way::none;
    state.due = true;
  }
  return mapped;
}

/// Taken from the peer's process; where that turns out to be impossible, those that it sends.
Result<std::vector<device::Descriptor>> Importer::descriptors_of(const Region& region, Descriptors& state) {
  using Way = Descriptors::Way;
  if (state.way == Way::none)
    return Error(Errc::unsupported,
                 "a peer's cuMemMap memory could not be mapped before: it is not tried again");
  if (state.way == Way::sent) return mailbox_.copies(region.epoch, region.buffer_id);
  auto pieces = DescriptorList::fetch(region);
  if (pieces) {
    state.worked = true;
  } else if (!state.worked) {  // what worked once does again: these were withdrawn meanwhile
    state.way = mailbox_.address() != 0 ? Way::sent : Way::none;
    state.due = true;
  }
  return pieces;
}

std::optional<uint64_t> Importer::refused_descriptors(Peer peer) {
  const auto at = descriptors_.find(peer);
  if (at == descriptors_.end() || !std::exchange(at->second.due, false)) return std::nullopt;
  return at->second.way == Descriptors::Way::sent ? mailbox_.address() : 0;
}

Result<Mapping*> Importer::map_region(const Key& key, const Region& region, const device::Memory& local) {
  make_room(region.size);
  auto mapped = open_memory(std::get<0>(key), region, local);
  if (!mapped && mapped.error().code() == Errc::again && retire_block(std::get<0>(key), region))
    mapped = open_memory(std::get<0>(key), region, local);
  if (!mapped) {
    ++counters_.refusals;
    return Error(Errc::unsupported, mapped.error().message());
  }
  auto mapping = std::make_unique<Mapping>();
  mapping->memory_ = *mapped;
  mapping->base_ = region.base;
  mapping->buffer_id_ = region.buffer_id;
  mapping->epoch_ = region.epoch;
  mapping->peer_ = std::get<0>(key);
  mapping->local_device_ = local.device;
  mapping->used_ = ++clock_;
  mapping->references_ = 1;
  bytes_ += region.size;
  ++counters_.opens;
  return mappings_.emplace(key, std::move(mapping)).first->second.get();
}

Status Importer::prove(Peer peer, const Region& region, const device::Memory& local) {
  const PairKey key{peer, region.device, local.device};
  auto verdict = verdicts_.find(key);
  if (verdict == verdicts_.end()) {
    Status status;
    auto device = reachable(region, local);
    const auto probe = probes_.find({peer, region.device});
    if (!device)
      status = std::move(device).error();
    else if (probe == probes_.end())
      return Error(Errc::intern, "a peer's GPU buffer came without the probe of its device");
    else
      status = try_probe(probe->second, *device, local);
    verdict = verdicts_.emplace(key, Verdict{status.ok(), status.ok() ? "" : status.error().message()}).first;
  }
  if (verdict->second.works) return {};
  return Error(Errc::unsupported, verdict->second.reason);
}

const Region* Importer::find(Peer peer, uint64_t base, uint64_t buffer_id) const {
  const auto at = regions_.find({peer, base, buffer_id});
  return at != regions_.end() ? &at->second : nullptr;
}

const Region* Importer::find(Peer peer, const RegionName& name) const {
  const Region* region = find(peer, name.base, name.buffer_id);
  return region != nullptr && region->epoch == name.epoch ? region : nullptr;
}

void Importer::release(Mapping* mapping) {
  if (--mapping->references_ != 0 || !mapping->retired_) return;
  close_mapping(*mapping);
  std::erase_if(retired_, [&](const auto& retired) { return retired.get() == mapping; });
}

void Importer::drop(Peer peer, uint64_t epoch, uint64_t base, uint64_t buffer_id) {
  if (find(peer, {base, buffer_id, epoch}) != nullptr) regions_.erase({peer, base, buffer_id});
  mailbox_.drop(epoch, buffer_id);
  for (auto at = mappings_.lower_bound(Key{peer, base, buffer_id, INT_MIN});
       at != mappings_.end() && at->second->peer_ == peer && at->second->base_ == base &&
       at->second->buffer_id_ == buffer_id;) {
    if (at->second->epoch_ == epoch) {
      ++counters_.drops;
      at = retire(at);
    } else {
      ++at;
    }
  }
}

void Importer::drop_peer(Peer peer) {
  for (auto at = mappings_.lower_bound(Key{peer, 0, 0, INT_MIN});
       at != mappings_.end() && std::get<0>(at->first) == peer;) {
    ++counters_.drops;
    at = retire(at);
  }
  std::erase_if(verdicts_, [&](const auto& entry) { return std::get<0>(entry.first) == peer; });
  std::erase_if(probes_, [&](const auto& entry) { return entry.first.first == peer; });
  for (const auto& [key, region] : regions_)
    if (std::get<0>(key) == peer) mailbox_.drop_all(region.epoch);
  std::erase_if(regions_, [&](const auto& entry) { return std::get<0>(entry.first) == peer; });
  descriptors_.erase(peer);
}

void Importer::close() {
  latest_ = nullptr;
  ++closures_;
  for (auto& [key, mapping] : mappings_) close_mapping(*mapping);
  for (auto& mapping : retired_) close_mapping(*mapping);
  mappings_.clear();
  retired_.clear();
  verdicts_.clear();
  probes_.clear();
  regions_.clear();
  descriptors_.clear();
  mailbox_.close();
}

void Importer::close_mapping(Mapping& mapping) {
  ++counters_.closes;
  bytes_ -= mapping.memory_.size;
  log_close(device::close_ipc(mapping.memory_));
}

/// Takes a mapping out of the cache: closed at once when idle, else with its last reference.
Importer::Table::iterator Importer::retire(Table::iterator at) {
  latest_ = nullptr;
  ++closures_;
  if (at->second->references_ == 0) {
    close_mapping(*at->second);
  } else {
    at->second->retired_ = true;
    retired_.push_back(std::move(at->second));
  }
  return mappings_.erase(at);
}

/// The driver shares whole blocks of 2 MiB: where the exporter has freed one and got another at its place,
/// whatever is still mapped of the old one keeps the new one out until its drop has come. Closes what is idle
/// of it; whether anything was.
bool Importer::retire_block(Peer peer, const Region& region) {
  constexpr uint64_t kBlock = uint64_t{2} << 20;
  const uint64_t begin = region.base / kBlock * kBlock, end = region.base + region.size;
  bool any = false;
  for (auto at = mappings_.begin(); at != mappings_.end();) {
    const Mapping& old = *at->second;
    const bool there =
        old.peer_ == peer && old.base_ / kBlock * kBlock < end && begin < old.base_ + old.size();
    if (!there || old.references_ != 0) {
      ++at;
      continue;
    }
    ++counters_.drops;
    any = true;
    at = retire(at);
  }
  return any;
}

/// Closes idle mappings, the least recently used first; mappings in use may exceed the limits.
void Importer::make_room(size_t bytes) {
  while (mappings_.size() >= setting_mappings || bytes_ + bytes > setting_bytes) {
    auto oldest = mappings_.end();
    for (auto at = mappings_.begin(); at != mappings_.end(); ++at) {
      if (at->second->references_ != 0) continue;
      if (oldest == mappings_.end() || at->second->used_ < oldest->second->used_) oldest = at;
    }
    if (oldest == mappings_.end()) return;
    ++counters_.evictions;
    retire(oldest);
  }
}

}  // namespace weft::transport::cuda_ipc
