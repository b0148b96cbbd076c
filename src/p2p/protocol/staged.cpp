// SPDX-License-Identifier: BSD-3-Clause
// Staged: the receiver asks (CTS), the sender streams fragments through the transport, packing as it goes.
// Works for every pair of buffers; what the faster protocols cannot move comes here.
#include <algorithm>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

config::Size setting_read_min(
    "gpu.staged_read_min", size_t{32} << 10, 0, size_t{1} << 40,
    "From so many bytes on a receiver in host memory reads the sender's staging chunks "
    "itself; smaller messages come as fragments");

}  // namespace

uint64_t staged_read_min() { return setting_read_min; }

void Engine::ask_fragments(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.ask_fragments");
  t.moved = 0;
  t.peer = source;
  const bool remote = peers_[source].remote;
  if (remote && (rts.flags & ReadyToSend::kDevice) != 0) return ask_offers(t, rts.sender);
  if (remote) cross(t);
  if (device_side(t)) {
    if (!t.staging) t.staging = std::make_unique<Staging>();
    starved_.push_back({&t, source, rts.sender});  // asked for once it has a pinned chunk
    poll_starved();
    return;
  }
  const auto readable = [&] { return shm_->can_get(source).ok(); };
  const Way way = staged_way(t.memory.kind, announced(rts), readable);
  clear_to_send(t, source, rts.sender, way == Way::offered ? ClearToSend::kOffer : 0);
}

void Engine::clear_to_send(Transfer& t, uint32_t source, uint64_t sender, uint8_t flags) {
  ClearToSend cts{};
  cts.type = Type::clear_to_send;
  cts.flags = flags;
  cts.sender = sender;
  cts.receiver = reinterpret_cast<uint64_t>(&t);
  post_control(source, &cts, sizeof cts);
}

void Engine::on_clear_to_send(const ClearToSend& cts) {
  auto& t = *reinterpret_cast<Transfer*>(cts.sender);
  t.remote = cts.receiver;
  t.moved = 0;
  t.state = Transfer::State::streaming;
  if ((cts.flags & ClearToSend::kPiped) != 0) {
    t.crossing->piped = true;
  } else if ((cts.flags & ClearToSend::kThroughScratch) == 0) {
    if (t.scratch && t.scratch->epoch != 0) abandon_ahead(t);
    t.scratch.reset();
    if (device_side(t)) t.staging = std::make_unique<Staging>();
    if (t.staging) t.staging->offers = (cts.flags & ClearToSend::kOffer) != 0;
  }
  streaming_.push_back(&t);
}

// Sends fragments while there is room. True when something was sent.
bool Engine::stream(Transfer& t) {
  bool moved = false;
  while (t.moved < t.bytes) {
    const size_t n = send_fragment(t, t.moved, t.bytes - t.moved, [&](std::byte* room, size_t size) {
      t.pack(t.moved, room, size);
      return Status{};
    });
    if (n == 0) return moved;
    t.moved += n;
    moved = true;
  }
  t.state = Transfer::State::done;
  return true;
}

// Copies that are still running from or to the chunks end first.
void Engine::settle(Transfer& t) {
  if (!t.staging) return;
  for (Staging::Chunk& chunk : t.staging->chunks)
    if (chunk.ticket.pending()) (void)device::wait(chunk.ticket);
}

// The sender cannot go on: tells the receiver, which would wait for ever.
void Engine::abort_stream(Transfer& t, Error error) {
  Data data{};
  data.type = Type::data;
  data.flags = Data::kAborted;
  data.receiver = t.remote;
  post_control(t.peer, &data, sizeof data);
  settle(t);
  t.outcome = std::move(error);
  t.state = Transfer::State::done;
}

void Engine::on_abort(Transfer& t) {
  settle(t);
  if (t.staging) --staged_receives_;
  t.completion.bytes = t.moved;
  complete(t, Error(Errc::other, "the sender (process " + std::to_string(t.peer) + ") failed after " +
                                     std::to_string(t.moved) + " of " + std::to_string(t.expected) +
                                     " bytes: its own error says why"));
}

void Engine::on_data(const Data& data, const std::byte* payload) {
  const trace::Range range("p2p.fragment");
  auto& t = *reinterpret_cast<Transfer*>(data.receiver);
  if ((data.flags & Data::kAborted) != 0) [[unlikely]]
    return on_abort(t);
  if (device_side(t)) return device_data(t, data.offset, payload, data.length);
  t.unpack(data.offset, payload, data.length);
  t.moved += data.length;
  if (t.moved == t.expected) complete(t);
}

}  // namespace weft::p2p
