// SPDX-License-Identifier: BSD-3-Clause
// Eager packing: a message that needs a bounce buffer is packed when it is sent, as one piece. The RTS goes
// out first and names the chunks; a kernel of the receiver unpacks tile by tile while the sender packs. If
// that times out, the receiver reads the packed chunks as usual (bounce.cpp).
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/device/bounce.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/device/protocols.hpp"

namespace weft::p2p {
namespace {

Received received{{"p2p.eager_pack_messages", counters::Unit::events,
                   "Messages received from a bounce buffer, packed at the send"},
                  {"p2p.eager_pack_bytes", counters::Unit::bytes,
                   "Bytes received from a bounce buffer, packed at the send"}};

using device::TileSync;

config::Size setting_max(
    "gpu.eager_pack_max", size_t{8} << 20, 0, size_t{1} << 30,
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

bool applicable(const MessageInfo& message) {
  return message.device && message.region && message.eager_pack && device_side(message.to);
}

// If no kernel can be started, the message is packed when the receiver requests it after its timeout.
void rts_posted(Engine&, Transfer& t) {
  const trace::Range range("p2p.start_eager_pack");
  auto& bounce = state_of<BounceSend>(t);
  BounceSend::Chunk& chunk = bounce.chunks.front();
  const auto number = static_cast<uint32_t>(chunk.number);
  const TileSync tile_sync{TileSync::Role::produces, tile_of(t, *bounce.arena), bounce.arena->flags(number),
                           bounce.epoch};
  auto ticket = copy::submit_tile_sync(bounce.arena->view(number), view_of(t), t.bytes, tile_sync,
                                       device::StreamRole::out);
  if (ticket) {
    chunk.filled = std::move(*ticket);
    return;
  }
  bounce.release(number, chunk.size);
  bounce.chunks.clear();
  bounce.next = 0;
}

// Receiver: starts a kernel that unpacks while the sender packs.
bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  const trace::Range range("p2p.start_eager_unpack");
  Limit::Use waiting_kernel = engine.bounce_pool.waiting_kernels.acquire();
  if (!waiting_kernel || !map_bounce(engine, t, kEagerPack, rts)) return false;
  auto& state = state_of<BounceReceive>(t);
  state.waiting_kernel = std::move(waiting_kernel);
  const EagerPack eager_pack = eager_pack_of(rts);
  const transport::cuda_ipc::Mapping& bounce = *state.mapping;
  if (!fits(eager_pack, bounce, rts.bytes)) {
    drop_malformed();
    return false;
  }
  const View from{static_cast<std::byte*>(bounce.at(eager_pack.address)), nullptr, 0, bounce.memory()};
  const TileSync tile_sync{TileSync::Role::consumes, static_cast<uint32_t>(eager_pack.tile),
                           reinterpret_cast<uint64_t>(bounce.at(eager_pack.flags)), eager_pack.epoch};
  auto ticket = copy::submit_tile_sync(view_of(t), from, rts.bytes, tile_sync, device::StreamRole::in);
  if (!ticket) return false;
  state.gets.push_back({std::move(*ticket), {}, engine.bounce_pool.gets.acquire()});
  return true;
}

// Receiver: the kernel has unpacked the message, or has timed out. Then the packed chunks are read as usual.
bool poll_unpack(Engine& engine, Transfer& t) {
  auto& state = state_of<BounceReceive>(t);
  auto unpacked = device::done(state.gets.front().ticket);
  if (unpacked && !*unpacked) return false;
  state.gets.clear();
  state.waiting_kernel.release();
  if (!unpacked && unpacked.error().code() == Errc::again) {
    timeout.hit("one of the two GPUs started no kernel within 0.1 ms");
    t.protocol = &kBounce;
    engine.rendezvous.clear_to_send(t, kBounce);
    return true;
  }
  engine.rendezvous.finish_sender(t.peer, t.remote, unpacked ? Reply::kConsumed : uint8_t{0});
  if (!unpacked) t.outcome = std::move(unpacked).error();
  finish_bounce_receive(engine, t);
  return true;
}

// Sender: releases the chunks and ends the send. Returns false while packing is in flight.
bool release(Transfer& t) {
  auto& bounce = state_of<BounceSend>(t);
  if (!bounce.chunks.empty()) {
    auto packed = device::done(bounce.chunks.front().filled);
    if (packed && !*packed) return false;
    if (!packed) t.outcome = std::move(packed).error();
    bounce.release(bounce.chunks.front().number, bounce.chunks.front().size);
    bounce.chunks.clear();
  }
  t.enter(Transfer::State::done);
  return true;
}

// Sender: unless the receiver has read the whole message, packing may still be in flight.
void finished(Engine& engine, Transfer& t, bool all_consumed) {
  auto& chunks = state_of<BounceSend>(t).chunks;
  if (all_consumed && !chunks.empty()) chunks.front().filled = {};
  if (release(t)) return engine.requests.complete(t);
  t.enter(Transfer::State::streaming);
  engine.requests.start_polling(t);
}

bool progress(Engine& engine, Transfer& t) {
  return t.kind == core::Request::Kind::send ? release(t) : poll_unpack(engine, t);
}

}  // namespace

constinit const Protocol kEagerPack{
    .name = "eager pack",
    .text = "packed into a GPU bounce buffer at the send, while a kernel of the receiver unpacks",
    .applicable = applicable,
    .copies = 2,
    .init = init,
    .received = &received,
    .rts_posted = rts_posted,
    .finished = finished,
    .progress = progress,
    .abort = abort_bounce};

uint64_t eager_pack_limit() {
  const size_t chunks = BouncePool::chunk_count();
  if (!device::kernels_may_wait() || chunks <= BouncePool::kReservedChunks) return 0;
  return std::min<uint64_t>(setting_max, (chunks - BouncePool::kReservedChunks) * BouncePool::chunk_bytes());
}

// Packing begins after the RTS has left.
size_t append_eager_pack(Transfer& t, ReadyToSend& rts, std::byte* out) {
  auto& bounce = state_of<BounceSend>(t);
  BouncePool::Arena& arena = *bounce.arena;
  const size_t count = arena.chunks_for(t.bytes);
  if (t.bytes > eager_pack_limit() || arena.free < BouncePool::kReservedChunks + count ||
      !device::can_sync_tiles(t.memory))
    return 0;
  const auto reserved = arena.reserve(count);
  if (!reserved) return 0;
  const uint32_t number = *reserved;
  bounce.epoch = ++arena.epoch;
  bounce.chunks.push_back({number, 0, t.bytes});
  bounce.next = t.bytes;
  t.protocol = &kEagerPack;
  rts.flags |= ReadyToSend::kEagerPack;
  const EagerPack eager_pack{reinterpret_cast<uint64_t>(arena.at(number)), arena.flags(number), bounce.epoch,
                             tile_of(t, arena)};
  std::memcpy(out, &eager_pack, sizeof eager_pack);
  return sizeof eager_pack;
}

}  // namespace weft::p2p
