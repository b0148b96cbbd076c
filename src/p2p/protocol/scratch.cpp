// SPDX-License-Identifier: BSD-3-Clause
// Device memory through GPU scratch: the sender packs chunks into memory that the receiver has mapped, the
// receiver fetches each into its place and gives it back. Packing, fetching and giving back overlap.
#include "p2p/scratch.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

config::Size setting_bytes("gpu.scratch_bytes", size_t{16} << 20, 0, size_t{4} << 30,
                           "GPU memory for packing messages that a peer cannot fetch as they lie, with its "
                           "flags, per GPU; allocated "
                           "on first use; 0: such messages are staged through the host");
config::Size setting_chunk("gpu.scratch_chunk", size_t{2} << 20, size_t{64} << 10, size_t{1} << 30,
                           "Bytes that are packed at a time");

/// Chunks take turns on two streams, so that the end of one overlaps the start of the next.
device::Lane lane_of(uint64_t chunk, device::Lane lane) { return chunk % 2 == 0 ? lane : device::Lane::aux; }

Error sender_failed() {
  return Error(Errc::other, "the sender of this message could not pack it on its GPU: see its error");
}

}  // namespace

ScratchPool::Area* ScratchPool::find(const device::Memory& near) const {
  for (const auto& area : areas_)
    if (area->memory.device == near.device &&
        (near.context == nullptr || near.context == area->memory.context))
      return area.get();
  return nullptr;
}

Result<ScratchPool::Area*> ScratchPool::area(const device::Memory& near) {
  if (Area* found = find(near)) return found;
  const size_t chunks = chunk_count();
  if (chunks == 0) return Error(Errc::unsupported, "WEFT_GPU_SCRATCH_BYTES holds no chunk: raise it");
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
  auto area = std::make_unique<Area>();
  area->memory = *memory;
  area->chunk = setting_chunk;
  area->chunks = chunks;
  area->used.resize(chunks);
  area->free = chunks;
  areas_.push_back(std::move(area));
  return areas_.back().get();
}

std::optional<uint32_t> ScratchPool::Area::take(size_t count) {
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

void ScratchPool::Area::give_back(uint32_t number, size_t count) {
  std::fill_n(used.begin() + static_cast<ptrdiff_t>(number), count, false);
  free += count;
}

size_t ScratchPool::chunk_bytes() { return setting_chunk; }
size_t ScratchPool::chunk_count() { return setting_bytes / (setting_chunk + kFlagBytes); }

void ScratchPool::close() {
  for (const auto& area : areas_) device::free_scratch(area->memory);
  areas_.clear();
}

// Receiver: maps the sender's scratch, for as long as the message takes, and asks for the first chunks.
// False: not possible for this message.
bool Engine::get_through_scratch(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_through_scratch");
  t.sender_scratch = map_region(t, source, rts);
  if (t.sender_scratch == nullptr) return false;
  t.moved = 0;
  t.peer = source;
  if ((rts.flags & ReadyToSend::kAhead) == ReadyToSend::kAhead && follow_ahead(t, source, rts)) return true;
  clear_to_send(t, source, rts.sender, ClearToSend::kThroughScratch);
  return true;
}

// Sender: offers what is packed, packs what there is room for. True when something moved.
bool Engine::stream_scratch(Transfer& t) {
  ScratchSend& scratch = *t.scratch;
  if (scratch.finished) return release_ahead(t);
  bool moved = false;
  for (ScratchSend::Chunk& chunk : scratch.chunks) {
    if (chunk.offered) continue;
    auto packed = device::done(chunk.packed);
    if (!packed) return fail_scratch(t, std::move(packed).error());
    if (!*packed) break;  // in order: the receiver's copies then run in order, too
    offer(t, chunk);
    moved = true;
  }
  while (scratch.next < t.bytes && scratch.chunks.size() < ScratchSend::kChunks) {
    const auto taken = scratch.area->take();
    if (!taken) break;
    const uint32_t number = *taken;
    const size_t n = std::min<uint64_t>(scratch.area->chunk, t.bytes - scratch.next);
    auto ticket = submit_part_out(view_of(*scratch.area, number), view_of(t), scratch.next, n,
                                  lane_of(number, device::Lane::out));
    if (!ticket) {
      scratch.area->give_back(number);
      return fail_scratch(t, std::move(ticket).error());
    }
    scratch.chunks.push_back({number, scratch.next, n, std::move(*ticket)});
    scratch.next += n;
    moved = true;
  }
  if (t.moved == t.bytes) t.state = Transfer::State::done;
  return moved;
}

void Engine::offer(const Transfer& t, ScratchSend::Chunk& chunk) {
  const trace::Range range("p2p.offer_scratch");
  chunk.offered = true;
  ScratchChunk message{};
  message.type = Type::scratch_ready;
  message.sender = reinterpret_cast<uint64_t>(&t);
  message.receiver = t.remote;
  message.offset = chunk.offset;
  message.address = reinterpret_cast<uint64_t>(t.scratch->area->at(chunk.number));
  message.size = chunk.size;
  message.number = chunk.number;
  post_control(t.peer, &message, sizeof message);
}

// The send fails; the receiver is told, and fetches nothing more. Chunks that it may be fetching come back as
// usual; packing that is under way ends first, since it reads the buffer and writes to chunks.
bool Engine::fail_scratch(Transfer& t, Error error) {
  ScratchChunk message{};
  message.type = Type::scratch_ready;
  message.flags = ScratchChunk::kFailed;
  message.sender = reinterpret_cast<uint64_t>(&t);
  message.receiver = t.remote;
  post_control(t.peer, &message, sizeof message);
  t.outcome = std::move(error);
  t.scratch->next = t.bytes;
  std::erase_if(t.scratch->chunks, [&](ScratchSend::Chunk& chunk) {
    if (chunk.offered) return false;
    (void)device::wait(chunk.packed);  // the error is known already
    t.moved += chunk.size;             // never offered: nobody gives it back
    t.scratch->give_back(chunk);
    return true;
  });
  if (t.scratch->chunks.empty()) t.state = Transfer::State::done;
  return true;
}

// Receiver: fetches a chunk into its place.
void Engine::on_scratch_ready(uint32_t source, const ScratchChunk& chunk) {
  const trace::Range range("p2p.fetch_scratch");
  auto& t = *reinterpret_cast<Transfer*>(chunk.receiver);
  if (t.crossing) return on_offer(t, static_cast<const KeyedChunk&>(chunk));
  if ((chunk.flags & ScratchChunk::kFailed) != 0) {
    if (t.outcome) t.outcome = sender_failed();
    t.completion.bytes = t.moved;
    t.expected = 0;
    if (t.fetches == 0) finish_through_scratch(t);
    return;
  }
  if ((chunk.flags & ScratchChunk::kPinned) != 0) return read_offer(t, source, chunk);
  const View from{static_cast<std::byte*>(t.sender_scratch->at(chunk.address)), nullptr, 0,
                  t.sender_scratch->memory()};
  auto ticket =
      submit_part(view_of(t), chunk.offset, from, chunk.size, lane_of(chunk.number, device::Lane::in));
  Fetch fetch{{}, &t, source, chunk};
  ++t.fetches;
  if (!ticket) return finish_fetch(fetch, std::move(ticket).error());
  fetch.ticket = std::move(*ticket);
  fetches_.push_back(std::move(fetch));
}

void Engine::finish_through_scratch(Transfer& t) {
  importer_->release(t.sender_scratch);
  t.sender_scratch = nullptr;
  peers_[t.peer].answers = true;
  complete(t);
}

bool Engine::poll_fetches() {
  bool moved = false;
  for (size_t i = 0; i < fetches_.size();) {
    auto ready = device::done(fetches_[i].ticket);
    if (ready && !*ready) {
      ++i;
      continue;
    }
    Fetch fetch = std::move(fetches_[i]);
    fetches_.erase(fetches_.begin() + static_cast<ptrdiff_t>(i));
    finish_fetch(fetch, ready ? Status{} : Status(std::move(ready).error()));
    moved = true;
  }
  return moved;
}

void Engine::finish_fetch(const Fetch& fetch, Status outcome) {
  if (fetch.ahead) return finish_ahead(fetch, std::move(outcome));
  ScratchChunk reply = fetch.chunk;
  reply.type = Type::scratch_done;
  post_control(fetch.source, &reply, sizeof reply);
  Transfer& t = *fetch.receiver;
  if (!outcome && t.outcome) t.outcome = std::move(outcome);
  t.moved += fetch.chunk.size;
  --t.fetches;
  if (t.moved >= t.expected && t.fetches == 0) finish_through_scratch(t);
}

// Sender: a chunk came back.
void Engine::on_scratch_done(const ScratchChunk& chunk) {
  auto& t = *reinterpret_cast<Transfer*>(chunk.sender);
  if (t.crossing) return on_offer_fetched(t, chunk);
  if ((chunk.flags & ScratchChunk::kPinned) != 0) return on_offer_done(t, chunk);
  std::erase_if(t.scratch->chunks, [&](const ScratchSend::Chunk& used) {
    if (used.number != chunk.number) return false;
    t.scratch->give_back(used);
    return true;
  });
  t.moved += chunk.size;
  if (!t.outcome && t.scratch->chunks.empty()) t.moved = t.bytes;  // after fail_scratch()
}

}  // namespace weft::p2p
