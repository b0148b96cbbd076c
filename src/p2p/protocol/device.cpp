// SPDX-License-Identifier: BSD-3-Clause
// Device memory inside a host: the receiver maps the sender's allocation (CUDA IPC) and copies once over
// NVLink or PCIe. Memory that cannot be mapped: bounce.cpp, device_staged.cpp.
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::StreamRole;
using transport::cuda_ipc::Mapping;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using transport::cuda_ipc::RegionName;

log::SlowPath no_export{"p2p.device_not_exportable",
                        "packed into a GPU bounce buffer first, up to 2 times slower"};
log::SlowPath no_bounce{"p2p.device_without_bounce",
                        "staged through host memory, 5 to 50 times slower than NVLink"};
log::SlowPath no_mapping{"p2p.device_not_mapped",
                         "staged through host memory, 5 to 50 times slower than NVLink"};

}  // namespace

// Appends the region that the receiver maps to get the message: the allocation of the buffer, or a bounce
// buffer. Returns the appended bytes; 0: only staging is possible.
size_t Engine::append_region(Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* out) {
  instance.memory->withdraw_freed();
  if (t.persistent_buffer)
    if (const auto size = append_cached_region(t, rts, out)) return *size;
  switch (rts_source(t.memory.kind, t.contiguous, t.memory.covers(t.address, t.bytes))) {
    case RtsSource::region: {
      auto size = append_export(t.memory, to, rts, out);
      if (size) {
        if (t.persistent_buffer) cache_region(t);
        return *size;
      }
      no_export.hit(size.error().message());
      break;
    }
    case RtsSource::strided:
      if (const auto size = append_strides(t, to, rts, out)) return *size;
      break;
    case RtsSource::bounce:
      if (t.memory.on_device())
        no_export.hit(t.memory.mapped ? "the buffer spans gaps, or more allocations than one message can name"
                                      : "the buffer spans several allocations");
      break;
  }
  auto arena = bounce_pool_.arena(t.memory);
  auto size = arena ? append_export((*arena)->memory, to, rts, out) : std::move(arena).error();
  if (!size) {
    no_bounce.hit(size.error().message());
    return 0;
  }
  rts.flags |= ReadyToSend::kBounce;
  t.bounce = std::make_unique<BounceSend>();
  t.bounce->arena = *arena;
  return *size + append_eager_pack(t, rts, out + *size);
}

// Returns whether the peer still has the region of a persistent request. If not, classifies the buffer again,
// since its memory may have been freed.
bool Engine::region_still_known(Transfer& t) {
  if (!t.persistent_buffer->known_to_peer) return false;
  if (t.persistent_buffer->withdrawals == exporter().withdrawals() &&
      t.persistent_buffer->name.epoch == exporter().epoch())
    return true;
  t.persistent_buffer->known_to_peer = false;
  t.memory = device::classify(t.address);
  if (t.contiguous) t.memory = device::widened(t.memory, t.address, t.bytes);
  return false;
}

// Appends the name of a region that the peer has already; nullopt: the peer needs the region itself.
std::optional<size_t> Engine::append_cached_region(Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (!region_still_known(t)) return std::nullopt;
  rts.flags |= ReadyToSend::kRegionName;
  std::memcpy(out, &t.persistent_buffer->name, sizeof t.persistent_buffer->name);
  return sizeof t.persistent_buffer->name;
}

void Engine::cache_region(Transfer& t) {
  t.persistent_buffer->name = {t.memory.base, t.memory.buffer_id, exporter().epoch()};
  t.persistent_buffer->withdrawals = exporter().withdrawals();
  t.persistent_buffer->known_to_peer = true;
}

Result<size_t> Engine::append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts,
                                     std::byte* out) {
  auto exported = exporter().export_region(memory, to);
  if (!exported) return std::move(exported).error();
  const Region& region = *exported->region;
  if (exported->sent_before) {
    rts.flags |= ReadyToSend::kRegionName;
    const RegionName name{region.base, region.buffer_id, region.epoch};
    std::memcpy(out, &name, sizeof name);
    return sizeof name;
  }
  rts.flags |= ReadyToSend::kRegion;
  std::memcpy(out, &region, sizeof region);
  if (!exporter().probe_due(memory, to)) return sizeof(Region);
  auto probe = exporter().probe(memory);
  if (!probe) return sizeof(Region);
  rts.flags |= ReadyToSend::kProbe;
  std::memcpy(out + sizeof(Region), &*probe, sizeof(Probe));
  exporter().probe_sent(memory, to);
  return sizeof(Region) + sizeof(Probe);
}

// Called on arrival, before matching: a later RTS of this peer, which only names the region, may be matched
// first.
void Engine::add_region(uint32_t source, const ReadyToSend& rts) {
  const auto* at = reinterpret_cast<const std::byte*>(&rts + 1);
  Region region;
  std::memcpy(&region, at, sizeof region);
  importer().store_region(source, region);
  if ((rts.flags & ReadyToSend::kProbe) == 0) return;
  Probe probe;
  std::memcpy(&probe, at + sizeof region, sizeof probe);
  importer().store_probe(source, probe);
}

/// Returns the name of the region of an RTS.
RegionName Engine::region_name(const ReadyToSend& rts) {
  if ((rts.flags & ReadyToSend::kRegionName) != 0) {
    RegionName name;
    std::memcpy(&name, &rts + 1, sizeof name);
    return name;
  }
  Region region;
  std::memcpy(&region, &rts + 1, sizeof region);
  return {region.base, region.buffer_id, region.epoch};
}

/// Returns the sender's region; null: none can be mapped.
const Region* Engine::find_region(uint32_t source, const ReadyToSend& rts) {
  if ((rts.flags & (ReadyToSend::kRegionName | ReadyToSend::kRegion)) == 0) return nullptr;
  const Region* region = importer().find(source, region_name(rts));
  if (region == nullptr)
    no_mapping.hit("the sender's allocation was dropped before its message was received");
  return region;
}

/// Returns the memory on whose GPU the importer opens a mapping.
device::Memory Engine::importing_memory(const Transfer& t) {
  device::Memory local = t.memory;
  if (local.kind == device::MemoryKind::host_pinned)
    local.device = device::only_active_device(), local.context = nullptr;
  return local;
}

/// Returns the mapping of the last start of a persistent receive if the sender names the same region; else
/// null.
transport::cuda_ipc::Mapping* Engine::cached_mapping(const Transfer& t, uint32_t source,
                                                     const ReadyToSend& rts) {
  if (!t.persistent_buffer || t.persistent_buffer->mapping == nullptr ||
      (rts.flags & ReadyToSend::kRegionName) == 0)
    return nullptr;
  const RegionName name = region_name(rts);
  const PersistentBuffer& known = *t.persistent_buffer;
  const bool same =
      known.peer == source && known.peer_region == name && known.closures == importer().closures();
  if (!same) return nullptr;
  importer().retain(*known.mapping);
  return known.mapping;
}

/// Maps the sender's region; null if that is impossible, reported as a slow path.
transport::cuda_ipc::Mapping* Engine::map_region(const Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if (auto* before = cached_mapping(t, source, rts)) return before;
  const Region* region = find_region(source, rts);
  if (region == nullptr) return nullptr;
  auto mapping = instance.memory->open(source, *region, nullptr, importing_memory(t));
  if (!mapping) {
    no_mapping.hit(mapping.error().message());
    return nullptr;
  }
  if ((*mapping)->memory().device == t.memory.device) device::note_shared_device(t.memory.device);
  if (t.persistent_buffer) {
    cache_mapping(t, source, region_name(rts), **mapping);
  }
  return *mapping;
}

void Engine::cache_mapping(const Transfer& t, uint32_t peer, const RegionName& peer_region,
                           Mapping& mapping) {
  t.persistent_buffer->peer_region = peer_region;
  t.persistent_buffer->peer = peer;
  t.persistent_buffer->mapping = &mapping;
  t.persistent_buffer->closures = importer().closures();
}

// Gets the message by one copy from the sender's mapped allocation. Returns false if that is not possible.
bool Engine::get_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_device");
  auto* mapping = map_region(t, source, rts);
  if (mapping == nullptr) return false;
  if (!mapping->contains(rts.address, rts.bytes)) {
    importer().release(mapping);
    drop_malformed();
    return false;
  }
  (void)enlist(t);
  pending_gets_.push_back(
      {&t, source, rts.sender, mapping, static_cast<std::byte*>(mapping->at(rts.address))});
  if (!collecting_) submit_gets();
  return true;
}

void Engine::close_device() {
  close_puts();
  instance.memory->close();
  bounce_pool_.close();
}

}  // namespace weft::p2p
