// SPDX-License-Identifier: BSD-3-Clause
// Staged protocol: the receiver sends a CTS, the sender streams fragments through the transport and packs
// them on the way. Works for every pair of buffers; it is the fallback of all faster protocols.
#include <algorithm>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

config::Size setting_read_min("gpu.staged_read_min", size_t{32} << 10, 0, size_t{1} << 40,
                              "Smallest message in bytes from GPU memory that a receiver in host memory "
                              "reads from the sender's staging chunks; smaller messages are sent as "
                              "fragments");

}  // namespace

uint64_t staged_read_min() { return setting_read_min; }

void Engine::start_staged(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.start_staged");
  t.transferred = 0;
  t.peer = source;
  (void)enlist(t);
  const bool remote = peers_[source].remote;
  if (remote && (rts.flags & ReadyToSend::kDevice) != 0) return request_announcements(t, rts.sender);
  if (remote) add_remote_request(t);
  if (device_side(t)) {
    if (!t.staging) t.staging = std::make_unique<Staging>();
    waiting_staged_.push_back({&t, source, rts.sender});  // sends the CTS once it has a pinned chunk
    poll_waiting_staged();
    return;
  }
  const auto readable = [&] { return shm_->can_get(source).ok(); };
  const Protocol protocol = select_staged_protocol(t.memory.kind, rts_info(rts), readable);
  clear_to_send(t, source, rts.sender, protocol == Protocol::announced ? ClearToSend::kAnnouncedChunks : 0);
}

void Engine::clear_to_send(Transfer& t, uint32_t source, core::RequestId sender, uint8_t flags) {
  ClearToSend cts{};
  cts.type = Type::clear_to_send;
  cts.flags = flags;
  cts.sender = sender;
  cts.receiver = enlist(t);
  t.requested = flags;
  t.enter(Transfer::State::receiving);
  post_control(source, &cts, sizeof cts);
}

void Engine::on_clear_to_send(uint32_t source, const ClearToSend& cts) {
  Transfer* const found = find_transfer(cts.sender, source, Transfer::State::rts_sent);
  if (found == nullptr) return;
  Transfer& t = *found;
  if (((cts.flags & ClearToSend::kPipelined) != 0 && (!t.remote_request || !device_side(t))) ||
      ((cts.flags & ClearToSend::kThroughBounce) != 0 && !t.bounce))
    return drop_malformed();
  t.remote = cts.receiver;
  t.transferred = 0;
  t.enter(Transfer::State::streaming);
  if ((cts.flags & ClearToSend::kPipelined) != 0) {
    t.remote_request->pipelined = true;
  } else if ((cts.flags & ClearToSend::kThroughBounce) == 0) {
    if (t.bounce && t.bounce->epoch != 0) cancel_eager_pack(t);
    t.bounce.reset();
    if (device_side(t)) t.staging = std::make_unique<Staging>();
    if (t.staging) t.staging->receiver_reads = (cts.flags & ClearToSend::kAnnouncedChunks) != 0;
  }
  streaming_.push_back(&t);
}

// Sends fragments while the transport has capacity. Returns true if something was sent.
bool Engine::stream(Transfer& t) {
  bool progressed = false;
  while (t.transferred < t.bytes) {
    const size_t n =
        send_fragment(t, t.transferred, t.bytes - t.transferred, [&](std::byte* slot, size_t size) {
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

// Waits for copies in flight from or to the staging chunks.
void Engine::wait_for_chunks(Transfer& t) {
  if (!t.staging) return;
  for (Staging::Chunk& chunk : t.staging->chunks)
    if (chunk.ticket.pending()) (void)device::wait(chunk.ticket);
}

// The sender failed: notifies the receiver, which would wait forever. Ends once the receiver has returned all
// announced chunks.
void Engine::abort_stream(Transfer& t, Error error) {
  Data data{};
  data.type = Type::data;
  data.flags = Data::kAborted;
  data.receiver = t.remote;
  post_control(t.peer, &data, sizeof data);
  wait_for_chunks(t);
  t.outcome = std::move(error);
  if (!t.staging || !t.staging->any_announced()) t.enter(Transfer::State::done);
}

void Engine::on_abort(Transfer& t) {
  wait_for_chunks(t);
  if (t.staging) --staged_receives_;
  t.completion.bytes = t.transferred;
  complete(t, Error(Errc::other, "the sender (process " + std::to_string(t.peer) + ") failed after " +
                                     std::to_string(t.transferred) + " of " + std::to_string(t.expected) +
                                     " bytes: its own error says why"));
}

void Engine::on_data(uint32_t source, const Data& data, const std::byte* payload) {
  const trace::Range range("p2p.fragment");
  Transfer* const found = find_transfer(data.receiver, source, Transfer::State::receiving);
  if (found == nullptr) return;
  Transfer& t = *found;
  // Fragments arrive in order, except after announced chunks that could not be read.
  const bool announced = t.requested == ClearToSend::kAnnouncedChunks;
  if (t.requested != 0 && !announced) return drop_malformed();
  if ((data.flags & Data::kAborted) != 0) [[unlikely]]
    return on_abort(t);
  if (data.length > t.expected - t.transferred ||
      (announced ? data.offset > t.expected - data.length : data.offset != t.transferred)) [[unlikely]]
    return drop_malformed();
  if (device_side(t)) return upload_fragment(t, data.offset, payload, data.length);
  t.unpack(data.offset, payload, data.length);
  t.transferred += data.length;
  if (t.transferred == t.expected) complete(t);
}

}  // namespace weft::p2p
