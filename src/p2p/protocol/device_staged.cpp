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
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"
#include "p2p/protocol/protocol.hpp"
#include "p2p/staging.hpp"

namespace weft::p2p {
namespace {

using device::StreamRole;

log::SlowPath chunk_unreadable{"p2p.device_chunk_unreadable",
                               "two copies through shared memory, about half the bandwidth"};
log::SlowPath no_chunk{"p2p.staging_exhausted", "fragments wait for one unpinned copy each"};

}  // namespace

bool lease_chunk(Transfer& t, unsigned chunk) {
  auto& pinned = state_of<Staging>(t).chunks[chunk].pinned;
  if (pinned) return true;
  auto leased = device::lease_pinned(t.memory);
  if (!leased) {
    if (leased.error().code() != Errc::again) t.outcome = std::move(leased).error();
    return false;
  }
  pinned = std::move(*leased);
  return true;
}

Status upload(const Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n) {
  const View from{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
  auto ticket = submit_part(view_of(t), offset, from, n, StreamRole::in);
  if (!ticket) return std::move(ticket).error();
  chunk.ticket = std::move(*ticket);
  return {};
}

void wait_for_chunks(Transfer& t) {
  if (!t.protocol_state) return;
  for (Staging::Chunk& chunk : state_of<Staging>(t).chunks) (void)device::wait(chunk.ticket);
}

// The uploads of both chunks may complete in either order, since kernels and copy engines serve them.
void track_uploads(Engine& engine, Transfer& t) {
  auto& chunks = state_of<Staging>(t).chunks;
  engine.track({std::move(chunks[0].ticket), {&t}, {}, std::move(chunks[1].ticket)});
}

void abort_stream(Engine& engine, Transfer& t, Error error) {
  Data data{};
  data.type = Type::data;
  data.flags = Data::kAborted;
  data.receiver = t.remote;
  engine.post_control(t.peer, &data, sizeof data);
  wait_for_chunks(t);
  t.outcome = std::move(error);
  if (!state_of<Staging>(t).any_announced()) t.enter(Transfer::State::done);
}

// Announces a chunk, which the receiver reads while the other chunk is filled.
static bool announce(Engine& engine, Transfer& t, unsigned number) {
  auto& staging = state_of<Staging>(t);
  Staging::Chunk& chunk = staging.chunks[number];
  chunk.announced = true;
  staging.current ^= 1;
  BounceChunk message{};
  message.type = Type::chunk_ready;
  message.flags = BounceChunk::kPinned;
  message.sender = t.id;
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.address = reinterpret_cast<uint64_t>(chunk.pinned.data());
  message.size = chunk.size;
  message.number = number;
  engine.post_control(t.peer, &message, sizeof message);
  return true;
}

// No pinned chunk is available: sends one fragment at a time with a blocking copy, so that the transfer
// progresses.
static bool stream_unpinned(const Peer& peer, Transfer& t) {
  no_chunk.hit("all pinned chunks are in use: raise WEFT_GPU_STAGING_BYTES");
  auto& staging = state_of<Staging>(t);
  const size_t n =
      send_fragment(peer, t, staging.next, t.bytes - staging.next, [&](std::byte* slot, size_t size) {
        auto ticket =
            submit_part_out({slot, nullptr, 0, {}}, view_of(t), staging.next, size, StreamRole::out);
        return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
      });
  staging.next += n;
  t.transferred += n;
  if ((t.transferred == t.bytes || !t.outcome) && !staging.any_announced()) t.enter(Transfer::State::done);
  return n != 0;
}

bool stream_device(Engine& engine, Transfer& t) {
  auto& staging = state_of<Staging>(t);
  if (!staging.use) staging.use = engine.staging_limits().sends.acquire();
  if (!staging.use) return false;
  if (!t.outcome || t.transferred == t.bytes) {  // failed or complete
    if (!staging.any_announced()) t.enter(Transfer::State::done);
    return !staging.any_announced();
  }
  const auto fail = [&](Error error) {
    abort_stream(engine, t, std::move(error));
    return true;
  };
  for (unsigned k = 0; k < 2 && staging.next < t.bytes; ++k) {
    Staging::Chunk& chunk = staging.chunks[staging.current ^ k];
    if (chunk.size != 0) continue;
    if (!lease_chunk(t, staging.current ^ k)) {
      if (!t.outcome) return fail(std::move(t.outcome).error());
      break;
    }
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), t.bytes - staging.next);
    const View to{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
    auto ticket = submit_part_out(to, view_of(t), staging.next, n, StreamRole::out);
    if (!ticket) return fail(std::move(ticket).error());
    chunk.ticket = std::move(*ticket);
    chunk.offset = staging.next;
    chunk.size = n;
    chunk.sent = 0;
    staging.next += n;
  }
  if (staging.chunks[staging.current].size == 0 && staging.chunks[staging.current ^ 1].size != 0)
    staging.current ^= 1;
  Staging::Chunk& chunk = staging.chunks[staging.current];
  if (chunk.size == 0) return stream_unpinned(engine.peer(t.peer), t);
  if (chunk.announced) return false;
  if (chunk.ticket.pending()) {
    auto ready = device::done(chunk.ticket);
    if (!ready) return fail(std::move(ready).error());
    if (!*ready) return false;
  }
  if (staging.receiver_reads) return announce(engine, t, staging.current);
  bool progressed = false;
  while (chunk.sent < chunk.size) {
    const size_t n = send_fragment(engine.peer(t.peer), t, chunk.offset + chunk.sent, chunk.size - chunk.sent,
                                   [&](std::byte* slot, size_t size) {
                                     std::memcpy(slot, chunk.pinned.data() + chunk.sent, size);
                                     return Status{};
                                   });
    if (n == 0) return progressed;
    chunk.sent += n;
    progressed = true;
  }
  t.transferred += chunk.size;
  chunk.size = 0;
  staging.current ^= 1;
  if (t.transferred == t.bytes) t.enter(Transfer::State::done);
  return true;
}

// Receiver: reads an announced chunk. If that fails, this chunk and all later ones are sent as fragments.
void read_pinned_chunk(Engine& engine, Transfer& t, const BounceChunk& chunk) {
  if ((chunk.flags & BounceChunk::kPinned) == 0 || (chunk.flags & BounceChunk::kFailed) != 0 ||
      !chunk.within(t.expected) || chunk.size > t.expected - t.transferred)
    return Engine::drop_malformed();
  BounceChunk reply = chunk;
  reply.type = Type::chunk_done;
  if (auto read = get_part(engine, t, chunk.address, chunk.offset, chunk.size); !read) {
    if (engine.sender_ended(t, read.error())) return;
    chunk_unreadable.hit(read.error().message());
    reply.flags |= BounceChunk::kFailed;
    return engine.post_control(t.peer, &reply, sizeof reply);
  }
  engine.post_control(t.peer, &reply, sizeof reply);
  t.transferred += chunk.size;
  if (t.transferred == t.expected) Engine::complete(t);
}

// Sender: the receiver has read a chunk, or it will be sent as fragments.
void on_pinned_chunk_done(Engine&, Transfer& t, const BounceChunk& chunk) {
  auto& staging = state_of<Staging>(t);
  if (chunk.number >= std::size(staging.chunks) || !staging.chunks[chunk.number].announced)
    return Engine::drop_malformed();
  Staging::Chunk& pinned_chunk = staging.chunks[chunk.number];
  pinned_chunk.announced = false;
  if ((chunk.flags & BounceChunk::kFailed) != 0) {
    staging.receiver_reads = false;
    return;
  }
  t.transferred += pinned_chunk.size;
  pinned_chunk.size = 0;
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
