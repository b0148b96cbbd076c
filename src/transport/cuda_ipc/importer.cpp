// SPDX-License-Identifier: BSD-3-Clause
// Importer: tests the path of each pair of devices once, then caches mappings until a drop or eviction.
#include <algorithm>
#include <climits>
#include <utility>

#include "base/assert.hpp"
#include "base/cold.hpp"
#include "base/config.hpp"
#include "base/events.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {

counters::Counter mapping_hits("gpu.ipc_hits", counters::Unit::events,
                               "Uses of a cached mapping of a peer's GPU memory");

namespace {

counters::Counter opens("gpu.ipc_opens", counters::Unit::events,
                        "Mappings of peers' GPU memory that were opened, since the cache had none");
counters::Counter closes("gpu.ipc_closes", counters::Unit::events,
                         "Mappings of peers' GPU memory that were closed");
counters::Counter evictions(
    "gpu.ipc_evictions", counters::Unit::events,
    "Idle mappings closed because of gpu.ipc_max_mappings or gpu.ipc_max_mapped_bytes");
events::Event eviction("gpu.ipc_eviction",
                       "An idle mapping of a peer's GPU memory is closed because of the limits of the cache",
                       {{"bytes", events::Type::amount}});
counters::Counter drops("gpu.ipc_drops", counters::Unit::events,
                        "Mappings dropped because the peer freed the memory or ended");
counters::Counter refusals("gpu.ipc_refusals", counters::Unit::events,
                           "Attempts to map memory of a peer that were refused");

config::Size setting_mappings(
    "gpu.ipc_max_mappings", 1024, 1, size_t{1} << 20,
    "Largest number of mapped GPU allocations of other processes; above it the least recently used idle "
    "mapping is closed.");
config::Size setting_bytes(
    "gpu.ipc_max_mapped_bytes", size_t{512} << 30, size_t{1} << 20, size_t{1} << 50,
    "Largest total bytes of mapped GPU memory of other processes; above it idle mappings are closed.",
    "the program communicates from more GPU memory than the limit (larger), or address space is "
    "limited (smaller)");

config::Size setting_expected(
    "gpu.mapping_expected_ns", 1'100'000, 0, uint64_t{1} << 40,
    "Time in nanoseconds that opening and closing a mapping of another process's GPU memory is expected to "
    "take until it has been measured; the default is that of two H200 that both processes see.");

constexpr size_t kMaxRetiredBytes = size_t{256} << 20;

void log_close(const Status& status) {
  if (!status) log::write(log::Level::warn, "%s", status.error().message().c_str());
}

/// Reads the probe in a mapping of its region and compares.
Status compare_probe(const Probe& probe, const device::Memory& mapped) {
  const uint64_t offset = probe.address - probe.region.base;
  if (offset > mapped.size || sizeof probe.content > mapped.size - offset)
    return Error(Errc::intern, "the probe of a peer is not within its region");
  std::array<uint8_t, 16> seen{};
  static_assert(sizeof seen == sizeof probe.content);
  Status status = device::copy(seen.data(), device::Memory{}, reinterpret_cast<void*>(mapped.base + offset),
                               mapped, seen.size());
  if (status.ok() && seen != probe.content)
    return Error(Errc::unsupported,
                 "CUDA IPC between this pair of GPUs delivers wrong bytes (the start-up test read other data "
                 "than the peer wrote): transfers are staged");
  return status;
}

/// Maps the probe's own allocation, reads it and compares.
Status read_probe(const Probe& probe, const device::Memory& local) {
  const cold::Timer timer(cold::Part::probes);
  auto mapped = device::open_ipc(probe.region.handle, probe.region.size, probe.region.device, local);
  if (!mapped) return std::move(mapped).error();
  Status status = compare_probe(probe, *mapped);
  log_close(device::close_ipc(*mapped));
  return status;
}

/// Returns whether two regions are one allocation.
bool same_region(const Region& a, const Region& b) {
  return a.base == b.base && a.buffer_id == b.buffer_id && a.epoch == b.epoch;
}

}  // namespace

Importer::Importer() : time_(setting_expected) {}

Result<Mapping*> Importer::open(Peer peer, const Region& region, const Probe* probe,
                                const device::Memory& local) {
  if (probe != nullptr) store_probe(peer, *probe);
  const RegionName name{region.base, region.buffer_id, region.epoch};
  if (Mapping* last = opened_last(peer, name, local.device, local.context)) return last;
  const Key key{peer, region.base, region.buffer_id, local.device};
  if (Mapping* mapping = cached(key, region); mapping != nullptr) [[likely]] {
    if (local.context == nullptr || local.context == mapping->memory_.context) {
      retain(*mapping);
      return mapping;
    }
    refusals.add();
    return Error(Errc::unsupported,
                 "a peer's GPU buffer is mapped in another context of this process: "
                 "transfers of this context are staged");
  }
  const auto probe_of_device = probes_.find({peer, region.device});
  if (probe_of_device != probes_.end() && same_region(probe_of_device->second.region, region) &&
      !path_tests_.contains({peer, region.device, local.device}))
    return map_tested(key, probe_of_device->second, local);
  Status tested = test_path(peer, region, local);
  if (!tested) {
    refusals.add();
    return std::move(tested).error();
  }
  return map_region(key, region, local);
}

/// Returns the cached mapping of this allocation. Retires stale mappings at a reused address; a mapping
/// retired while in use is returned to the cache, since an allocation must not be opened twice.
Mapping* Importer::cached(const Key& key, const Region& region) {
  const RegionName name{region.base, region.buffer_id, region.epoch};
  if (const auto at = mappings_.find(key); at != mappings_.end()) {
    if (at->second->is_of(name)) [[likely]] {
      const device::Memory& memory = at->second->memory_;
      if (at->second->references_ != 0 || memory.buffer_id == 0 || device::alive(memory)) [[likely]]
        return most_recent_ = at->second.get();
      return drop_lost(at);
    }
  }
  retire_stale(key, region);
  for (auto& mapping : retired_) {
    if (!mapping->is_of(name) || mapping->peer_ != std::get<0>(key) ||
        mapping->local_device_ != std::get<3>(key))
      continue;
    mapping->retired_ = false;
    Mapping* reused = mapping.get();
    mappings_.emplace(key, std::move(mapping));
    std::erase(retired_, nullptr);
    return reused;
  }
  return nullptr;
}

/// The program has reset the context of a mapping that MPI_Init has opened, say: it is opened again.
Mapping* Importer::drop_lost(Table::iterator at) {
  most_recent_ = nullptr;
  ++closures_;
  drops.add();
  close_mapping(*at->second);
  mappings_.erase(at);
  return nullptr;
}

/// Retires mappings of other allocations at the same base. Exception: two runs of cuMemMap mappings may begin
/// at the same base.
void Importer::retire_stale(const Key& key, const Region& region) {
  const auto& [peer, base, id, device] = key;
  for (auto at = mappings_.lower_bound(Key{peer, base, 0, INT_MIN});
       at != mappings_.end() && at->second->peer_ == peer && at->second->base_ == base;) {
    const Mapping& other = *at->second;
    const bool both_runs = region.descriptors != 0 && other.memory_.mapped && other.epoch_ == region.epoch;
    if (other.local_device_ != device || both_runs) {
      ++at;
      continue;
    }
    drops.add();
    at = retire(at);
  }
}

Result<device::Memory> Importer::open_memory(Peer peer, const Region& region, const device::Memory& local) {
  if (region.descriptors == 0) return device::open_ipc(region.handle, region.size, region.device, local);
  PeerDescriptors& state = descriptors_[peer];
  auto descriptors = descriptors_of(region, state);
  if (!descriptors) return std::move(descriptors).error();
  auto mapped = device::open_shareable_handles(*descriptors, region.device, local);
  device::close_all(*descriptors);
  if (!mapped) {
    state.source = PeerDescriptors::Source::none;
    state.notify_peer = true;
  }
  return mapped;
}

/// Acquires the descriptors by pidfd_getfd; if that has never worked for this peer, from the mailbox.
Result<std::vector<device::ShareableHandle>> Importer::descriptors_of(const Region& region,
                                                                      PeerDescriptors& state) {
  using Source = PeerDescriptors::Source;
  if (state.source == Source::none)
    return Error(Errc::unsupported,
                 "a peer's cuMemMap memory could not be mapped before: no further attempt is made");
  if (state.source == Source::mailbox) return mailbox_.duplicate(region.epoch, region.buffer_id);
  auto descriptors = DescriptorList::acquire(region);
  if (descriptors) {
    state.succeeded = true;
  } else if (!state.succeeded) {  // after an earlier success the region was withdrawn meanwhile
    state.source = mailbox_.address() != 0 ? Source::mailbox : Source::none;
    state.notify_peer = true;
  }
  return descriptors;
}

std::optional<uint64_t> Importer::take_mailbox_request(Peer peer) {
  const auto at = descriptors_.find(peer);
  if (at == descriptors_.end() || !std::exchange(at->second.notify_peer, false)) return std::nullopt;
  return at->second.source == PeerDescriptors::Source::mailbox ? mailbox_.address() : 0;
}

Result<Mapping*> Importer::map_region(const Key& key, const Region& region, const device::Memory& local) {
  close_retired(Closing::all);
  evict_for(region.size);
  const cold::Timer timer(cold::Part::mappings);
  auto mapped = open_memory(std::get<0>(key), region, local);
  if (!mapped && mapped.error().code() == Errc::again && retire_block(std::get<0>(key), region))
    mapped = open_memory(std::get<0>(key), region, local);
  if (!mapped) {
    refusals.add();
    return Error(Errc::unsupported, mapped.error().message());
  }
  const bool first = !path_tests_.contains({std::get<0>(key), region.device, local.device});
  if (!first)
    time_.opened(timer.elapsed_ns());
  else if (mapped->device < 0)
    time_.opened_first_hidden(timer.elapsed_ns());
  else
    time_.opened_first(timer.elapsed_ns());
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
  opens.add();
  return mappings_.emplace(key, std::move(mapping)).first->second.get();
}

/// Maps the region that contains the probe of its device, and tests the path by it.
Result<Mapping*> Importer::map_tested(const Key& key, const Probe& probe, const device::Memory& local) {
  auto mapping = map_region(key, probe.region, local);
  Status status;
  if (mapping) {
    const cold::Timer timer(cold::Part::probes);
    status = compare_probe(probe, (*mapping)->memory());
  } else {
    status = mapping.error().copy();
  }
  path_tests_.emplace(PairKey{std::get<0>(key), probe.region.device, local.device},
                      PathTest{status.ok(), status.ok() ? "" : status.error().message()});
  if (status.ok()) return mapping;
  if (mapping) {
    refusals.add();
    release(*mapping);
    retire(mappings_.find(key));
  }
  return Error(Errc::unsupported, status.error().message());
}

Status Importer::test_path(Peer peer, const Region& region, const device::Memory& local) {
  const PairKey key{peer, region.device, local.device};
  auto test = path_tests_.find(key);
  if (test == path_tests_.end()) {
    Status status;
    const auto probe = probes_.find({peer, region.device});
    if (probe == probes_.end())
      return Error(Errc::intern, "a peer sent the region of a GPU buffer without the probe of its device");
    status = read_probe(probe->second, local);
    test = path_tests_.emplace(key, PathTest{status.ok(), status.ok() ? "" : status.error().message()}).first;
  }
  if (test->second.works) return {};
  return Error(Errc::unsupported, test->second.reason);
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
  WEFT_ASSERT(mapping->references_ > 0);
  if (--mapping->references_ == 0 && mapping->retired_) close_retired(Closing::mapped_only);
}

void Importer::drop(Peer peer, uint64_t epoch, uint64_t base, uint64_t buffer_id) {
  if (find(peer, {base, buffer_id, epoch}) != nullptr) regions_.erase({peer, base, buffer_id});
  mailbox_.drop(epoch, buffer_id);
  for (auto at = mappings_.lower_bound(Key{peer, base, buffer_id, INT_MIN});
       at != mappings_.end() && at->second->peer_ == peer && at->second->base_ == base &&
       at->second->buffer_id_ == buffer_id;) {
    if (at->second->epoch_ == epoch) {
      drops.add();
      at = retire(at);
    } else {
      ++at;
    }
  }
}

void Importer::drop_peer(Peer peer) {
  for (auto at = mappings_.lower_bound(Key{peer, 0, 0, INT_MIN});
       at != mappings_.end() && std::get<0>(at->first) == peer;) {
    drops.add();
    at = retire(at);
  }
  std::erase_if(path_tests_, [&](const auto& entry) { return std::get<0>(entry.first) == peer; });
  std::erase_if(probes_, [&](const auto& entry) { return entry.first.first == peer; });
  for (const auto& [key, region] : regions_)
    if (std::get<0>(key) == peer) mailbox_.drop_all(region.epoch);
  std::erase_if(regions_, [&](const auto& entry) { return std::get<0>(entry.first) == peer; });
  descriptors_.erase(peer);
}

void Importer::close() {
  most_recent_ = nullptr;
  ++closures_;
  for (auto& [key, mapping] : mappings_) close_mapping(*mapping);
  for (auto& mapping : retired_) close_mapping(*mapping);
  mappings_.clear();
  retired_.clear();
  path_tests_.clear();
  probes_.clear();
  regions_.clear();
  descriptors_.clear();
  mailbox_.close();
}

void Importer::close_mapping(Mapping& mapping) {
  closes.add();
  bytes_ -= mapping.memory_.size;
  const cold::Timer timer(cold::Part::closes);
  log_close(device::close_ipc(mapping.memory_));
  time_.closed(timer.elapsed_ns());
}

/// Removes a mapping from the cache.
Importer::Table::iterator Importer::retire(Table::iterator at) {
  most_recent_ = nullptr;
  ++closures_;
  at->second->retired_ = true;
  retired_.push_back(std::move(at->second));
  close_retired(Closing::mapped_only);
  return mappings_.erase(at);
}

/// Closes retired mappings that no copy uses. They keep the memory of their exporters allocated, so more than
/// kMaxRetiredBytes are not left to the next open().
void Importer::close_retired(Closing which) {
  size_t bytes = 0;
  for (const auto& mapping : retired_) bytes += mapping->size();
  if (bytes > kMaxRetiredBytes) which = Closing::all;
  std::erase_if(retired_, [&](const auto& mapping) {
    if (mapping->references_ != 0 || (which == Closing::mapped_only && !mapping->memory_.mapped))
      return false;
    close_mapping(*mapping);
    return true;
  });
}

/// The driver shares whole 2 MiB blocks: a mapping of a freed block prevents mapping a new block at its
/// address. Retires idle mappings in the blocks of `region`, whose drops have not arrived yet; returns
/// whether any existed.
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
    drops.add();
    any = true;
    at = retire(at);
  }
  close_retired(Closing::all);
  return any;
}

/// Evicts idle mappings, least recently used first, until `bytes` fit; mappings in use may exceed the limits.
void Importer::evict_for(size_t bytes) {
  while (mappings_.size() >= setting_mappings || bytes_ + bytes > setting_bytes) {
    auto oldest = mappings_.end();
    for (auto at = mappings_.begin(); at != mappings_.end(); ++at) {
      if (at->second->references_ != 0) continue;
      if (oldest == mappings_.end() || at->second->used_ < oldest->second->used_) oldest = at;
    }
    if (oldest == mappings_.end()) return;
    evictions.add();
    if (eviction.wanted()) [[unlikely]]
      eviction.raise({oldest->second->size()});
    retire(oldest);
    close_retired(Closing::all);
  }
}

}  // namespace weft::transport::cuda_ipc
