// SPDX-License-Identifier: BSD-3-Clause
// Device memory through pinned chunks of host memory: filled by a copy engine on one side, sent as fragments
// or read by the kernel, emptied by a copy engine on the other.
#include <cstddef>
#include <cstring>

#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/bar.hpp"
#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Lane;

log::SlowPath no_reading{"p2p.device_not_read", "two copies through shared memory, about half the bandwidth"};
log::SlowPath no_chunk{"p2p.staging_exhausted", "fragments wait for one unpinned copy each"};

// Pinned chunks are few: so many staged receives and so many staged sends hold some at a time, each at most
// two. Receives ask (CTS) in the order of their turns and senders stream in the order they were asked, so the
// oldest always moves on.
constexpr uint32_t kStagedReceives = 4;

}  // namespace

// The peer's host memory, read by the kernel into pinned chunks and copied up from there, two in turn.
bool Engine::get_host_to_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_host_to_device");
  t.staging = std::make_unique<Staging>();
  if (!lease(t, 0)) return false;
  const bool two = rts.bytes > t.staging->chunks[0].pinned.size() && lease(t, 1);
  for (uint64_t offset = 0, step = 0; offset < rts.bytes; ++step) {
    Staging::Chunk& chunk = t.staging->chunks[two ? step & 1 : 0];
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), rts.bytes - offset);
    const transport::Piece local{reinterpret_cast<uint64_t>(chunk.pinned.data()), n};
    const transport::Piece remote{rts.address + offset, n};
    Status moved = chunk.ticket.pending() ? device::wait(chunk.ticket) : Status{};
    if (moved) moved = shm_->get(source, {&local, 1}, {&remote, 1});
    if (moved) moved = upload(t, chunk, offset, n);
    if (!moved) {
      if (offset == 0) return false;
      settle(t);
      finish_sender(source, rts.sender);
      complete(t, std::move(moved).error());
      return true;
    }
    offset += n;
  }
  finish_sender(source, rts.sender);
  follow_uploads(t);
  return true;
}

bool Engine::lease(Transfer& t, int chunk) {
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

// From a pinned chunk to bytes [offset, offset + n) of the receiver's message.
Status Engine::upload(Transfer& t, Staging::Chunk& chunk, uint64_t offset, size_t n) {
  const View from{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
  auto ticket = submit_part(view_of(t), offset, from, n, Lane::in);
  if (!ticket) return std::move(ticket).error();
  chunk.ticket = std::move(*ticket);
  return {};
}

/// Kernels pack into pinned memory only: from there it is a copy by the CPU. False: there is none now.
static Result<bool> pack_through_pinned(const Transfer& t, std::byte* to) {
  auto pinned = device::lease_pinned(t.memory);
  if (!pinned) return false;
  const View room{reinterpret_cast<std::byte*>(pinned->data()), nullptr, 0, pinned->memory()};
  for (uint64_t offset = 0; offset < t.bytes;) {
    const size_t n = std::min<uint64_t>(pinned->size(), t.bytes - offset);
    auto ticket = submit_part_out(room, view_of(t), offset, n, Lane::out);
    if (!ticket) return std::move(ticket).error();
    WEFT_TRY(device::wait(*ticket));
    std::memcpy(to + offset, room.address, n);
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
  auto ticket = submit_part_out({to, nullptr, 0, {}}, view_of(t), 0, t.bytes, Lane::out);
  if (!ticket) return std::move(ticket).error();
  return device::wait(*ticket);
}

// An eager message into device memory. Its bytes are valid during this call only.
void Engine::device_eager(Transfer& t, const std::byte* payload, size_t size) {
  const trace::Range range("p2p.upload_eager");
  if (size == 0 || (t.contiguous && device::bar_write(t.address, t.memory, payload, size)))
    return complete(t);
  t.staging = std::make_unique<Staging>();
  if (lease(t, 0) && t.staging->chunks[0].pinned.size() >= size) {
    Staging::Chunk& chunk = t.staging->chunks[0];
    std::memcpy(chunk.pinned.data(), payload, size);
    if (auto sent = upload(t, chunk, 0, size); !sent) return complete(t, std::move(sent).error());
    return follow_uploads(t);
  }
  const View from{const_cast<std::byte*>(payload), nullptr, 0, {}};
  auto ticket = submit_part(view_of(t), 0, from, size, Lane::in);
  if (!ticket) return complete(t, std::move(ticket).error());
  if (auto copied = device::wait(*ticket); !copied) return complete(t, std::move(copied).error());
  complete(t);
}

// Sender's side: fills one chunk while the other goes out as fragments.
bool Engine::stream_device(Transfer& t) {
  Staging& staging = *t.staging;
  if (!t.outcome || t.moved == t.bytes) {  // it failed, or the receiver has everything
    if (!staging.any_offered()) t.state = Transfer::State::done;
    return !staging.any_offered();
  }
  const auto fail = [&](Error error) {
    abort_stream(t, std::move(error));
    if (staging.any_offered()) t.state = Transfer::State::streaming;  // they come back
    return true;
  };
  for (unsigned k = 0; k < 2 && staging.next < t.bytes; ++k) {
    Staging::Chunk& chunk = staging.chunks[staging.turn ^ k];
    if (chunk.size != 0) continue;
    if (!lease(t, static_cast<int>(staging.turn ^ k))) {
      if (!t.outcome) return fail(std::move(t.outcome).error());
      break;
    }
    const size_t n = std::min<uint64_t>(chunk.pinned.size(), t.bytes - staging.next);
    const View to{reinterpret_cast<std::byte*>(chunk.pinned.data()), nullptr, 0, chunk.pinned.memory()};
    auto ticket = submit_part_out(to, view_of(t), staging.next, n, Lane::out);
    if (!ticket) return fail(std::move(ticket).error());
    chunk.ticket = std::move(*ticket);
    chunk.offset = staging.next;
    chunk.size = n;
    chunk.sent = 0;
    staging.next += n;
  }
  if (staging.chunks[staging.turn].size == 0 && staging.chunks[staging.turn ^ 1].size != 0) staging.turn ^= 1;
  Staging::Chunk& chunk = staging.chunks[staging.turn];
  if (chunk.size == 0) return stream_unpinned(t);
  if (chunk.offered) return false;
  if (chunk.ticket.pending()) {
    auto ready = device::done(chunk.ticket);
    if (!ready) return fail(std::move(ready).error());
    if (!*ready) return false;
  }
  if (staging.offers) return offer(t, staging.turn);
  bool moved = false;
  while (chunk.sent < chunk.size) {
    const size_t n = send_fragment(t, chunk.offset + chunk.sent, chunk.size - chunk.sent,
                                   [&](std::byte* room, size_t size) {
                                     std::memcpy(room, chunk.pinned.data() + chunk.sent, size);
                                     return Status{};
                                   });
    if (n == 0) return moved;
    chunk.sent += n;
    moved = true;
  }
  t.moved += chunk.size;
  chunk.size = 0;
  staging.turn ^= 1;
  if (t.moved == t.bytes) t.state = Transfer::State::done;
  return true;
}

// The receiver reads the chunk where it lies, while the other one is filled.
bool Engine::offer(Transfer& t, unsigned number) {
  Staging::Chunk& chunk = t.staging->chunks[number];
  chunk.offered = true;
  t.staging->turn ^= 1;
  ScratchChunk message{};
  message.type = Type::scratch_ready;
  message.flags = ScratchChunk::kPinned;
  message.sender = reinterpret_cast<uint64_t>(&t);
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.address = reinterpret_cast<uint64_t>(chunk.pinned.data());
  message.size = chunk.size;
  message.number = number;
  post_control(t.peer, &message, sizeof message);
  return true;
}

// Receiver: what cannot be read comes as fragments, and so does the rest.
void Engine::read_offer(Transfer& t, uint32_t source, const ScratchChunk& chunk) {
  ScratchChunk reply = chunk;
  reply.type = Type::scratch_done;
  if (auto read = get_part(t, source, chunk.address, chunk.offset, chunk.size); !read) {
    no_reading.hit(read.error().message());
    reply.flags |= ScratchChunk::kFailed;
    return post_control(source, &reply, sizeof reply);
  }
  post_control(source, &reply, sizeof reply);
  t.moved += chunk.size;
  if (t.moved == t.expected) complete(t);
}

// Sender: a chunk was read, or will go as fragments.
void Engine::on_offer_done(Transfer& t, const ScratchChunk& chunk) {
  Staging::Chunk& offered = t.staging->chunks[chunk.number];
  offered.offered = false;
  if ((chunk.flags & ScratchChunk::kFailed) != 0) {
    t.staging->offers = false;
    return;
  }
  t.moved += offered.size;
  offered.size = 0;
}

// No pinned chunk is to be had: one fragment at a time, waiting for each copy, so that the transfer moves on.
bool Engine::stream_unpinned(Transfer& t) {
  no_chunk.hit("all pinned chunks are in use: raise WEFT_GPU_STAGING_BYTES");
  Staging& staging = *t.staging;
  const size_t n = send_fragment(t, staging.next, t.bytes - staging.next, [&](std::byte* room, size_t size) {
    auto ticket = submit_part_out({room, nullptr, 0, {}}, view_of(t), staging.next, size, Lane::out);
    return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
  });
  staging.next += n;
  t.moved += n;
  if ((t.moved == t.bytes || !t.outcome) && !staging.any_offered()) t.state = Transfer::State::done;
  return n != 0;
}

// Receiver's side of fragments into device memory.
void Engine::device_data(Transfer& t, uint64_t offset, const std::byte* payload, size_t size) {
  Staging& staging = *t.staging;
  while (size != 0) {
    Staging::Chunk& chunk = staging.chunks[staging.turn];
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
    t.moved += n;
    const bool last = t.moved == t.expected;
    if (chunk.size < chunk.pinned.size() && !last) continue;
    if (auto sent = upload(t, chunk, chunk.offset, chunk.size); !sent && t.outcome)
      t.outcome = std::move(sent).error();
    chunk.size = 0;
    if (last) {
      --staged_receives_;
      return follow_uploads(t);
    }
    if (lease(t, static_cast<int>(staging.turn ^ 1))) staging.turn ^= 1;
  }
}

bool Engine::poll_starved() {
  bool moved = false;
  for (size_t i = 0; i < starved_.size();) {
    if (staged_receives_ == kStagedReceives) break;
    const Starved waiting = starved_[i];
    if (!lease(*waiting.receiver, 0)) {
      if (waiting.receiver->outcome) {
        ++i;
        continue;
      }
      finish_sender(waiting.source, waiting.sender);
      complete(*waiting.receiver);  // outcome holds the error
    } else {
      ++staged_receives_;
      clear_to_send(*waiting.receiver, waiting.source, waiting.sender);
    }
    starved_.erase(starved_.begin() + static_cast<ptrdiff_t>(i));
    moved = true;
  }
  return moved;
}

}  // namespace weft::p2p
