// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/regions.hpp"

#include <cstring>

#include "base/log.hpp"
#include "device/stream_words.hpp"
#include "p2p/engine/engine.hpp"

namespace weft::p2p {
namespace {

using transport::cuda_ipc::Mapping;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using transport::cuda_ipc::RegionName;

log::SlowPath no_mapping{"p2p.device_not_mapped",
                         "staged through host memory, 5 to 50 times slower than NVLink"};

/// Returns the name of the region of an RTS.
RegionName region_name(const ReadyToSend& rts) {
  if ((rts.flags & ReadyToSend::kRegionName) != 0) {
    RegionName name;
    std::memcpy(&name, &rts + 1, sizeof name);
    return name;
  }
  Region region;
  std::memcpy(&region, &rts + 1, sizeof region);
  return {region.base, region.buffer_id, region.epoch};
}

/// The GPU and context in which the importer opens a mapping for a receive.
struct Opener {
  explicit Opener(const Transfer& t) : device(t.memory.device), context(t.memory.context) {
    if (t.memory.kind == device::MemoryKind::host_pinned)
      device = device::only_active_device(), context = nullptr;
  }
  int device;
  void* context;
};

}  // namespace

void DeletePersistentBuffer::operator()(PersistentBuffer* buffer) const { delete buffer; }

// Returns whether the peer still has the region of a persistent request. If not, classifies the buffer again,
// since its memory may have been freed.
bool Regions::still_known(Transfer& t) {
  if (!t.persistent_buffer->known_to_peer) return false;
  auto& exporter = engine_.exporter();
  if (t.persistent_buffer->withdrawals == exporter.withdrawals() &&
      t.persistent_buffer->name.epoch == exporter.epoch())
    return true;
  t.persistent_buffer->known_to_peer = false;
  t.memory = device::classify(t.address);
  if (t.contiguous) t.memory = device::widened(t.memory, t.address, t.bytes);
  return false;
}

std::optional<size_t> Regions::append_cached(Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (!t.persistent_buffer || !still_known(t)) return std::nullopt;
  rts.flags |= ReadyToSend::kRegionName;
  std::memcpy(out, &t.persistent_buffer->name, sizeof t.persistent_buffer->name);
  return sizeof t.persistent_buffer->name;
}

void Regions::cache(Transfer& t) {
  if (!t.persistent_buffer) return;
  auto& exporter = engine_.exporter();
  t.persistent_buffer->name = {t.memory.base, t.memory.buffer_id, exporter.epoch()};
  t.persistent_buffer->withdrawals = exporter.withdrawals();
  t.persistent_buffer->known_to_peer = true;
}

Result<size_t> Regions::append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts,
                                      std::byte* out) {
  auto& exporter = engine_.exporter();
  auto exported = exporter.export_region(memory, to);
  if (!exported) return std::move(exported).error();
  const Region& region = *exported->region;
  if (exported->sent_before) [[likely]] {
    rts.flags |= ReadyToSend::kRegionName;
    const RegionName name{region.base, region.buffer_id, region.epoch};
    std::memcpy(out, &name, sizeof name);
    return sizeof name;
  }
  rts.flags |= ReadyToSend::kRegion;
  std::memcpy(out, &region, sizeof region);
  if (!exporter.probe_due(memory, to)) return sizeof(Region);
  // The peer maps the bounce buffer with the first message. If that cannot hold the probe, it is in memory of
  // its own.
  if (!core::MappingRule::maps_at_once())
    if (auto arena = engine_.bounce_pool.arena(memory))
      (void)exporter.place_probe((*arena)->memory, (*arena)->probe());
  auto probe = exporter.probe(memory);
  if (!probe) return sizeof(Region);
  rts.flags |= ReadyToSend::kProbe;
  std::memcpy(out + sizeof(Region), &*probe, sizeof(Probe));
  exporter.probe_sent(memory, to);
  return sizeof(Region) + sizeof(Probe);
}

bool Regions::send(Transfer& t, uint32_t to) {
  engine_.instance.memory->withdraw_freed();
  if (t.persistent_buffer && still_known(t)) return true;
  if (!send(t.memory, to)) return false;
  cache(t);
  return true;
}

bool Regions::send(const device::Memory& memory, uint32_t to, uint8_t flags) {
  alignas(8) std::byte storage[kMaxControl];
  auto& message = *new (storage) ReadyToSend{};
  message.type = Type::region;
  message.flags = flags;
  const auto size = append_export(memory, to, message, storage + sizeof message);
  if (!size) return false;
  if ((message.flags & ReadyToSend::kRegion) != 0)
    engine_.outgoing.post_control(to, storage, sizeof message + *size);
  return true;
}

bool Regions::announce_bounce(const device::Memory& bounce, uint32_t to) {
  return send(bounce, to, ReadyToSend::kDevice | ReadyToSend::kBounce);
}

void Regions::add(uint32_t source, const ReadyToSend& rts) {
  const auto* at = reinterpret_cast<const std::byte*>(&rts + 1);
  Region region;
  std::memcpy(&region, at, sizeof region);
  engine_.importer().store_region(source, region);
  if ((rts.flags & ReadyToSend::kProbe) != 0) {
    Probe probe;
    std::memcpy(&probe, at + sizeof region, sizeof probe);
    engine_.importer().store_probe(source, probe);
  }
  if (rts.type == Type::region && (rts.flags & ReadyToSend::kBounce) != 0)
    engine_.gpus.announced(source, region);
}

Result<Mapping*> Regions::open(const Transfer& t, const Region& region) {
  const Opener opener(t);
  device::Memory local = t.memory;
  local.device = opener.device;
  local.context = opener.context;
  return engine_.instance.memory->open(t.peer, region, nullptr, local);
}

Mapping* Regions::map(const Transfer& t, const ReadyToSend& rts) {
  WEFT_ASSERT((rts.flags & (ReadyToSend::kRegionName | ReadyToSend::kRegion)) != 0);
  auto& importer = engine_.importer();
  if (t.persistent_buffer && t.persistent_buffer->mapping != nullptr &&
      (rts.flags & ReadyToSend::kRegionName) != 0) {
    const PersistentBuffer& known = *t.persistent_buffer;
    if (known.peer == t.peer && known.peer_region == region_name(rts) &&
        known.closures == importer.closures()) {
      importer.retain(*known.mapping);
      return known.mapping;
    }
  }
  const RegionName name = region_name(rts);
  if (!t.persistent_buffer) [[likely]] {
    const Opener opener(t);
    if (Mapping* last = importer.opened_last(t.peer, name, opener.device, opener.context)) [[likely]]
      return last;
  }
  const Region* region = importer.find(t.peer, name);
  if (region == nullptr) {
    no_mapping.hit("the sender's allocation was dropped before its message was received");
    return nullptr;
  }
  auto mapping = open(t, *region);
  if (!mapping) {
    no_mapping.hit(mapping.error().message());
    return nullptr;
  }
  if (t.persistent_buffer) cache_mapping(t, name, **mapping);
  return *mapping;
}

Mapping* Regions::mapped(const Transfer& t, uint64_t base, uint64_t buffer_id) {
  auto& importer = engine_.importer();
  if (t.persistent_buffer && t.persistent_buffer->mapping != nullptr) {
    const PersistentBuffer& known = *t.persistent_buffer;
    if (known.peer == t.peer && known.peer_region.base == base && known.peer_region.buffer_id == buffer_id &&
        known.closures == importer.closures()) {
      importer.retain(*known.mapping);
      return known.mapping;
    }
  }
  const Region* region = importer.find(t.peer, base, buffer_id);
  if (region == nullptr) return nullptr;
  const Opener opener(t);
  if (!t.persistent_buffer) [[likely]]
    if (Mapping* last = importer.opened_last(t.peer, {base, buffer_id, region->epoch}, opener.device,
                                             opener.context)) [[likely]]
      return last;
  return importer.maps(t.peer, *region, opener.device) ? open_for_put(t, *region) : nullptr;
}

Mapping* Regions::map(const Transfer& t, uint64_t base, uint64_t buffer_id, uint64_t extra_ns) {
  if (Mapping* const known = mapped(t, base, buffer_id)) return known;
  using enum core::MappingRule::Alternative;
  const bool pays = engine_.instance.memory->mapping_pays(
      {t.peer, false, buffer_id}, [&] { return extra_ns; }, t.in_collective() ? collective : other_side);
  const Region* const region = engine_.importer().find(t.peer, base, buffer_id);
  // Opening a mapping may wait for kernels that run.
  return pays && region != nullptr && !device::for_stream() ? open_for_put(t, *region) : nullptr;
}

Mapping* Regions::open_for_put(const Transfer& t, const Region& region) {
  auto mapping = open(t, region);
  if (!mapping) return nullptr;
  if (t.persistent_buffer) cache_mapping(t, {region.base, region.buffer_id, region.epoch}, **mapping);
  return *mapping;
}

void Regions::cache_mapping(const Transfer& t, const RegionName& peer_region, Mapping& mapping) {
  t.persistent_buffer->peer_region = peer_region;
  t.persistent_buffer->peer = t.peer;
  t.persistent_buffer->mapping = &mapping;
  t.persistent_buffer->closures = engine_.importer().closures();
}

}  // namespace weft::p2p
