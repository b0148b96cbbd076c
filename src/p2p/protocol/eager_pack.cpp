// SPDX-License-Identifier: BSD-3-Clause
// Eager packing: a message that needs a bounce buffer is packed when it is sent, as one piece. The RTS goes
// out first and names the chunks; a kernel of the receiver unpacks tile by tile while the sender packs. If
// that times out, the receiver reads the packed chunks as usual (bounce.cpp).
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::TileSync;

config::Size setting_max(
    "gpu.eager_pack_max", size_t{4} << 20, 0, size_t{1} << 30,
    "Largest GPU message in bytes through a bounce buffer that is packed eagerly, when it is sent, while the "
    "receiver unpacks; at most what all chunks but three hold. 0: packed when the receiver requests it.");

log::SlowPath timeout{"gpu.eager_pack_timeout", "the message is unpacked again, after about 0.1 ms"};

/// Each chunk has flags of its own, so a message in several chunks has more tiles.
uint32_t tile_of(const Transfer& t, const BouncePool::Arena& arena) {
  return device::sync_tile_bytes(std::min<uint64_t>(t.bytes, arena.chunk));
}

/// Returns the EagerPack of an RTS.
EagerPack eager_pack_of(const ReadyToSend& rts) {
  EagerPack eager_pack;
  std::memcpy(&eager_pack, after_region(rts), sizeof eager_pack);
  return eager_pack;
}

/// Returns whether the packed bytes and the flags of all tiles lie within the sender's bounce buffer.
bool fits(const EagerPack& pack, const transport::cuda_ipc::Mapping& bounce, uint64_t bytes) {
  if (pack.tile == 0 || pack.tile > UINT32_MAX || pack.flags % sizeof(uint64_t) != 0) return false;
  const uint64_t tiles = (bytes - 1) / pack.tile + 1;
  return bounce.contains(pack.address, bytes) && bounce.contains(pack.flags, tiles * sizeof(uint64_t));
}

}  // namespace

uint64_t eager_pack_limit() {
  const size_t chunks = BouncePool::chunk_count();
  if (!device::kernels_may_wait() || chunks <= BouncePool::kReservedChunks) return 0;
  return std::min<uint64_t>(setting_max, (chunks - BouncePool::kReservedChunks) * BouncePool::chunk_bytes());
}

// Sender: reserves chunks and appends EagerPack. Packing begins after the RTS has left.
size_t Engine::append_eager_pack(Transfer& t, ReadyToSend& rts, std::byte* out) {
  BouncePool::Arena& arena = *t.bounce->arena;
  const size_t count = (t.bytes + arena.chunk - 1) / arena.chunk;
  if (t.bytes > eager_pack_limit() || arena.free < BouncePool::kReservedChunks + count ||
      !device::can_sync_tiles(t.memory))
    return 0;
  const auto reserved = arena.reserve(count);
  if (!reserved) return 0;
  const uint32_t number = *reserved;
  t.bounce->epoch = ++arena.epoch;
  t.bounce->chunks.push_back({number, 0, t.bytes, {}, false, static_cast<uint32_t>(count)});
  t.bounce->next = t.bytes;
  rts.flags |= ReadyToSend::kEagerPack;
  const EagerPack eager_pack{reinterpret_cast<uint64_t>(arena.at(number)), arena.flags(number),
                             t.bounce->epoch, tile_of(t, arena)};
  std::memcpy(out, &eager_pack, sizeof eager_pack);
  return sizeof eager_pack;
}

// If no kernel can be started, the message is packed when the receiver requests it after its timeout.
void Engine::start_eager_pack(Transfer& t) {
  const trace::Range range("p2p.start_eager_pack");
  BounceSend& bounce = *t.bounce;
  BounceSend::Chunk& chunk = bounce.chunks.front();
  const TileSync tile_sync{TileSync::Role::produces, tile_of(t, *bounce.arena),
                           bounce.arena->flags(chunk.number), bounce.epoch};
  auto ticket = submit_tile_sync(view_of(*bounce.arena, chunk.number), view_of(t), t.bytes, tile_sync,
                                 device::StreamRole::out);
  if (ticket) {
    chunk.packed = std::move(*ticket);
    return;
  }
  bounce.release(chunk);
  bounce.chunks.clear();
  bounce.next = 0;
}

// Receiver: starts unpacking while the sender packs. Returns false if that is not possible now.
bool Engine::start_eager_unpack(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.start_eager_unpack");
  if (waiting_kernels_ == kMaxWaitingKernels) return false;
  const EagerPack eager_pack = eager_pack_of(rts);
  const transport::cuda_ipc::Mapping& bounce = *t.sender_bounce;
  if (!fits(eager_pack, bounce, rts.bytes)) {
    drop_malformed();
    return false;
  }
  const View from{static_cast<std::byte*>(bounce.at(eager_pack.address)), nullptr, 0, bounce.memory()};
  const TileSync tile_sync{TileSync::Role::consumes, static_cast<uint32_t>(eager_pack.tile),
                           reinterpret_cast<uint64_t>(bounce.at(eager_pack.flags)), eager_pack.epoch};
  auto ticket = submit_tile_sync(view_of(t), from, rts.bytes, tile_sync, device::StreamRole::in);
  if (!ticket) return false;
  ++waiting_kernels_;
  ++t.bounce_gets;
  BounceGet bounce_get{std::move(*ticket), &t, source, {}, true};
  bounce_get.chunk.sender = rts.sender;
  bounce_gets_.push_back(std::move(bounce_get));
  return true;
}

void Engine::finish_eager_unpack(const BounceGet& bounce_get, Status outcome) {
  Transfer& t = *bounce_get.receiver;
  --waiting_kernels_;
  --t.bounce_gets;
  if (!outcome && outcome.error().code() == Errc::again) {
    timeout.hit("one of the two GPUs started no kernel within 0.1 ms");
    return clear_to_send(t, bounce_get.source, bounce_get.chunk.sender, ClearToSend::kThroughBounce);
  }
  finish_sender(bounce_get.source, bounce_get.chunk.sender, outcome ? Reply::kConsumed : uint8_t{0});
  if (!outcome) t.outcome = std::move(outcome);
  finish_bounce_receive(t);
}

// Sender: the receiver needs no more of the eagerly packed message. Unless the receiver has read all of it,
// packing may still be in flight.
void Engine::end_eager_pack(Transfer& t, bool all_consumed) {
  BounceSend& bounce = *t.bounce;
  if (all_consumed && !bounce.chunks.empty()) bounce.chunks.front().packed = {};
  bounce.eager_pack_done = true;
  release_eager_pack(t);
  if (t.state == Transfer::State::done) return complete(t);
  t.enter(Transfer::State::streaming);
  streaming_.push_back(&t);
}

/// Releases the chunks and ends the send. Returns false while packing is in flight.
bool Engine::release_eager_pack(Transfer& t) {
  BounceSend& bounce = *t.bounce;
  if (!bounce.chunks.empty()) {
    auto packed = device::done(bounce.chunks.front().packed);
    if (packed && !*packed) return false;
    if (!packed) t.outcome = std::move(packed).error();
    bounce.release(bounce.chunks.front());
    bounce.chunks.clear();
  }
  t.enter(Transfer::State::done);
  return true;
}

/// The receiver uses another protocol: waits for packing in flight before the chunks are reused.
void Engine::cancel_eager_pack(Transfer& t) {
  BounceSend& bounce = *t.bounce;
  if (bounce.chunks.empty()) return;
  if (auto waited = device::wait(bounce.chunks.front().packed); !waited)
    t.outcome = std::move(waited).error();
  bounce.release(bounce.chunks.front());
}

}  // namespace weft::p2p
