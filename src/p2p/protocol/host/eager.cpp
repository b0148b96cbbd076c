// SPDX-License-Identifier: BSD-3-Clause
// Eager messages from device memory: read by the CPU through the BAR, or packed for another host. Eager
// messages from host memory are sent by Outgoing.
#include <cstring>
#include <memory>

#include "base/trace.hpp"
#include "device/bar.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/protocol/host/protocols.hpp"

namespace weft::p2p {
namespace {

// Sends a few bytes of device memory that the CPU reads itself through the BAR. Returns false if this is not
// possible; nothing was done then.
bool send_through_bar(Engine& engine, Transfer& t) {
  if (!device::bar_ready()) return false;
  const trace::Range range("p2p.eager_bar");
  std::byte copied[device::kMaxBarRead];
  Peer& peer = engine.peers[t.peer];
  if (!t.contiguous || t.bytes == 0 || t.bytes > sizeof copied || t.mode == SendMode::synchronous ||
      peer.blocked() || !Outgoing::has_credit(t.peer, t.bytes, peer) ||
      !device::bar_read(t.address, t.memory, copied, t.bytes) ||
      !engine.outgoing.send_copied(copied, t, peer))
    return false;
  engine.requests.complete(t);
  return true;
}

// To another host. One copy to the host is faster than three more messages.
bool send_packed(Engine& engine, Transfer& t) {
  Peer& peer = engine.peers[t.peer];
  if (!peer.remote || t.bytes == 0 || !Outgoing::has_credit(t.peer, t.bytes, peer)) return false;
  auto state = std::make_unique<PackedPayload>();
  state->bytes = std::make_unique_for_overwrite<std::byte[]>(t.bytes);
  if (Status copied = pack_out(t, state->bytes.get()); !copied) {
    engine.requests.complete(t, std::move(copied).error());
    return true;
  }
  t.use(kPackedEager, std::move(state));
  engine.outgoing.count_sent(peer, {t.context, t.comm->rank(), t.tag}, t.bytes);
  engine.outgoing.send_eager(t, peer);
  return true;
}

}  // namespace

// Host memory within the eager limit and the credit: Outgoing::send().
constinit const Protocol kEager{.name = "eager", .text = "payload and header in one message"};
constinit const Protocol kBar{
    .name = "BAR",
    .text = "a few bytes of GPU memory, read by the CPU, and the header in one message",
    .send = send_through_bar};
constinit const Protocol kPackedEager{
    .name = "packed eager",
    .text = "GPU memory copied to the host and sent with the header in one message",
    .send = send_packed};

}  // namespace weft::p2p
