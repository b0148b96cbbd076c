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
  put.target->coming.store(t.expected, std::memory_order_release);
  shm_->ring(put.source);
  auto ticket = device::copy_told_async(put.theirs, put.mapping->memory(), t.address, t.memory, t.expected,
                                        lane, put.word, put.value);
  if (!ticket) return finish_put(put, std::move(ticket).error());
  copies_.push_back({std::move(*ticket), put, {}});
}

// The receiver's part.

/// By a kernel that waits for the data.
bool Engine::follow_aside(const Transfer& t, Aside& aside, uint64_t bytes) {
  if (following_ == kFollowing) return false;
  const trace::Range range("p2p.follow_aside");
  const View from{aside.area->at(aside.number), nullptr, 0, aside.area->memory};
  const Relay relay{Relay::Role::awaits_all, device::relay_tile(bytes), aside.area->flags(aside.number),
                    aside.epoch};
  auto ticket = submit_relayed(view_of(t), from, bytes, relay, device::Lane::in);
  if (!ticket) {
    aside.stage = Aside::Stage::late;
    return false;
  }
  aside.unpacked = std::move(*ticket);
  aside.stage = Aside::Stage::following;
  ++following_;
  return true;
}

/// What there is to do for a receive whose sender writes aside; it is complete when both are done. False: for
/// now nothing.
bool Engine::move_aside(Transfer& t, Aside& aside, uint64_t state) {
  using Stage = Aside::Stage;
  const Phase phase = ReadyToReceive::phase_of(state);
  const ReadyToReceive& ready = shm_->ready(instance.self, t.shown - 1u);
  if (aside.stage == Stage::following || aside.stage == Stage::copying) {
    auto ready_now = device::done(aside.unpacked);
    if (ready_now && !*ready_now) return false;
    const bool followed = aside.stage == Stage::following;
    if (followed) --following_;
    aside.stage = Stage::done;
    if (!ready_now && followed && ready_now.error().code() == Errc::again) {
      late.hit("the data did not come, or the GPU had no place for a kernel, within 0.1 ms");
      aside.stage = Stage::late;
    } else if (!ready_now) {
      aside.outcome = std::move(ready_now).error();
    }
  }
  if (aside.stage == Stage::open && phase == Phase::taken)
    if (const uint64_t bytes = ready.coming.load(std::memory_order_acquire); bytes != 0)
      return follow_aside(t, aside, bytes);
  if (phase != Phase::written && phase != Phase::failed) return false;
  if (aside.stage == Stage::done || phase == Phase::failed) {
    finish_shown(t, state);
    return true;
  }
  const trace::Range range("p2p.copy_aside");
  const View from{aside.area->at(aside.number), nullptr, 0, aside.area->memory};
  auto ticket =
      submit_part(view_of(t), 0, from, ready.bytes.load(std::memory_order_relaxed), device::Lane::in);
  aside.stage = ticket ? Stage::copying : Stage::done;
  if (ticket)
    aside.unpacked = std::move(*ticket);
  else
    aside.outcome = std::move(ticket).error();
  return true;
}

/// Nobody writes there, and nobody reads, any more.
void Engine::release_aside(Aside& aside) {
  if (aside.area != nullptr) aside.area->give_back(aside.number, aside.count);
  aside.area = nullptr;
}

}  // namespace weft::p2p
