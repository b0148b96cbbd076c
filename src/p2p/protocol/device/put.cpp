// SPDX-License-Identifier: BSD-3-Clause
// Advertised receives (ready to receive, RTR): a sender that finds an open RTR puts its message into the
// receive buffer, so the later side starts the copy. Correctness: docs/adr/0016.
#include "p2p/protocol/device/put.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/stream_words.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/engine/regions.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/device/protocols.hpp"

namespace weft::p2p {
namespace {

using transport::cuda_ipc::Mapping;
using transport::cuda_ipc::RegionName;
using Phase = ReadyToReceive::Phase;

config::Choice setting_put(
    "gpu.put", 0, {"auto", "on", "off"},
    "Advertise receives on GPU memory to their senders, which then put their messages into them: auto (less "
    "often to peers that do not use it), on, off.",
    "small and medium GPU messages are slower with advertised receives than without (off)");
config::Size setting_put_max(
    "gpu.put_max", size_t{16} << 20, 0, size_t{1} << 40,
    "Largest receive in bytes on GPU memory that is advertised to its sender: a copy engine reads "
    "large messages faster than it writes them.");
config::Size setting_rtr_wait("gpu.rtr_wait", 400, 0, 1'000'000,
                              "Time in nanoseconds that a GPU message in reply to the peer's last one spins "
                              "for the RTR before it sends its RTS; larger values make puts more likely.");

counters::Counter advertised("p2p.advertised_receives", counters::Unit::events,
                             "Receives on GPU memory advertised to their senders");
counters::Counter retracted("p2p.retracted_receives", counters::Unit::events,
                            "Advertised receives that were retracted");
counters::Counter put_messages("p2p.puts", counters::Unit::events,
                               "GPU messages put into an advertised receive");
counters::Counter rtr_waits("p2p.rtr_waits", counters::Unit::events, "Sends that waited for an RTR");
counters::Counter rtr_timeouts("p2p.rtr_timeouts", counters::Unit::events,
                               "Sends that waited for an RTR until the timeout");

counters::Counter declined("p2p.declined_receives", counters::Unit::events,
                           "Advertised receives that their senders have not used, since they had not mapped "
                           "the buffer yet");

// A put into a mapped buffer takes 0.5 to 1.4 us less than a get of mapped memory (bench/results/put.json),
// and 4 to 7 us less than a put into a bounce buffer (bench/results/pools.json).
constexpr uint64_t kPutGainNs = 1400, kPutBounceExtraNs = 6000;
constexpr uint64_t kSlowRtrWaitNs = 1500;  // minimum where an RTR takes long: see rtr_wait_of()
constexpr uint32_t kMaxMisses = 8;  // consecutive misses before only one in kRetryInterval attempts is made
constexpr uint32_t kRetryInterval = 32;

/// Returns whether to make another attempt after so many consecutive misses.
bool should_try(uint32_t& misses) { return misses < kMaxMisses || misses++ % kRetryInterval == 0; }

/// Returns whether a message is too large for the resident kernel.
bool by_copy_engine(uint64_t bytes) { return device::kernel_options_for(bytes).resident_blocks == 0; }

/// Misses are counted by executor: small messages that do not find a receive say little about large ones.
PutMisses& misses_of(Peer& peer, uint64_t bytes) { return peer.put_misses[by_copy_engine(bytes) ? 1 : 0]; }

/// Returns whether a send is put into a bounce buffer of its receiver, if it finds one: unless the receiver
/// has mapped the memory of the send, which it reads by one copy.
bool uses_put_bounce(Engine& engine, const Transfer& t) {
  return t.contiguous && t.memory.on_device() && may_put_bounce(t.bytes) &&
         (!mappable(t) || !engine.instance.memory->mapping_bought({t.peer, true, t.memory.buffer_id}));
}

/// Returns how long a send spins for an RTR, in ns. A bounce buffer takes two cache lines, and cuMemMap
/// memory one driver query per mapping. The alternatives are 3 us slower for both.
uint64_t rtr_wait_of(Engine& engine, const Transfer& t) {
  const uint64_t usual = setting_rtr_wait;
  return t.memory.mapped || uses_put_bounce(engine, t) ? std::max(usual, kSlowRtrWaitNs) : usual;
}

bool has_direct(uint64_t state) {
  const Phase phase = ReadyToReceive::phase_of(state);
  return phase == Phase::open || phase == Phase::either;
}
bool has_bounce(uint64_t state) {
  const Phase phase = ReadyToReceive::phase_of(state);
  return phase == Phase::bounce || phase == Phase::either;
}
bool is_advertised(uint64_t state) { return has_direct(state) || has_bounce(state); }

bool is_declined(uint64_t state) { return ReadyToReceive::phase_of(state) == Phase::declined; }

[[gnu::cold]] Error not_written() {
  return Error(Errc::other, "the sender's GPU could not write into the receive buffer: see its own error");
}

bool send(Engine& engine, Transfer& t) { return engine.puts->put(t); }
bool progress(Engine& engine, Transfer& t) { return engine.puts->poll(t); }

}  // namespace

constinit const Protocol kPut{
    .name = "put",
    .text = "the sender copies into the receive buffer, which its receiver has advertised",
    .send = send,
    .progress = progress};

bool may_put(uint64_t capacity) { return capacity <= setting_put_max && !setting_put.is("off"); }

uint32_t PutProtocol::self() const { return engine_.instance.self; }

ReadyToReceive& PutProtocol::slot_at(uint32_t slot) const {
  return rtr_slot(*engine_.instance.shm, self(), slot);
}

// Receiver.

/// A receive may be advertised if its peer can map its GPU memory or a bounce buffer, its burst is short, and
/// it is the first to match the next message of its key.
bool PutProtocol::may_advertise(const Transfer& t) const {
  if (!t.contiguous || engine_.copies.expects_burst()) return false;
  if (mappable(t) ? !may_put(t.bytes) : !t.memory.on_device() || !may_put_bounce(t.bytes)) return false;
  return t.key.source != match::kAny && t.key.tag != match::kAny &&
         engine_.delivery.posted().wildcards() == 0 && engine_.delivery.posted().first(t.key) == &t;
}

/// Opens what an RTR offers: the receive buffer, a bounce buffer, or both. Returns the phase; `idle`: neither
/// can be offered. With a bounce buffer, the region of the receive buffer is sent when the sender wants it.
ReadyToReceive::Phase PutProtocol::offer(Transfer& t, uint32_t source, PutBounce& bounce) {
  const bool direct = mappable(t);
  if (!direct || offers_bounce(t, source)) (void)reserve_bounce(t, bounce);
  if (bounce.arena != nullptr && !engine_.regions.send(bounce.arena->memory, source)) bounce.release();
  if (bounce.arena != nullptr) return direct ? Phase::either : Phase::bounce;
  return direct && engine_.regions.send(t, source) ? Phase::open : Phase::idle;
}

void PutProtocol::advertise(Transfer& t) {
  if (engine_.instance.shm == nullptr || !may_advertise(t)) return;
  const uint32_t slot = rtr_slot_of(t.key), source = t.comm->process(t.rank);
  if (advertised_[slot] != nullptr || source == self()) return;
  Peer& peer = engine_.peers[source];
  if (peer.remote || engine_.instance.failures.failed(source)) return;
  if (!should_try(misses_of(peer, t.bytes).advertised) && !setting_put.is("on")) return;
  PutBounce& bounce = bounces_[slot];
  const Phase phase = offer(t, source, bounce);
  if (phase == Phase::idle) return;
  ReadyToReceive& rtr = slot_at(slot);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  WEFT_ASSERT(ReadyToReceive::phase_of(rtr.state.load(kRelaxed)) == Phase::idle);  // P1
  if (bounce.arena != nullptr) advertise_bounce(bounce, rtr.bounce_target);
  rtr.context.store(t.key.context, kRelaxed);
  rtr.envelope.store(envelope_of(t.key), kRelaxed);
  rtr.seen.store(peer.arrived, kRelaxed);
  rtr.address.store(reinterpret_cast<uint64_t>(t.address), kRelaxed);
  rtr.bytes.store(t.bytes, kRelaxed);
  rtr.base.store(t.memory.base, kRelaxed);
  rtr.buffer_id.store(t.memory.buffer_id, kRelaxed);
  const uint64_t number = (rtr.state.load(kRelaxed) >> ReadyToReceive::kPhaseBits) + 1;
  rtr.state.store(number << ReadyToReceive::kPhaseBits | phase, std::memory_order_release);
  WEFT_ASSERT(t.queued && t.key.source != match::kAny && t.key.tag != match::kAny);  // M3
  advertised_[slot] = &t;
  t.advertised = static_cast<uint8_t>(slot + 1);
  t.use(kPut);
  engine_.requests.start_polling(t);
  advertised.add();
}

void PutProtocol::clear_advertised(Transfer& t) {
  const uint32_t slot = t.advertised - 1u;
  advertised_[slot] = nullptr;
  t.advertised = 0;
  engine_.requests.leave_protocol(t);
  bounces_[slot].release();
}

/// Retracts an advertised receive. Returns false if the sender has claimed it already.
bool PutProtocol::retract(Transfer& t) {
  auto& state = slot_at(t.advertised - 1u).state;
  uint64_t seen = state.load(std::memory_order_relaxed);
  while (is_advertised(seen) || is_declined(seen)) {
    if (!state.compare_exchange_strong(seen, ReadyToReceive::with_phase(seen, Phase::idle),
                                       std::memory_order_acquire))
      continue;  // declined meanwhile, or claimed
    clear_advertised(t);
    retracted.add();
    return true;
  }
  return false;
}

/// Retracts an advertised receive that another message matched here. Returns false if its sender has claimed
/// it for an earlier message. It has left the posted queue then, and completes when that put is done.
bool PutProtocol::retract_matched(Transfer& t) {
  Peer& peer = engine_.peers[t.comm->process(t.rank)];
  const uint64_t state = slot_at(t.advertised - 1u).state.load(std::memory_order_relaxed);
  if (!retract(t)) return false;
  if (!is_declined(state)) ++misses_of(peer, t.bytes).advertised;
  return true;
}

bool PutProtocol::poll(Transfer& t) {
  WEFT_ASSERT(t.advertised != 0);
  const uint32_t slot = t.advertised - 1u;
  const uint64_t state = slot_at(slot).state.load(std::memory_order_acquire);
  if (bounces_[slot].arena != nullptr) return progress_bounce(t, bounces_[slot], state);
  const Phase phase = ReadyToReceive::phase_of(state);
  if (phase != Phase::written && phase != Phase::failed) return false;
  finish_advertised(t, state);
  return true;
}

void PutProtocol::finish_advertised(Transfer& t, uint64_t state) {
  ReadyToReceive& rtr = slot_at(t.advertised - 1u);
  rtr.state.store(ReadyToReceive::with_phase(state, Phase::idle), std::memory_order_relaxed);
  PutBounce& bounce = bounces_[t.advertised - 1u];
  Status outcome = std::move(bounce.outcome);
  const uint32_t source = t.comm->process(t.rank);
  if (bounce.arena != nullptr) end_offer(t, source, rtr.bounce_target);
  clear_advertised(t);
  if (t.queued) engine_.delivery.posted().remove(t);
  const match::Key key = t.key;
  engine_.delivery.matched(t, source, key.source, key.tag, rtr.bytes.load(std::memory_order_relaxed));
  Peer& peer = engine_.peers[source];
  ++peer.puts_arrived;
  peer.arrived_bytes += t.completion.bytes;
  misses_of(peer, t.bytes).advertised = 0;
  peer.reply_due = true;
  if (ReadyToReceive::phase_of(state) == Phase::failed) [[unlikely]] {
    t.completion.bytes = 0;
    engine_.requests.complete(t, not_written());
  } else if (!outcome) [[unlikely]] {
    t.completion.bytes = 0;
    engine_.requests.complete(t, std::move(outcome).error());
  } else {
    engine_.requests.complete(t);
  }
  if (match::Node* next = engine_.delivery.posted().first(key)) advertise(*static_cast<Transfer*>(next));
}

void PutProtocol::abort_peer(uint32_t peer) {
  for (uint32_t slot = 0; slot < advertised_.size(); ++slot) {
    Transfer* const t = advertised_[slot];
    if (t == nullptr || t->comm->process(t->rank) != peer || retract(*t)) continue;
    auto& state = slot_at(slot).state;
    const uint64_t claimed = state.load(std::memory_order_acquire);
    if (ReadyToReceive::phase_of(claimed) != Phase::claimed) continue;  // the put has ended: poll()
    PutBounce& bounce = bounces_[slot];
    if (bounce.arena != nullptr) (void)device::wait(bounce.unpacked);
    state.store(ReadyToReceive::with_phase(claimed, Phase::idle), std::memory_order_relaxed);
    clear_advertised(*t);
    if (t->queued) engine_.delivery.posted().remove(*t);
    engine_.requests.complete(*t, loss_error(engine_.instance, peer));
  }
}

// Sender.

/// Returns the state of an RTR that this send may claim; 0: none. No message whose key has the same slot may
/// be in flight that the receiver had not seen when it advertised.
static uint64_t find_advertised(Engine& engine, const ReadyToReceive& rtr, const match::Key& key,
                                const Transfer& t, const Peer& peer) {
  const uint64_t state = rtr.state.load(std::memory_order_acquire);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (!is_advertised(state) || rtr.context.load(kRelaxed) != key.context ||
      rtr.envelope.load(kRelaxed) != envelope_of(key))
    return 0;
  const bool first = (*peer.last_sent)[rtr_slot_of(key)] <= rtr.seen.load(kRelaxed);
  if (!first || t.bytes > rtr.bytes.load(kRelaxed)) return 0;
  return has_direct(state) || uses_put_bounce(engine, t) ? state : 0;
}

/// Spins for the RTR, unless that keeps failing. Returns its state; 0: none in time.
static uint64_t wait_advertised(Engine& engine, const ReadyToReceive& rtr, const match::Key& key,
                                const Transfer& t, Peer& peer) {
  uint32_t& misses = misses_of(peer, t.bytes).rtr;
  if (!should_try(misses)) return 0;
  uint64_t state = 0;
  const uint64_t until = monotonic_ns() + rtr_wait_of(engine, t);
  while ((state = find_advertised(engine, rtr, key, t, peer)) == 0 && monotonic_ns() < until) {
  }
  misses = state != 0 ? 0 : misses + 1;
  rtr_waits.add();
  if (state == 0) rtr_timeouts.add();
  return state;
}

/// Returns the time in ns that a put saves, if the receive buffer is mapped for it: little if the receiver
/// can map the sender's memory instead. Memory whose messages would be staged is mapped at once.
static uint64_t put_gain_ns(Engine& engine, const Transfer& t, bool by_bounce) {
  if (by_bounce) return kPutBounceExtraNs;
  if (mappable(t)) return kPutGainNs;
  return engine.bounce_pool.arena(t.memory) ? bounce_extra_ns(t.bytes) : core::MappingRule::kNoOtherPath;
}

/// How a message reaches an advertised receive.
struct PutTarget {
  Mapping* mapping = nullptr;  ///< null: not at all
  uint64_t address = 0;        ///< in the receiver
  bool bounce = false;
};

/// Maps the receive buffer if that pays, else the bounce buffer of the receiver if it is open, too.
static PutTarget find_target(Engine& engine, const Transfer& t, ReadyToReceive& rtr, uint64_t state) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const uint64_t buffer_id = rtr.buffer_id.load(kRelaxed);
  const auto put_bounce = [&] { return has_bounce(state) && uses_put_bounce(engine, t); };
  if (has_direct(state)) {
    const uint64_t base = rtr.base.load(kRelaxed);
    Mapping* mapping = engine.regions.mapped(t, base, buffer_id);
    if (mapping == nullptr)
      mapping = engine.regions.map(t, base, buffer_id, put_gain_ns(engine, t, put_bounce()));
    if (mapping != nullptr) return {mapping, rtr.address.load(kRelaxed)};
  }
  if (!put_bounce()) return {};
  ReadyToReceive::BounceTarget& target = rtr.bounce_target;
  return {engine.regions.map(t, target.base.load(kRelaxed), target.buffer_id.load(kRelaxed),
                             core::MappingRule::kNoOtherPath),
          target.address.load(kRelaxed), true};
}

/// Gives an advertised receive back that this process does not use, so that the receiver counts no miss. If
/// the receiver retracts it meanwhile, nothing is to be done.
static void decline(ReadyToReceive& rtr, uint64_t state) {
  if (rtr.state.compare_exchange_strong(state, ReadyToReceive::with_phase(state, Phase::declined),
                                        std::memory_order_acq_rel))
    declined.add();
}

// Puts the message into an advertised receive. Returns false if nothing was done: send an RTS. If the send
// replies to the peer, it spins for the RTR for a short time. If gets from this peer are in flight, small
// messages are left to the peer: the resident kernel of this process would serialise both directions.
bool PutProtocol::put(Transfer& t) {
  Peer& peer = engine_.peers[t.peer];
  const bool reply_due = std::exchange(peer.reply_due, false);
  if (peer.remote || !t.contiguous || setting_put.is("off") || engine_.instance.failures.failed(t.peer))
    return false;
  const match::Key key{t.context, t.comm->rank(), t.tag};
  if (!peer.last_sent) {
    peer.last_sent = &last_sent_.emplace_back();
    peer.last_sent->fill(peer.sent);
  }
  ReadyToReceive& rtr = rtr_slot(*engine_.instance.shm, t.peer, rtr_slot_of(key));
  uint64_t state = find_advertised(engine_, rtr, key, t, peer);
  if (state == 0 && !reply_due) return false;
  if (engine_.copies.getting_from(t.peer) && !by_copy_engine(t.bytes)) return false;
  if (state == 0 && setting_rtr_wait != 0) state = wait_advertised(engine_, rtr, key, t, peer);
  if (state == 0) return false;
  const trace::Range range("p2p.put");
  const PutTarget target = find_target(engine_, t, rtr, state);
  const auto bought = [&] {
    const uint64_t buffer_id = rtr.buffer_id.load(std::memory_order_relaxed);
    return engine_.instance.memory->mapping_bought({t.peer, false, buffer_id});
  };
  if (target.mapping == nullptr) {
    if (device::for_stream() || !bought()) decline(rtr, state);
    return false;
  }
  if (!rtr.state.compare_exchange_strong(state, ReadyToReceive::with_phase(state, Phase::claimed),
                                         std::memory_order_acq_rel)) {
    engine_.importer().release(target.mapping);
    return false;
  }
  if (target.bounce) rtr.bounce_target.wants_region.store(bought() ? 1 : 0, std::memory_order_relaxed);
  rtr.bytes.store(t.bytes, std::memory_order_relaxed);
  t.enter(Transfer::State::putting);
  (void)engine_.requests.enlist(t);
  t.expected = t.bytes;
  put_messages.add();
  ++peer.puts;
  peer.sent_bytes += t.bytes;
  engine_.copies.start_put({&t, t.peer, 0, target.mapping,
                            static_cast<std::byte*>(target.mapping->at(target.address)), &rtr,
                            target.bounce});
  return true;
}

/// Retracts all advertised receives before the memory of this process is released. Receives claimed by a
/// sender stay its own.
void PutProtocol::close() {
  for (Transfer* t : advertised_)
    if (t != nullptr) (void)retract(*t);
}

void PutProtocol::finish(const DeviceCopy& put, Status outcome) {
  engine_.importer().release(put.mapping);
  const uint64_t state = put.rtr->state.load(std::memory_order_relaxed);
  WEFT_ASSERT(ReadyToReceive::phase_of(state) == Phase::claimed);  // P1
  put.rtr->state.store(ReadyToReceive::with_phase(state, outcome ? Phase::written : Phase::failed),
                       std::memory_order_release);
  engine_.instance.shm->notify(put.peer);
  if (!outcome) return engine_.requests.complete(*put.request, std::move(outcome).error());
  engine_.requests.complete(*put.request);
}

}  // namespace weft::p2p
