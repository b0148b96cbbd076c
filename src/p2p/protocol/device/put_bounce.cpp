// SPDX-License-Identifier: BSD-3-Clause
// Puts through a bounce buffer of the receiver, if neither side's memory can be mapped (pools) or is mapped
// yet. A copy engine of the sender writes the data and then a flag. A kernel of the receiver waits for the
// flag and unpacks. If the kernel times out, the receiver copies after the sender's completion.
#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/stream_words.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/device/put.hpp"

namespace weft::p2p {
namespace {

using device::TileSync;
using Phase = ReadyToReceive::Phase;

counters::Counter bounce_puts("p2p.bounce_puts", counters::Unit::events,
                              "Of p2p.puts: into a bounce buffer of the receiver");

log::SlowPath timeout{"gpu.put_bounce_timeout",
                      "the message is copied out of the bounce buffer about 10 us later"};

}  // namespace

bool may_put_bounce(uint64_t capacity) {
  return capacity != 0 && capacity <= eager_pack_limit() && may_put(capacity);
}

/// Returns whether to open a bounce buffer beside a receive buffer that the sender can map. Messages of
/// collectives map at once.
bool PutProtocol::offers_bounce(const Transfer& t, uint32_t source) const {
  return engine_.peers[source].unmapped && may_put_bounce(t.bytes) && !t.in_collective() &&
         !core::MappingRule::maps_at_once();
}

void PutProtocol::advertise_bounce(const PutBounce& bounce, ReadyToReceive::BounceTarget& target) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const BouncePool::Arena& arena = *bounce.arena;
  target.address.store(reinterpret_cast<uint64_t>(arena.at(bounce.number)), kRelaxed);
  target.base.store(arena.memory.base, kRelaxed);
  target.buffer_id.store(arena.memory.buffer_id, kRelaxed);
  target.flag.store(arena.flags(bounce.number), kRelaxed);
  target.epoch.store(bounce.epoch, kRelaxed);
  target.incoming_bytes.store(0, kRelaxed);
  target.wants_region.store(0, kRelaxed);
}

/// A receive with a bounce buffer has ended.
void PutProtocol::end_offer(Transfer& t, uint32_t source, const ReadyToReceive::BounceTarget& target) {
  engine_.peers[source].unmapped = target.incoming_bytes.load(std::memory_order_relaxed) != 0;
  if (target.wants_region.load(std::memory_order_relaxed) != 0 && mappable(t))
    (void)engine_.regions.send(t, source);
}

/// Reserves chunks for the whole receive, which may wait long. Leaves enough chunks for a send of the same
/// size that is eagerly packed, and for requested messages. Does not allocate: an allocation would wait for
/// kernels that wait for this message.
bool PutProtocol::reserve_bounce(const Transfer& t, PutBounce& bounce) {
  BouncePool::Arena* const arena = engine_.bounce_pool.find(t.memory);
  if (arena == nullptr || !device::can_sync_tiles(t.memory)) return false;
  const auto count = static_cast<uint32_t>((t.bytes + arena->chunk - 1) / arena->chunk);
  if (arena->free < BouncePool::kReservedChunks + 2 * count) return false;
  const auto number = arena->reserve(count);
  if (!number) return false;
  bounce = {arena, *number, count, ++arena->epoch, PutBounce::Stage::open};
  return true;
}

/// Sender. Notifies the receiver before the copy starts, so that its kernel runs in time.
void PutProtocol::submit_to_bounce(const DeviceCopy& put, device::StreamRole stream) {
  const trace::Range range("p2p.submit_put_bounce");
  const Transfer& t = *put.request;
  ReadyToReceive::BounceTarget& target = put.rtr->bounce_target;
  const void* const word = put.mapping->at(target.flag.load(std::memory_order_relaxed));
  target.incoming_bytes.store(t.expected, std::memory_order_release);
  bounce_puts.add();
  engine_.instance.shm->notify(put.peer);
  auto ticket = device::copy_signal_async(put.remote, put.mapping->memory(), t.address, t.memory, t.expected,
                                          stream, reinterpret_cast<uint64_t>(word),
                                          target.epoch.load(std::memory_order_relaxed));
  if (!ticket) return finish(put, std::move(ticket).error());
  engine_.copies.track({std::move(*ticket), put, {}});
}

// Receiver.

/// Starts a kernel that waits for the data and unpacks them. Returns false if none can be started.
bool PutProtocol::start_unpack(const Transfer& t, PutBounce& bounce, uint64_t bytes) {
  bounce.waiting_kernel = engine_.bounce_pool.waiting_kernels.acquire();
  if (!bounce.waiting_kernel) return false;
  const trace::Range range("p2p.start_put_unpack");
  const TileSync tile_sync{TileSync::Role::consumes_all, device::sync_tile_bytes(bytes),
                           bounce.arena->flags(bounce.number), bounce.epoch};
  auto ticket = copy::submit_tile_sync(view_of(t), bounce.arena->view(bounce.number), bytes, tile_sync,
                                       device::StreamRole::in);
  bounce.stage = ticket ? PutBounce::Stage::unpacking : PutBounce::Stage::timed_out;
  if (!ticket) {
    bounce.waiting_kernel.release();
    return false;
  }
  bounce.unpacked = std::move(*ticket);
  return true;
}

/// Copies the complete data out of the bounce buffer.
static void copy_bounce(const Transfer& t, PutBounce& bounce, uint64_t bytes) {
  const trace::Range range("p2p.copy_put_bounce");
  auto ticket = copy::submit(view_of(t), bounce.arena->view(bounce.number), bytes, device::StreamRole::in);
  bounce.stage = ticket ? PutBounce::Stage::copying : PutBounce::Stage::done;
  if (ticket)
    bounce.unpacked = std::move(*ticket);
  else
    bounce.outcome = std::move(ticket).error();
}

/// Polls the kernel or copy that empties the bounce buffer. Returns false while it is in flight.
static bool poll_unpack(PutBounce& bounce) {
  using Stage = PutBounce::Stage;
  const bool by_kernel = bounce.stage == Stage::unpacking;
  if (!by_kernel && bounce.stage != Stage::copying) return true;
  auto ended = device::done(bounce.unpacked);
  if (ended && !*ended) return false;
  bounce.waiting_kernel.release();
  bounce.stage = Stage::done;
  if (ended) return true;
  if (by_kernel && ended.error().code() == Errc::again) {
    timeout.hit("the data did not arrive, or the GPU started no kernel, within 0.1 ms");
    bounce.stage = Stage::timed_out;
  } else {
    bounce.outcome = std::move(ended).error();
  }
  return true;
}

/// Progresses an advertised receive with a bounce buffer; it completes when both put and unpacking are done,
/// or when the sender has put the data into the receive buffer.
/// Returns false if nothing progressed.
bool PutProtocol::progress_bounce(Transfer& t, PutBounce& bounce, uint64_t state) {
  using Stage = PutBounce::Stage;
  if (!poll_unpack(bounce)) return false;
  const Phase phase = ReadyToReceive::phase_of(state);
  const ReadyToReceive& rtr = slot_at(t.advertised - 1u);
  const uint64_t incoming = rtr.bounce_target.incoming_bytes.load(std::memory_order_acquire);
  if (phase == Phase::claimed && bounce.stage == Stage::open)
    return incoming != 0 && start_unpack(t, bounce, incoming);
  if (phase == Phase::failed || (phase == Phase::written && (bounce.stage == Stage::done || incoming == 0))) {
    finish_advertised(t, state);
    return true;
  }
  if (phase != Phase::written) return false;
  copy_bounce(t, bounce, rtr.bytes.load(std::memory_order_relaxed));
  return true;
}

}  // namespace weft::p2p
