// SPDX-License-Identifier: BSD-3-Clause
// Device memory staged through pinned host chunks: filled by a copy engine at the sender, sent as fragments
// or read by single copy, emptied by a copy engine at the receiver.
#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/bar.hpp"
#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::StreamRole;

log::SlowPath chunk_unreadable{"p2p.device_chunk_unreadable",
                               "two copies through shared memory, about half the bandwidth"};
log::SlowPath no_chunk{"p2p.staging_exhausted", "fragments wait for one unpinned copy each"};

// Pinned chunks are scarce: the number of staged receives and sends that hold chunks is limited, with at most
// two chunks each. Receives send their CTS in order and senders stream in CTS order, so the oldest transfer
// always progresses.
constexpr uint32_t kMaxStagedReceives = 4;

}  // namespace

// Reads the peer's host memory into pinned chunks and uploads them, double-buffered.
bool Engine::get_host_to_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host_to_device");
  t.staging = std::make_unique<Staging>();
  if (!lease_chunk(t, 0)) return false;
  const bool two = rts.bytes > t.staging->chunks[0].pinned.size() && lease_chunk(t, 1);
  for (uint64_t offset = 0, step = 0; offset < rts.bytes; ++step) {
    Staging::Chunk& chunk = t.staging->chunks[two ? step & 1 : 0];
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), rts.bytes - offset);
    const transport::Iov local{reinterpret_cast<uint64_t>(chunk.pinned.data()), n};
    const transport::Iov remote{rts.address + offset, n};
    Status copied = chunk.ticket.pending() ? device::wait(chunk.ticket) : Status{};
    if (copied) copied = shm_->get(source, {&local, 1}, {&remote, 1});
    if (copied) copied = upload(t, chunk, offset, n);
    if (!copied) {
      if (offset == 0) return false;
      wait_for_chunks(t);
      finish_sender(source, rts.sender);
      complete(t, std::move(copied).error());
      return true;
    }
    offset += n;
  }
  finish_sender(source, rts.sender);
  track_uploads(t);
  return true;
}

bool Engine::lease_chunk(Transfer& t, int chunk) {
  auto& pinned = t.staging->chunks[chunk].pinned;
  if (pinned) return true;
  auto leased = device::lease_pinned(t.memory);
  if (!leased) {
    if (leased.error().code() != Errc::again) t.outcome = std::move(leased).error();
    return false;
  }
  pinned = std::move(*leased);
  return true;
}

// Uploads a pinned chunk to bytes [offset, offset + n) of the receiver's message.
Status Engine::upload(Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n) {
  const View from{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
  auto ticket = submit_part(view_of(t), offset, from, n, StreamRole::in);
  if (!ticket) return std::move(ticket).error();
  chunk.ticket = std::move(*ticket);
  return {};
}

/// Packs through a pinned chunk, since kernels pack into pinned memory only. Returns false if no chunk is
/// free.
static Result<bool> pack_through_pinned(const Transfer& t, std::byte* to) {
  auto pinned = device::lease_pinned(t.memory);
  if (!pinned) return false;
  const View chunk{reinterpret_cast<std::byte*>(pinned->data()), nullptr, 0, pinned->memory()};
  for (uint64_t offset = 0; offset < t.bytes;) {
    const size_t n = std::min<uint64_t>(pinned->size(), t.bytes - offset);
    auto ticket = submit_part_out(chunk, view_of(t), offset, n, StreamRole::out);
    if (!ticket) return std::move(ticket).error();
    WEFT_TRY(device::wait(*ticket));
    std::memcpy(to + offset, chunk.address, n);
    offset += n;
  }
  return true;
}

Status Engine::pack_out(const Transfer& t, std::byte* to) {
  if (t.bytes == 0) return {};
  if (!device_side(t)) return t.pack(0, to, t.bytes), Status{};
  if (!t.contiguous) {
    auto packed = pack_through_pinned(t, to);
    if (!packed) return std::move(packed).error();
    if (*packed) return {};
  }
  auto ticket = submit_part_out({to, nullptr, 0, {}}, view_of(t), 0, t.bytes, StreamRole::out);
  if (!ticket) return std::move(ticket).error();
  return device::wait(*ticket);
}

// Receives an eager message into device memory. The payload is valid during this call only.
void Engine::upload_eager(Transfer& t, const std::byte* payload, size_t size) {
  const trace::Range range("p2p.upload_eager");
  if (size == 0 || (t.contiguous && device::bar_write(t.address, t.memory, payload, size)))
    return complete(t);
  t.staging = std::make_unique<Staging>();
  if (lease_chunk(t, 0) && t.staging->chunks[0].pinned.size() >= size) {
    Staging::Chunk& chunk = t.staging->chunks[0];
    std::memcpy(chunk.pinned.data(), payload, size);
    if (auto sent = upload(t, chunk, 0, size); !sent) return complete(t, std::move(sent).error());
    return track_uploads(t);
  }
  const View from{const_cast<std::byte*>(payload), nullptr, 0, {}};
  auto ticket = submit_part(view_of(t), 0, from, size, StreamRole::in);
  if (!ticket) return complete(t, std::move(ticket).error());
  if (auto copied = device::wait(*ticket); !copied) return complete(t, std::move(copied).error());
  complete(t);
}

// Sender: fills one chunk while the other is sent as fragments.
bool Engine::stream_device(Transfer& t) {
  Staging& staging = *t.staging;
  if (!t.outcome || t.transferred == t.bytes) {  // failed or complete
    if (!staging.any_announced()) t.enter(Transfer::State::done);
    return !staging.any_announced();
  }
  const auto fail = [&](Error error) {
    abort_stream(t, std::move(error));
    return true;
  };
  for (unsigned k = 0; k < 2 && staging.next < t.bytes; ++k) {
    Staging::Chunk& chunk = staging.chunks[staging.current ^ k];
    if (chunk.size != 0) continue;
    if (!lease_chunk(t, static_cast<int>(staging.current ^ k))) {
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
  if (chunk.size == 0) return stream_unpinned(t);
  if (chunk.announced) return false;
  if (chunk.ticket.pending()) {
    auto ready = device::done(chunk.ticket);
    if (!ready) return fail(std::move(ready).error());
    if (!*ready) return false;
  }
  if (staging.receiver_reads) return announce_pinned_chunk(t, staging.current);
  bool progressed = false;
  while (chunk.sent < chunk.size) {
    const size_t n = send_fragment(t, chunk.offset + chunk.sent, chunk.size - chunk.sent,
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

// Announces a chunk, which the receiver reads while the other chunk is filled.
bool Engine::announce_pinned_chunk(Transfer& t, unsigned number) {
  Staging::Chunk& chunk = t.staging->chunks[number];
  chunk.announced = true;
  t.staging->current ^= 1;
  BounceChunk message{};
  message.type = Type::chunk_ready;
  message.flags = BounceChunk::kPinned;
  message.sender = t.id;
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.address = reinterpret_cast<uint64_t>(chunk.pinned.data());
  message.size = chunk.size;
  message.number = number;
  post_control(t.peer, &message, sizeof message);
  return true;
}

// Receiver: reads an announced chunk. If that fails, this chunk and all later ones are sent as fragments.
void Engine::read_pinned_chunk(Transfer& t, uint32_t source, const BounceChunk& chunk) {
  if (chunk.size > t.expected - t.transferred) return drop_malformed();
  BounceChunk reply = chunk;
  reply.type = Type::chunk_done;
  if (auto read = get_part(t, source, chunk.address, chunk.offset, chunk.size); !read) {
    chunk_unreadable.hit(read.error().message());
    reply.flags |= BounceChunk::kFailed;
    return post_control(source, &reply, sizeof reply);
  }
  post_control(source, &reply, sizeof reply);
  t.transferred += chunk.size;
  if (t.transferred == t.expected) complete(t);
}

// Sender: the receiver has read a chunk, or it will be sent as fragments.
void Engine::on_pinned_chunk_done(Transfer& t, const BounceChunk& chunk) {
  if (!t.staging || chunk.number >= std::size(t.staging->chunks) ||
      !t.staging->chunks[chunk.number].announced)
    return drop_malformed();
  Staging::Chunk& pinned_chunk = t.staging->chunks[chunk.number];
  pinned_chunk.announced = false;
  if ((chunk.flags & BounceChunk::kFailed) != 0) {
    t.staging->receiver_reads = false;
    return;
  }
  t.transferred += pinned_chunk.size;
  pinned_chunk.size = 0;
}

// No pinned chunk is available: sends one fragment at a time with a blocking copy, so that the transfer
// progresses.
bool Engine::stream_unpinned(Transfer& t) {
  no_chunk.hit("all pinned chunks are in use: raise WEFT_GPU_STAGING_BYTES");
  Staging& staging = *t.staging;
  const size_t n = send_fragment(t, staging.next, t.bytes - staging.next, [&](std::byte* slot, size_t size) {
    auto ticket = submit_part_out({slot, nullptr, 0, {}}, view_of(t), staging.next, size, StreamRole::out);
    return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
  });
  staging.next += n;
  t.transferred += n;
  if ((t.transferred == t.bytes || !t.outcome) && !staging.any_announced()) t.enter(Transfer::State::done);
  return n != 0;
}

// Receiver: stores a fragment for device memory.
void Engine::upload_fragment(Transfer& t, uint64_t offset, const std::byte* payload, size_t size) {
  Staging& staging = *t.staging;
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
      --staged_receives_;
      return track_uploads(t);
    }
    if (lease_chunk(t, static_cast<int>(staging.current ^ 1))) staging.current ^= 1;
  }
}

bool Engine::poll_waiting_staged() {
  bool progressed = false;
  for (size_t i = 0; i < waiting_staged_.size();) {
    if (staged_receives_ == kMaxStagedReceives) break;
    const WaitingStaged waiting = waiting_staged_[i];
    if (!lease_chunk(*waiting.receiver, 0)) {
      if (waiting.receiver->outcome) {
        ++i;
        continue;
      }
      finish_sender(waiting.source, waiting.sender);
      complete(*waiting.receiver);  // `outcome` holds the error
    } else {
      ++staged_receives_;
      clear_to_send(*waiting.receiver, waiting.source, waiting.sender);
    }
    waiting_staged_.erase(waiting_staged_.begin() + static_cast<ptrdiff_t>(i));
    progressed = true;
  }
  return progressed;
}

}  // namespace weft::p2p
