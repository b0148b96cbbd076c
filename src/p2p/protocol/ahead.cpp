// SPDX-License-Identifier: BSD-3-Clause
// Packing ahead: a message that has to go through scratch is packed when it is sent, as one piece. The
// ready-to-send goes out first and names the place; the receiver's kernel unpacks tile by tile what the
// sender's has packed. What does not come in time takes the ordinary way (scratch.cpp), from the same place.
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Relay;

config::Size setting_ahead(
    "gpu.pack_ahead", size_t{4} << 20, 0, size_t{1} << 30,
    "Largest GPU message in bytes, of those that go through scratch, that is packed "
    "when it is sent, while the receiver unpacks; as much as all chunks of scratch but three hold, at "
    "most. 0: packed when the receiver asks");

log::SlowPath late{"gpu.pack_late", "the message is unpacked again, after about 0.1 ms"};

/// Each chunk has flags of its own, so a message in several has more tiles.
uint32_t tile_of(const Transfer& t, const ScratchPool::Area& area) {
  return device::relay_tile(std::min<uint64_t>(t.bytes, area.chunk));
}

/// What a ready-to-send says of packing ahead.
Ahead ahead_of(const ReadyToSend& rts) {
  Ahead ahead;
  std::memcpy(&ahead, behind_region(rts), sizeof ahead);
  return ahead;
}

}  // namespace

uint64_t ahead_limit() {
  const size_t chunks = ScratchPool::chunk_count();
  if (!device::relays() || chunks <= ScratchPool::kReserve) return 0;
  return std::min<uint64_t>(setting_ahead, (chunks - ScratchPool::kReserve) * ScratchPool::chunk_bytes());
}

// Sender: reserves room and tells where. The packing begins when the message is on its way.
size_t Engine::append_ahead(Transfer& t, ReadyToSend& rts, std::byte* room) {
  ScratchPool::Area& area = *t.scratch->area;
  const size_t count = (t.bytes + area.chunk - 1) / area.chunk;
  if (t.bytes > ahead_limit() || area.free < ScratchPool::kReserve + count || !device::can_relay(t.memory))
    return 0;
  const auto taken = area.take(count);
  if (!taken) return 0;
  const uint32_t number = *taken;
  t.scratch->epoch = ++area.epoch;
  t.scratch->chunks.push_back({number, 0, t.bytes, {}, false, static_cast<uint32_t>(count)});
  t.scratch->next = t.bytes;
  rts.flags |= ReadyToSend::kAhead;
  const Ahead ahead{reinterpret_cast<uint64_t>(area.at(number)), area.flags(number), t.scratch->epoch,
                    tile_of(t, area)};
  std::memcpy(room, &ahead, sizeof ahead);
  return sizeof ahead;
}

// What cannot be packed so is packed when the receiver, who has waited in vain, asks for it.
void Engine::pack_ahead(Transfer& t) {
  const trace::Range range("p2p.pack_ahead");
  ScratchSend& scratch = *t.scratch;
  ScratchSend::Chunk& chunk = scratch.chunks.front();
  const Relay relay{Relay::Role::tells, tile_of(t, *scratch.area), scratch.area->flags(chunk.number),
                    scratch.epoch};
  auto ticket =
      submit_relayed(view_of(*scratch.area, chunk.number), view_of(t), t.bytes, relay, device::Lane::out);
  if (ticket) {
    chunk.packed = std::move(*ticket);
    return;
  }
  scratch.give_back(chunk);
  scratch.chunks.clear();
  scratch.next = 0;
}

// Receiver: unpacks while the sender packs. False: that is not possible for this message now.
bool Engine::follow_ahead(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.follow_ahead");
  if (following_ == kFollowing) return false;
  const Ahead ahead = ahead_of(rts);
  const transport::cuda_ipc::Mapping& scratch = *t.sender_scratch;
  const View from{static_cast<std::byte*>(scratch.at(ahead.address)), nullptr, 0, scratch.memory()};
  const Relay relay{Relay::Role::awaits, static_cast<uint32_t>(ahead.tile),
                    reinterpret_cast<uint64_t>(scratch.at(ahead.flags)), ahead.epoch};
  auto ticket = submit_relayed(view_of(t), from, rts.bytes, relay, device::Lane::in);
  if (!ticket) return false;
  ++following_;
  ++t.fetches;
  Fetch fetch{std::move(*ticket), &t, source, {}, true};
  fetch.chunk.sender = rts.sender;
  fetches_.push_back(std::move(fetch));
  return true;
}

void Engine::finish_ahead(const Fetch& fetch, Status outcome) {
  Transfer& t = *fetch.receiver;
  --following_;
  --t.fetches;
  if (!outcome && outcome.error().code() == Errc::again) {
    late.hit("one of the two GPUs had no place for a kernel within 0.1 ms");
    return clear_to_send(t, fetch.source, fetch.chunk.sender, ClearToSend::kThroughScratch);
  }
  finish_sender(fetch.source, fetch.chunk.sender, outcome ? Reply::kTaken : uint8_t{0});
  if (!outcome) t.outcome = std::move(outcome);
  finish_through_scratch(t);
}

// Sender: the receiver wants no more of what was packed ahead. When it has not read all, packing may still be
// under way.
void Engine::settle_ahead(Transfer& t, bool taken) {
  ScratchSend& scratch = *t.scratch;
  if (taken && !scratch.chunks.empty()) scratch.chunks.front().packed = {};
  scratch.finished = true;
  release_ahead(t);
  if (t.state == Transfer::State::done) return complete(t);
  t.state = Transfer::State::streaming;
  streaming_.push_back(&t);
}

/// True when the chunk is free again, and the send done.
bool Engine::release_ahead(Transfer& t) {
  ScratchSend& scratch = *t.scratch;
  if (!scratch.chunks.empty()) {
    auto packed = device::done(scratch.chunks.front().packed);
    if (packed && !*packed) return false;
    if (!packed) t.outcome = std::move(packed).error();
    scratch.give_back(scratch.chunks.front());
    scratch.chunks.clear();
  }
  t.state = Transfer::State::done;
  return true;
}

/// The receiver wants the message by another way: nothing may be writing to the chunk when it is used again.
void Engine::abandon_ahead(Transfer& t) {
  ScratchSend& scratch = *t.scratch;
  if (scratch.chunks.empty()) return;
  if (auto waited = device::wait(scratch.chunks.front().packed); !waited)
    t.outcome = std::move(waited).error();
  scratch.give_back(scratch.chunks.front());
}

}  // namespace weft::p2p
