// SPDX-License-Identifier: BSD-3-Clause
// Fragments: the receiver sends a CTS, the sender streams fragments through the transport and packs them on
// the way. Works for every pair of buffers; it is the fallback of all faster protocols. Announced: the sender
// copies device memory to pinned chunks, which a receiver in host memory reads.
#include <memory>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/staged/protocols.hpp"
#include "p2p/protocol/staged/staging.hpp"

namespace weft::p2p {
namespace {

Received received_announced{
    {"p2p.announced_messages", counters::Unit::events, "Messages received by announced fragments"},
    {"p2p.announced_bytes", counters::Unit::bytes, "Bytes received by announced fragments"}};

Received received_by_fragments{{"p2p.fragments_messages", counters::Unit::events,
                                "Messages received by fragments through shared memory or the network"},
                               {"p2p.fragments_bytes", counters::Unit::bytes,
                                "Bytes received by fragments through shared memory or the network"}};

/// Smallest message that a receiver in host memory reads from the sender's staging chunks; smaller ones are
/// sent as fragments.
constexpr uint64_t kStagedReadMinBytes = uint64_t{32} << 10;

bool fragments_applicable(const MessageInfo& message) {
  return !message.remote || (!message.device && !message.rkey);
}

// Through shared memory, and through pinned chunks of each side in device memory.
unsigned fragments_cost(const MessageInfo& message) {
  return 2 + (message.device ? 1 : 0) + (device_side(message.to) ? 1 : 0);
}

bool announced_applicable(const MessageInfo& message) {
  return !message.remote && message.device && !device_side(message.to) &&
         message.bytes >= kStagedReadMinBytes && message.sender_readable();
}

// Receiver in device memory: sends the CTS once a pinned chunk is free. Returns false if it has to wait.
bool request_into_chunk(Engine& engine, Transfer& t) {
  auto& staging = state_of<Staging>(t);
  if (!staging.use) staging.use = engine.staging.receives.acquire();
  if (!staging.use) return false;
  if (lease_chunk(t, 0)) {
    engine.requests.stop_polling(t);
    engine.rendezvous.clear_to_send(t, kFragments);
    return true;
  }
  staging.use.release();
  if (t.outcome) return false;
  engine.rendezvous.finish_sender(t.peer, t.remote);
  engine.requests.complete(t);  // `outcome` holds the error
  return true;
}

bool init_fragments(Engine& engine, Transfer& t, const ReadyToSend&) {
  const trace::Range range("p2p.start_staged");
  t.transferred = 0;
  (void)engine.requests.enlist(t);
  if (!device_side(t)) {
    t.use(kFragments);
    engine.rendezvous.clear_to_send(t, kFragments);
    return true;
  }
  t.use(kFragments, std::make_unique<Staging>());
  engine.requests.start_polling(t);
  (void)request_into_chunk(engine, t);
  return true;
}

bool init_announced(Engine& engine, Transfer& t, const ReadyToSend&) {
  t.transferred = 0;
  t.use(kAnnounced);
  engine.rendezvous.clear_to_send(t, kAnnounced);
  return true;
}

bool accept_fragments(Engine& engine, Transfer& t) {
  if (engine.peers[t.peer].remote && device_side(t)) return false;
  engine.requests.leave_protocol(t);
  if (device_side(t))
    t.use(kFragments, std::make_unique<PinnedSend>(engine.staging, false));
  else
    t.use(kFragments);
  return true;
}

bool accept_announced(Engine& engine, Transfer& t) {
  if (engine.peers[t.peer].remote || !device_side(t)) return false;
  engine.requests.leave_protocol(t);
  t.use(kAnnounced, std::make_unique<PinnedSend>(engine.staging, true));
  return true;
}

// Sends fragments of host memory while the transport has capacity.
bool stream(const Peer& peer, Transfer& t) {
  bool progressed = false;
  while (t.transferred < t.bytes) {
    const size_t n =
        send_fragment(peer, t, t.transferred, t.bytes - t.transferred, [&](std::byte* slot, size_t size) {
          t.pack(t.transferred, slot, size);
          return Status{};
        });
    if (n == 0) return progressed;
    t.transferred += n;
    progressed = true;
  }
  t.enter(Transfer::State::done);
  return true;
}

bool progress(Engine& engine, Transfer& t) {
  if (t.kind == core::Request::Kind::send)
    return t.protocol_state ? state_of<PinnedSend>(t).stream(engine, t) : stream(engine.peers[t.peer], t);
  return request_into_chunk(engine, t);
}

void abort(Engine&, Transfer& t) {
  if (!t.protocol_state) return;
  if (t.kind == core::Request::Kind::send)
    state_of<PinnedSend>(t).abort();
  else
    wait_for_uploads(t);
}

void on_chunk_done(Engine&, Transfer& t, const BounceChunk& chunk) {
  state_of<PinnedSend>(t).on_chunk_done(t, chunk);
}

void fail_receive(Engine& engine, Transfer& t) {
  wait_for_uploads(t);
  t.completion.bytes = t.transferred;
  engine.requests.complete(
      t, Error(Errc::other, "the sender (process " + std::to_string(t.peer) + ") failed after " +
                                std::to_string(t.transferred) + " of " + std::to_string(t.expected) +
                                " bytes: its own error says why"));
}

void on_data(Engine& engine, Transfer& t, const Data& data, const std::byte* payload) {
  if ((data.flags & Data::kAborted) != 0) [[unlikely]]
    return fail_receive(engine, t);
  // Fragments arrive in order, except after announced chunks that could not be read.
  const uint64_t rest = t.expected - t.transferred;
  if (data.length > rest || (t.protocol == &kAnnounced ? data.offset > t.expected - data.length
                                                       : data.offset != t.transferred)) [[unlikely]]
    return drop_malformed();
  if (device_side(t)) return upload_fragment(engine, t, data, payload);
  t.unpack(data.offset, payload, data.length);
  t.transferred += data.length;
  if (t.transferred == t.expected) engine.requests.complete(t);
}

}  // namespace

constinit const Protocol kFragments{.name = "fragments",
                                    .text = "copied in fragments through shared memory",
                                    .applicable = fragments_applicable,
                                    .copies = 2,
                                    .cost = fragments_cost,
                                    .init = init_fragments,
                                    .received = &received_by_fragments,
                                    .accept = accept_fragments,
                                    .progress = progress,
                                    .abort = abort,
                                    .on_data = on_data};

constinit const Protocol kAnnounced{
    .name = "announced",
    .text = "the sender copies to pinned chunks, from which the receiver copies",
    .applicable = announced_applicable,
    .copies = 2,
    .init = init_announced,
    .received = &received_announced,
    .accept = accept_announced,
    .progress = progress,
    .abort = abort,
    .on_data = on_data,
    .on_chunk_ready = read_pinned_chunk,
    .on_chunk_done = on_chunk_done};

}  // namespace weft::p2p
