// SPDX-License-Identifier: BSD-3-Clause
// Receives that no peer can map (pools), shown to senders that cannot be mapped either: a copy engine of the
// sender writes into scratch of the receiver, whose kernel waits for the word behind the data and moves them
// to their place. What does not come in time is moved when the sender says that all is there.
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Relay;
using transport::shm::ReadyToReceive;
using Phase = ReadyToReceive::Phase;

config::Size setting_min(
    "gpu.put_aside_min", 0, 0, size_t{1} << 40,
    "Smallest receive in bytes on GPU memory that no peer can map (pools) that is shown to a sender whose "
    "memory is such, too, and which then writes it into GPU scratch of the receiver; gpu.pack_ahead at most");

log::SlowPath late{"gpu.aside_late", "the message is moved to its place some 10 us later"};

}  // namespace

bool may_put_aside(uint64_t room) {
  return room != 0 && room >= setting_min && room <= ahead_limit() && may_put(room);
}

/// Room for the whole receive, while enough is left for a send as large that is packed ahead, and for
/// messages that have been asked for: a receive may wait long. Allocates nothing, which would wait for a
/// kernel that waits for this message.
bool Engine::reserve_aside(const Transfer& t, Aside& aside) {
  ScratchPool::Area* const area = scratch_.find(t.memory);
  if (area == nullptr || !device::can_relay(t.memory)) return false;
  const auto count = static_cast<uint32_t>((t.bytes + area->chunk - 1) / area->chunk);
  if (area->free < ScratchPool::kReserve + 2 * count) return false;
  const auto number = area->take(count);
  if (!number) return false;
  aside = {area, *number, count, ++area->epoch, Aside::Stage::open, {}, {}};
  return true;
}

void Engine::show_aside(const Aside& aside, ReadyToReceive& ready) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  ready.flag.store(aside.area->flags(aside.number), kRelaxed);
  ready.epoch.store(aside.epoch, kRelaxed);
  ready.coming.store(0, kRelaxed);
}

/// The sender's part: the receiver hears of it first, so that its kernel is there in time.
void Engine::submit_aside(const Get& put, device::Lane lane) {
  const trace::Range range("p2p.submit_aside");
  const Transfer& t = *put.receiver;
  ReadyToReceive& ready = *put.target;
  const void* const word = put.mapping->at(ready.flag.load(std::memory_order_relaxed));
  ready.coming.store(t.expected, std::memory_order_release);
  shm_->ring(put.source);
  auto ticket =
      device::copy_told_async(put.theirs, put.mapping->memory(), t.address, t.memory, t.expected, lane,
                              reinterpret_cast<uint64_t>(word), ready.epoch.load(std::memory_order_relaxed));
  if (!ticket) return finish_put(put, std::move(ticket).error());
  copies_.push_back({std::move(*ticket), put, {}});
}

// The receiver's part.

/// Moved on by a kernel that waits for them.
bool Engine::follow_aside(const Transfer& t, Aside& aside, uint64_t bytes) {
  if (following_ == kFollowing) return false;
  const trace::Range range("p2p.follow_aside");
  const Relay relay{Relay::Role::awaits_all, device::relay_tile(bytes), aside.area->flags(aside.number),
                    aside.epoch};
  auto ticket =
      submit_relayed(view_of(t), view_of(*aside.area, aside.number), bytes, relay, device::Lane::in);
  aside.stage = ticket ? Aside::Stage::following : Aside::Stage::late;
  if (!ticket) return false;
  aside.unpacked = std::move(*ticket);
  ++following_;
  return true;
}

/// Moved on when all are there.
void Engine::copy_aside(const Transfer& t, Aside& aside, uint64_t bytes) {
  const trace::Range range("p2p.copy_aside");
  auto ticket = submit_part(view_of(t), 0, view_of(*aside.area, aside.number), bytes, device::Lane::in);
  aside.stage = ticket ? Aside::Stage::copying : Aside::Stage::done;
  if (ticket)
    aside.unpacked = std::move(*ticket);
  else
    aside.outcome = std::move(ticket).error();
}

/// Looks at what moves them on. False: it is under way.
bool Engine::look_aside(Aside& aside) {
  using Stage = Aside::Stage;
  const bool followed = aside.stage == Stage::following;
  if (!followed && aside.stage != Stage::copying) return true;
  auto ended = device::done(aside.unpacked);
  if (ended && !*ended) return false;
  if (followed) --following_;
  aside.stage = Stage::done;
  if (ended) return true;
  if (followed && ended.error().code() == Errc::again) {
    late.hit("the data did not come, or the GPU had no place for a kernel, within 0.1 ms");
    aside.stage = Stage::late;
  } else {
    aside.outcome = std::move(ended).error();
  }
  return true;
}

/// What there is to do for a receive whose sender writes aside: it is complete when both are done. False: for
/// now nothing.
bool Engine::move_aside(Transfer& t, Aside& aside, uint64_t state) {
  using Stage = Aside::Stage;
  if (!look_aside(aside)) return false;
  const Phase phase = ReadyToReceive::phase_of(state);
  const ReadyToReceive& ready = shm_->ready(instance.self, t.shown - 1u);
  if (phase == Phase::taken && aside.stage == Stage::open) {
    const uint64_t bytes = ready.coming.load(std::memory_order_acquire);
    return bytes != 0 && follow_aside(t, aside, bytes);
  }
  if (phase == Phase::failed || (phase == Phase::written && aside.stage == Stage::done)) {
    finish_shown(t, state);
    return true;
  }
  if (phase != Phase::written) return false;
  copy_aside(t, aside, ready.bytes.load(std::memory_order_relaxed));
  return true;
}

/// Nobody writes there, and nobody reads, any more.
void Engine::release_aside(Aside& aside) {
  if (aside.area != nullptr) aside.area->give_back(aside.number, aside.count);
  aside.area = nullptr;
}

}  // namespace weft::p2p
