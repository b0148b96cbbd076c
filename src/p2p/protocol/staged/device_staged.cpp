// SPDX-License-Identifier: BSD-3-Clause
// Device memory staged through pinned host chunks: filled by a copy engine at the sender, sent as fragments
// or read by single copy, emptied by a copy engine at the receiver. The protocols are in staged.cpp.
#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/host/get_part.hpp"
#include "p2p/protocol/staged/staging.hpp"

namespace weft::p2p {
namespace {

using device::StreamRole;

log::SlowPath chunk_unreadable{"p2p.device_chunk_unreadable",
                               "two copies through shared memory, about half the bandwidth"};
log::SlowPath no_chunk{"p2p.staging_exhausted", "fragments wait for one unpinned copy each"};

/// Leases a chunk. Returns false if none is free.
Result<bool> lease(const Transfer& t, device::PinnedBuffer& pinned) {
  if (pinned) return true;
  auto leased = device::lease_pinned(t.memory);
  if (!leased && leased.error().code() == Errc::again) return false;
  if (!leased) return std::move(leased).error();
  pinned = std::move(*leased);
  return true;
}

}  // namespace

bool lease_chunk(Transfer& t, unsigned chunk) {
  auto leased = lease(t, state_of<Staging>(t).chunks[chunk].pinned);
  if (leased) return *leased;
  t.outcome = std::move(leased).error();
  return false;
}

Status upload(const Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n) {
  auto ticket = copy::submit(view_of(t).from(offset), copy::plain(chunk.pinned), n, StreamRole::in);
  if (!ticket) return std::move(ticket).error();
  chunk.ticket = std::move(*ticket);
  return {};
}

void wait_for_uploads(Transfer& t) {
  if (!t.protocol_state) return;
  for (Staging::Chunk& chunk : state_of<Staging>(t).chunks) (void)device::wait(chunk.ticket);
}

// The uploads of both chunks may complete in either order, since kernels and copy engines serve them.
void track_uploads(Engine& engine, Transfer& t) {
  auto& chunks = state_of<Staging>(t).chunks;
  engine.copies.track({std::move(chunks[0].ticket), {&t}, {}, std::move(chunks[1].ticket)});
}

PinnedSend::PinnedSend(StagingLimits& limits, bool read_by_receiver)
    : PipelinedSend(&limits.sends), receiver_reads_(read_by_receiver) {}

Result<PipelinedSend::Slot> PinnedSend::reserve(const Transfer& t, uint64_t bytes) {
  const size_t number = used_[0] ? 1 : 0;
  if (used_[number]) return Slot{};
  device::PinnedBuffer& pinned = pinned_[number];
  auto leased = lease(t, pinned);
  if (!leased) return std::move(leased).error();
  if (!*leased) return Slot{};
  used_[number] = true;
  return Slot{number, std::min<uint64_t>(pinned.size(), bytes), copy::plain(pinned)};
}

Result<PipelinedSend::Handover> PinnedSend::hand_over(Engine& engine, Transfer& t, Chunk& chunk) {
  const device::PinnedBuffer& pinned = pinned_[chunk.number];
  if (receiver_reads_) {
    BounceChunk message = announcement(t, chunk);
    message.flags = BounceChunk::kPinned;
    message.address = reinterpret_cast<uint64_t>(pinned.data());
    engine.outgoing.post_control(t.peer, &message, sizeof message);
    return Handover::announced;
  }
  const size_t sent_before = sent_;
  while (sent_ < chunk.size) {
    const size_t n = send_fragment(engine.peers[t.peer], t, chunk.offset + sent_, chunk.size - sent_,
                                   [&](std::byte* slot, size_t size) {
                                     std::memcpy(slot, pinned.data() + sent_, size);
                                     return Status{};
                                   });
    if (n == 0) return sent_ == sent_before ? Handover::no_capacity : Handover::partly;
    sent_ += n;
  }
  sent_ = 0;
  return Handover::sent;
}

// No pinned chunk is available: sends one fragment at a time with a blocking copy, so that the transfer
// progresses.
bool PinnedSend::send_without_chunk(Engine& engine, Transfer& t) {
  no_chunk.hit("all pinned chunks are in use: raise WEFT_GPU_STAGING_BYTES");
  const size_t n = send_fragment(
      engine.peers[t.peer], t, next, t.bytes - next, [&](std::byte* slot, size_t size) -> Status {
        auto ticket = copy::submit(copy::plain(slot), view_of(t).from(next), size, StreamRole::out);
        return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
      });
  next += n;
  t.transferred += n;
  if (!t.outcome) give_up(t);
  return n != 0;
}

void PinnedSend::post_failure(Engine& engine, const Transfer& t) const {
  Data data{};
  data.type = Type::data;
  data.flags = Data::kAborted;
  data.receiver = t.remote;
  engine.outgoing.post_control(t.peer, &data, sizeof data);
}

void PinnedSend::on_chunk_done(Transfer& t, const BounceChunk& chunk) {
  Chunk* const read = announced(chunk.number);
  if (read == nullptr) return drop_malformed();
  if ((chunk.flags & BounceChunk::kFailed) == 0 || !t.outcome) return returned(t, *read);
  receiver_reads_ = false;
  read->announced = false;
}

// Receiver: reads an announced chunk. If that fails, this chunk and all later ones are sent as fragments.
void read_pinned_chunk(Engine& engine, Transfer& t, const BounceChunk& chunk) {
  if ((chunk.flags & BounceChunk::kPinned) == 0 || (chunk.flags & BounceChunk::kFailed) != 0 ||
      !chunk.within(t.expected) || chunk.size > t.expected - t.transferred)
    return drop_malformed();
  BounceChunk reply = chunk;
  reply.type = Type::chunk_done;
  if (auto read = get_part(engine, t, chunk.address, chunk.offset, chunk.size); !read) {
    if (engine.failures.sender_ended(t, read.error())) return;
    chunk_unreadable.hit(read.error().message());
    reply.flags |= BounceChunk::kFailed;
    return engine.outgoing.post_control(t.peer, &reply, sizeof reply);
  }
  engine.outgoing.post_control(t.peer, &reply, sizeof reply);
  t.transferred += chunk.size;
  if (t.transferred == t.expected) engine.requests.complete(t);
}

void upload_fragment(Engine& engine, Transfer& t, const Data& data, const std::byte* payload) {
  auto& staging = state_of<Staging>(t);
  uint64_t offset = data.offset;
  size_t size = data.length;
  while (size != 0) {
    Staging::Chunk& chunk = staging.chunks[staging.current];
    if (chunk.ticket.pending())
      if (auto waited = device::wait(chunk.ticket); !waited && t.outcome)
        t.outcome = std::move(waited).error();
    if (chunk.size == 0) chunk.offset = offset;
    const size_t n = std::min(size, chunk.pinned.size() - chunk.size);
    std::memcpy(chunk.pinned.data() + chunk.size, payload, n);
    chunk.size += n;
    offset += n;
    payload += n;
    size -= n;
    t.transferred += n;
    const bool last = t.transferred == t.expected;
    if (chunk.size < chunk.pinned.size() && !last) continue;
    if (auto sent = upload(t, chunk, chunk.offset, chunk.size); !sent && t.outcome)
      t.outcome = std::move(sent).error();
    chunk.size = 0;
    if (last) {
      t.enter(Transfer::State::matched);
      staging.use.release();
      return track_uploads(engine, t);
    }
    if (lease_chunk(t, staging.current ^ 1)) staging.current ^= 1;
  }
}

}  // namespace weft::p2p
