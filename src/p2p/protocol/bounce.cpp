// SPDX-License-Identifier: BSD-3-Clause
// Device memory through GPU bounce buffers: the sender packs chunks into memory that the receiver has mapped,
// the receiver reads each chunk and returns it. Packing and reading overlap.
#include "p2p/bounce.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

config::Size setting_bytes(
    "gpu.bounce_bytes", size_t{16} << 20, 0, size_t{4} << 30,
    "Bytes of GPU memory per GPU for bounce buffers, into which messages are packed that a peer "
    "cannot map or that are not contiguous. Allocated on first use; 0: stage through the host.",
    "GPU memory is scarce (smaller), or many large messages from pools or strided buffers are in "
    "flight (larger)");
config::Size setting_chunk("gpu.bounce_chunk", size_t{2} << 20, size_t{64} << 10, size_t{1} << 30,
                           "Bytes of a chunk of the GPU bounce buffers, packed at a time.");

/// Chunks alternate between two streams, so that the end of one overlaps the start of the next.
device::StreamRole stream_of(uint64_t chunk, device::StreamRole stream) {
  return chunk % 2 == 0 ? stream : device::StreamRole::aux;
}

Error sender_failed() {
  return Error(Errc::other, "the sender of this message could not pack it on its GPU: see its error");
}

}  // namespace

BouncePool::Arena* BouncePool::find(const device::Memory& near) const {
  for (const auto& arena : arenas_)
    if (arena->memory.device == near.device &&
        (near.context == nullptr || near.context == arena->memory.context))
      return arena.get();
  return nullptr;
}

Result<BouncePool::Arena*> BouncePool::arena(const device::Memory& near) {
  if (Arena* found = find(near)) return found;
  const size_t chunks = chunk_count();
  if (chunks == 0)
    return Error(Errc::unsupported, "WEFT_GPU_BOUNCE_BYTES is smaller than one chunk: raise it");
  const size_t data = chunks * setting_chunk;
  auto memory = device::allocate_scratch(near, data + chunks * kFlagBytes);
  if (!memory) return std::move(memory).error();
  const std::vector<std::byte> zeros(chunks * kFlagBytes);
  if (auto zeroed =
          device::copy(reinterpret_cast<void*>(memory->base + data), *memory, zeros.data(), {}, zeros.size());
      !zeroed) {
    device::free_scratch(*memory);
    return std::move(zeroed).error();
  }
  auto arena = std::make_unique<Arena>();
  arena->memory = *memory;
  arena->chunk = setting_chunk;
  arena->chunks = chunks;
  arena->used.resize(chunks);
  arena->free = chunks;
  arenas_.push_back(std::move(arena));
  return arenas_.back().get();
}

std::optional<uint32_t> BouncePool::Arena::reserve(size_t count) {
  if (free < count) return std::nullopt;
  size_t first = 0;
  for (size_t i = 0; i < chunks; ++i) {
    if (used[i]) first = i + 1;
    if (i + 1 - first != count) continue;
    std::fill_n(used.begin() + static_cast<ptrdiff_t>(first), count, true);
    free -= count;
    return static_cast<uint32_t>(first);
  }
  return std::nullopt;
}

void BouncePool::Arena::release(uint32_t number, size_t count) {
  std::fill_n(used.begin() + static_cast<ptrdiff_t>(number), count, false);
  free += count;
}

size_t BouncePool::chunk_bytes() { return setting_chunk; }
size_t BouncePool::chunk_count() { return setting_bytes / (setting_chunk + kFlagBytes); }

void BouncePool::close() {
  for (const auto& arena : arenas_) device::free_scratch(arena->memory);
  arenas_.clear();
}

// Receiver: maps the sender's bounce buffer for the duration of the message and requests the first chunks.
// Returns false if that is not possible.
bool Engine::get_through_bounce(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_through_bounce");
  t.sender_bounce = map_region(t, source, rts);
  if (t.sender_bounce == nullptr) return false;
  (void)enlist(t);
  t.transferred = 0;
  t.peer = source;
  if ((rts.flags & ReadyToSend::kEagerPack) == ReadyToSend::kEagerPack && start_eager_unpack(t, source, rts))
    return true;
  clear_to_send(t, source, rts.sender, ClearToSend::kThroughBounce);
  return true;
}

// Sender: announces packed chunks and packs further ones as chunks become free. Returns true if something
// progressed.
bool Engine::stream_bounce(Transfer& t) {
  BounceSend& bounce = *t.bounce;
  if (bounce.eager_pack_done) return release_eager_pack(t);
  bool progressed = false;
  for (BounceSend::Chunk& chunk : bounce.chunks) {
    if (chunk.announced) continue;
    auto packed = device::done(chunk.packed);
    if (!packed) return fail_bounce(t, std::move(packed).error());
    if (!*packed) break;  // in order, so that the receiver's copies run in order
    announce_chunk(t, chunk);
    progressed = true;
  }
  while (bounce.next < t.bytes && bounce.chunks.size() < BounceSend::kMaxChunks) {
    const auto reserved = bounce.arena->reserve();
    if (!reserved) break;
    const uint32_t number = *reserved;
    const size_t n = std::min<uint64_t>(bounce.arena->chunk, t.bytes - bounce.next);
    auto ticket = submit_part_out(view_of(*bounce.arena, number), view_of(t), bounce.next, n,
                                  stream_of(number, device::StreamRole::out));
    if (!ticket) {
      bounce.arena->release(number);
      return fail_bounce(t, std::move(ticket).error());
    }
    bounce.chunks.push_back({number, bounce.next, n, std::move(*ticket)});
    bounce.next += n;
    progressed = true;
  }
  if (t.transferred == t.bytes) t.enter(Transfer::State::done);
  return progressed;
}

void Engine::announce_chunk(const Transfer& t, BounceSend::Chunk& chunk) {
  const trace::Range range("p2p.announce_chunk");
  chunk.announced = true;
  BounceChunk message{};
  message.type = Type::chunk_ready;
  message.sender = t.id;
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.address = reinterpret_cast<uint64_t>(t.bounce->arena->at(chunk.number));
  message.size = chunk.size;
  message.number = chunk.number;
  post_control(t.peer, &message, sizeof message);
}

// The send fails: notifies the receiver, which reads no further chunk. Chunks being read are returned as
// usual. Packing in flight ends first, since it uses the buffer and chunks.
bool Engine::fail_bounce(Transfer& t, Error error) {
  BounceChunk message{};
  message.type = Type::chunk_ready;
  message.flags = BounceChunk::kFailed;
  message.sender = t.id;
  message.receiver = t.remote;
  post_control(t.peer, &message, sizeof message);
  t.outcome = std::move(error);
  t.bounce->next = t.bytes;
  std::erase_if(t.bounce->chunks, [&](BounceSend::Chunk& chunk) {
    if (chunk.announced) return false;
    (void)device::wait(chunk.packed);  // its error is known already
    t.transferred += chunk.size;       // never announced: the receiver does not return it
    t.bounce->release(chunk);
    return true;
  });
  if (t.bounce->chunks.empty()) t.enter(Transfer::State::done);
  return true;
}

// Receiver: reads a chunk into the receive buffer.
void Engine::on_chunk_ready(uint32_t source, const BounceChunk& chunk) {
  const trace::Range range("p2p.get_chunk");
  Transfer* const found = find_transfer(chunk.receiver, source, Transfer::State::receiving);
  if (found == nullptr) return;
  Transfer& t = *found;
  if (t.requested == ClearToSend::kPipelined)
    return on_fragment_announced(t, static_cast<const FragmentAnnouncement&>(chunk));
  const bool pinned = t.requested == ClearToSend::kAnnouncedChunks,
             failed = (chunk.flags & BounceChunk::kFailed) != 0;
  if ((!pinned && t.requested != ClearToSend::kThroughBounce) || (pinned && failed) ||
      pinned != ((chunk.flags & BounceChunk::kPinned) != 0))
    return drop_malformed();
  if (!failed && (chunk.size == 0 || chunk.size > t.expected || chunk.offset > t.expected - chunk.size ||
                  (!pinned && !t.sender_bounce->contains(chunk.address, chunk.size))))
    return drop_malformed();
  if (failed) {
    if (t.outcome) t.outcome = sender_failed();
    t.completion.bytes = t.transferred;
    t.expected = 0;
    if (t.bounce_gets == 0) finish_bounce_receive(t);
    return;
  }
  if (pinned) return read_pinned_chunk(t, source, chunk);
  const View from{static_cast<std::byte*>(t.sender_bounce->at(chunk.address)), nullptr, 0,
                  t.sender_bounce->memory()};
  auto ticket = submit_part(view_of(t), chunk.offset, from, chunk.size,
                            stream_of(chunk.number, device::StreamRole::in));
  BounceGet bounce_get{{}, &t, source, chunk};
  ++t.bounce_gets;
  if (!ticket) return finish_bounce_get(bounce_get, std::move(ticket).error());
  bounce_get.ticket = std::move(*ticket);
  bounce_gets_.push_back(std::move(bounce_get));
}

void Engine::finish_bounce_receive(Transfer& t) {
  importer().release(t.sender_bounce);
  t.sender_bounce = nullptr;
  peers_[t.peer].reply_due = true;
  complete(t);
}

bool Engine::poll_bounce_gets() {
  bool progressed = false;
  for (size_t i = 0; i < bounce_gets_.size();) {
    auto ready = device::done(bounce_gets_[i].ticket);
    if (ready && !*ready) {
      ++i;
      continue;
    }
    BounceGet bounce_get = std::move(bounce_gets_[i]);
    bounce_gets_.erase(bounce_gets_.begin() + static_cast<ptrdiff_t>(i));
    finish_bounce_get(bounce_get, ready ? Status{} : Status(std::move(ready).error()));
    progressed = true;
  }
  return progressed;
}

void Engine::finish_bounce_get(const BounceGet& bounce_get, Status outcome) {
  if (bounce_get.eager_pack) return finish_eager_unpack(bounce_get, std::move(outcome));
  BounceChunk reply = bounce_get.chunk;
  reply.type = Type::chunk_done;
  post_control(bounce_get.source, &reply, sizeof reply);
  Transfer& t = *bounce_get.receiver;
  if (!outcome && t.outcome) t.outcome = std::move(outcome);
  t.transferred += bounce_get.chunk.size;
  --t.bounce_gets;
  if (t.transferred >= t.expected && t.bounce_gets == 0) finish_bounce_receive(t);
}

// Sender: the receiver has returned a chunk.
void Engine::on_chunk_done(uint32_t source, const BounceChunk& chunk) {
  Transfer* const found = find_transfer(chunk.sender, source, Transfer::State::streaming);
  if (found == nullptr) return;
  Transfer& t = *found;
  if (t.remote_request) return on_fragment_done(t, chunk);
  if ((chunk.flags & BounceChunk::kPinned) != 0) return on_pinned_chunk_done(t, chunk);
  if (!t.bounce) return drop_malformed();
  const auto used =
      std::find_if(t.bounce->chunks.begin(), t.bounce->chunks.end(),
                   [&](const BounceSend::Chunk& one) { return one.announced && one.number == chunk.number; });
  if (used == t.bounce->chunks.end()) return drop_malformed();
  t.transferred += used->size;
  t.bounce->release(*used);
  t.bounce->chunks.erase(used);
  if (!t.outcome && t.bounce->chunks.empty()) t.transferred = t.bytes;  // after fail_bounce()
}

}  // namespace weft::p2p
