// SPDX-License-Identifier: BSD-3-Clause
// Mapped: the receiver maps the sender's GPU allocation (CUDA IPC) and copies once over NVLink or PCIe.
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/engine/regions.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/device/bounce.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/device/protocols.hpp"

namespace weft::p2p {
namespace {

Received received{{"p2p.mapped_messages", counters::Unit::events,
                   "Messages received by one copy from the mapped GPU memory of the sender"},
                  {"p2p.mapped_bytes", counters::Unit::bytes,
                   "Bytes received by one copy from the mapped GPU memory of the sender"}};

log::SlowPath no_export{"p2p.device_not_exportable",
                        "packed into a GPU bounce buffer first, up to 2 times slower"};

bool applicable(const MessageInfo& message) {
  return message.device && message.region && !message.bounce && !message.strided &&
         (device_side(message.to) || message.to == device::MemoryKind::host_pinned);
}

std::optional<RtsPart> append_rts(Engine& engine, Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (engine.peers[t.peer].remote || !t.contiguous || !t.memory.on_device()) return std::nullopt;
  Regions& regions = engine.regions;
  if (const auto size = regions.append_cached(t, rts, out)) return RtsPart{*size};
  if (rts_source(t.memory.kind, t.contiguous, t.memory.covers(t.address, t.bytes)) != RtsSource::region) {
    no_export.hit(t.memory.mapped ? "the buffer spans gaps, or more allocations than one message can name"
                                  : "the buffer spans several allocations");
    return std::nullopt;
  }
  if (!mapping_pays(engine, t)) return std::nullopt;
  auto size = regions.append_export(t.memory, t.peer, rts, out);
  if (!size) {
    no_export.hit(size.error().message());
    return std::nullopt;
  }
  regions.cache(t);
  return RtsPart{*size};
}

bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_device");
  auto* const mapping = engine.regions.map(t, rts);
  if (mapping == nullptr) return false;
  if (!mapping->contains(rts.address, rts.bytes)) {
    engine.importer().release(mapping);
    drop_malformed();
    return false;
  }
  (void)engine.requests.enlist(t);
  engine.copies.start_get(
      {&t, t.peer, rts.sender, mapping, static_cast<std::byte*>(mapping->at(rts.address))});
  return true;
}

}  // namespace

constinit const Protocol kMapped{.name = "mapped",
                                 .text = "one copy from the sender's allocation, mapped with CUDA IPC",
                                 .applicable = applicable,
                                 .copies = 1,
                                 .init = init,
                                 .received = &received,
                                 .append_rts = append_rts};

}  // namespace weft::p2p
