// SPDX-License-Identifier: BSD-3-Clause
// Advertised receives (ready to receive, RTR): a sender that finds an open RTR puts its message into the
// receive buffer, so the later side starts the copy. Correctness: docs/adr/0016.
#include <algorithm>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using transport::cuda_ipc::Mapping;
using transport::cuda_ipc::RegionName;
using transport::shm::ReadyToReceive;
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

constexpr uint64_t kSlowRtrWaitNs = 1500;  // minimum where an RTR takes long: see rtr_wait_of()
constexpr uint32_t kMaxMisses = 8;  // consecutive misses before only one in kRetryInterval attempts is made
constexpr uint32_t kRetryInterval = 32;

/// Returns whether to make another attempt after so many consecutive misses.
bool should_try(uint32_t& misses) { return misses < kMaxMisses || misses++ % kRetryInterval == 0; }

uint64_t envelope_of(const match::Key& key) {
  return static_cast<uint64_t>(static_cast<uint32_t>(key.source)) << 32 | static_cast<uint32_t>(key.tag);
}

/// Returns whether a peer can map the buffer of a contiguous transfer.
bool mappable(const Transfer& t) { return t.memory.shareable() && t.memory.covers(t.address, t.bytes); }

/// Returns whether a send may be put into a bounce buffer of its receiver.
bool uses_put_bounce(const Transfer& t) {
  return t.contiguous && t.memory.on_device() && !t.memory.shareable() && may_put_bounce(t.bytes);
}

/// Returns how long a send spins for an RTR, in ns. A bounce buffer takes two cache lines, and cuMemMap
/// memory one driver query per mapping. The alternatives are 3 us slower for both.
uint64_t rtr_wait_of(const Transfer& t) {
  const uint64_t usual = setting_rtr_wait;
  return uses_put_bounce(t) || t.memory.mapped ? std::max(usual, kSlowRtrWaitNs) : usual;
}

bool is_bounce(uint64_t state) { return ReadyToReceive::phase_of(state) == Phase::bounce; }
bool is_advertised(uint64_t state) {
  return ReadyToReceive::phase_of(state) == Phase::open || is_bounce(state);
}

uint32_t slot_of(const match::Key& key) {
  const uint64_t mixed = (key.context ^ envelope_of(key) * 0x9e3779b97f4a7c15ULL) * 0xc2b2ae3d27d4eb4fULL;
  return static_cast<uint32_t>(mixed >> 32) % transport::shm::kRtrSlots;
}

[[gnu::cold]] Error not_written() {
  return Error(Errc::other, "the sender's GPU could not write into the receive buffer: see its own error");
}

}  // namespace

bool may_put(uint64_t capacity) { return capacity <= setting_put_max && !setting_put.is("off"); }

// Receiver.

/// A receive may be advertised if its peer can map its GPU memory or a bounce buffer, its burst is short, and
/// it is the first to match the next message of its key.
bool Engine::may_advertise(const Transfer& t) const {
  if (!t.contiguous || batcher_.expects_burst()) return false;
  if (mappable(t) ? !may_put(t.bytes) : !t.memory.on_device() || !may_put_bounce(t.bytes)) return false;
  return t.key.source != match::kAny && t.key.tag != match::kAny && posted_.wildcards() == 0 &&
         posted_.first(t.key) == &t;
}

void Engine::advertise(Transfer& t) {
  if (shm_ == nullptr || !may_advertise(t)) return;
  const uint32_t slot = slot_of(t.key), source = t.comm->process(t.rank);
  if (advertised_[slot] != nullptr || source == instance.self) return;
  Peer& peer = peers_[source];
  if (peer.remote || peer.lost || (!should_try(peer.advertise_misses) && !setting_put.is("on"))) return;
  PutBounce& bounce = put_bounces_[slot];
  if (!mappable(t) && !reserve_put_bounce(t, bounce)) return;
  const device::Memory& memory = bounce.arena != nullptr ? bounce.arena->memory : t.memory;
  if (!send_region(t, memory, source)) return release_put_bounce(bounce);
  ReadyToReceive& rtr = shm_->rtr_slot(instance.self, slot);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (bounce.arena != nullptr) advertise_put_bounce(bounce, rtr);
  const void* const at = bounce.arena != nullptr ? bounce.arena->at(bounce.number) : t.address;
  rtr.context.store(t.key.context, kRelaxed);
  rtr.envelope.store(envelope_of(t.key), kRelaxed);
  rtr.seen.store(peer.arrived, kRelaxed);
  rtr.address.store(reinterpret_cast<uint64_t>(at), kRelaxed);
  rtr.bytes.store(t.bytes, kRelaxed);
  rtr.base.store(memory.base, kRelaxed);
  rtr.buffer_id.store(memory.buffer_id, kRelaxed);
  const uint64_t number = (rtr.state.load(kRelaxed) >> ReadyToReceive::kPhaseBits) + 1;
  rtr.state.store(
      number << ReadyToReceive::kPhaseBits | (bounce.arena != nullptr ? Phase::bounce : Phase::open),
      std::memory_order_release);
  advertised_[slot] = &t;
  advertised_mask_ |= uint32_t{1} << slot;
  t.advertised = static_cast<uint8_t>(slot + 1);
  advertised.add();
}

/// Sends the peer the region of an allocation, once. Returns false if the peer cannot map it.
bool Engine::send_region(Transfer& t, const device::Memory& memory, uint32_t to) {
  instance.memory->withdraw_freed();
  const bool own_buffer = &memory == &t.memory;
  if (own_buffer && t.persistent_buffer && region_still_known(t)) return true;
  alignas(8) std::byte storage[kMaxControl];
  auto& message = *new (storage) ReadyToSend{};
  message.type = Type::region;
  const auto size = append_export(memory, to, message, storage + sizeof message);
  if (!size) return false;
  if ((message.flags & ReadyToSend::kRegion) != 0) post_control(to, storage, sizeof message + *size);
  if (own_buffer && t.persistent_buffer) cache_region(t);
  return true;
}

void Engine::clear_advertised(Transfer& t) {
  const uint32_t slot = t.advertised - 1u;
  advertised_[slot] = nullptr;
  advertised_mask_ &= ~(uint32_t{1} << slot);
  t.advertised = 0;
  release_put_bounce(put_bounces_[slot]);
}

/// Retracts an advertised receive. Returns false if the sender has claimed it already.
bool Engine::retract(Transfer& t) {
  auto& state = shm_->rtr_slot(instance.self, t.advertised - 1u).state;
  uint64_t seen = state.load(std::memory_order_relaxed);
  if (!is_advertised(seen) ||
      !state.compare_exchange_strong(seen, ReadyToReceive::with_phase(seen, Phase::idle),
                                     std::memory_order_acquire))
    return false;
  clear_advertised(t);
  retracted.add();
  return true;
}

/// Retracts an advertised receive that another message matched here. Returns false if its sender has claimed
/// it for an earlier message. It has left the posted queue then, and completes when that put is done.
bool Engine::retract_matched(Transfer& t) {
  Peer& peer = peers_[t.comm->process(t.rank)];
  if (!retract(t)) return false;
  ++peer.advertise_misses;
  return true;
}

bool Engine::poll_advertised() {
  bool progressed = false;
  for (uint32_t rest = advertised_mask_; rest != 0; rest &= rest - 1) {
    const auto slot = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint64_t state = shm_->rtr_slot(instance.self, slot).state.load(std::memory_order_acquire);
    if (put_bounces_[slot].arena != nullptr) {
      progressed |= progress_put_bounce(*advertised_[slot], put_bounces_[slot], state);
      continue;
    }
    const Phase phase = ReadyToReceive::phase_of(state);
    if (phase != Phase::written && phase != Phase::failed) continue;
    finish_advertised(*advertised_[slot], state);
    progressed = true;
  }
  return progressed;
}

void Engine::finish_advertised(Transfer& t, uint64_t state) {
  ReadyToReceive& rtr = shm_->rtr_slot(instance.self, t.advertised - 1u);
  rtr.state.store(ReadyToReceive::with_phase(state, Phase::idle), std::memory_order_relaxed);
  Status outcome = std::move(put_bounces_[t.advertised - 1u].outcome);
  clear_advertised(t);
  if (t.queued) posted_.remove(t);
  const match::Key key = t.key;
  const uint32_t source = t.comm->process(t.rank);
  matched(t, source, key.source, key.tag, rtr.bytes.load(std::memory_order_relaxed));
  Peer& peer = peers_[source];
  peer.advertise_misses = 0;
  peer.reply_due = true;
  if (ReadyToReceive::phase_of(state) == Phase::failed) [[unlikely]] {
    t.completion.bytes = 0;
    complete(t, not_written());
  } else if (!outcome) [[unlikely]] {
    t.completion.bytes = 0;
    complete(t, std::move(outcome).error());
  } else {
    complete(t);
  }
  if (match::Node* next = posted_.first(key)) advertise(*static_cast<Transfer*>(next));
}

// Sender.

void Engine::record_sent(Peer& peer, const match::Key& key) { (*peer.last_sent)[slot_of(key)] = peer.sent; }

/// Returns the state of an RTR that this send may claim; 0: none. No message whose key has the same slot may
/// be in flight that the receiver had not seen when it advertised.
uint64_t Engine::find_advertised(const ReadyToReceive& rtr, const match::Key& key, const Transfer& t,
                                 const Peer& peer) {
  const uint64_t state = rtr.state.load(std::memory_order_acquire);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (!is_advertised(state) || (is_bounce(state) && !uses_put_bounce(t)) ||
      rtr.context.load(kRelaxed) != key.context || rtr.envelope.load(kRelaxed) != envelope_of(key))
    return 0;
  const bool first = (*peer.last_sent)[slot_of(key)] <= rtr.seen.load(kRelaxed);
  return first && t.bytes <= rtr.bytes.load(kRelaxed) ? state : 0;
}

/// Returns the mapping of the allocation of an advertised receive; null: unknown or not mappable.
Mapping* Engine::map_advertised(const Transfer& t, const ReadyToReceive& rtr) {
  const uint64_t base = rtr.base.load(std::memory_order_relaxed);
  const uint64_t buffer_id = rtr.buffer_id.load(std::memory_order_relaxed);
  if (t.persistent_buffer && t.persistent_buffer->mapping != nullptr) {
    const PersistentBuffer& known = *t.persistent_buffer;
    if (known.peer == t.peer && known.peer_region.base == base && known.peer_region.buffer_id == buffer_id &&
        known.closures == importer().closures()) {
      importer().retain(*known.mapping);
      return known.mapping;
    }
  }
  const auto* region = importer().find(t.peer, base, buffer_id);
  if (region == nullptr) return nullptr;
  auto mapping = instance.memory->open(t.peer, *region, nullptr, importing_memory(t));
  if (!mapping) return nullptr;
  if ((*mapping)->memory().device == t.memory.device) device::note_shared_device(t.memory.device);
  if (t.persistent_buffer) cache_mapping(t, t.peer, {base, buffer_id, region->epoch}, **mapping);
  return *mapping;
}

// Puts the message into an advertised receive. Returns false if nothing was done: send an RTS. If the send
// replies to the peer, it spins for the RTR for a short time. If gets from this peer are in flight, small
// messages are left to the peer: the resident kernel of this process would serialise both directions.
bool Engine::put(Transfer& t, Peer& peer) {
  const bool reply_due = std::exchange(peer.reply_due, false);
  if (peer.remote || peer.lost || !t.contiguous || setting_put.is("off")) return false;
  const auto is_get_from_peer = [&](const CopySubmission& submission) {
    return submission.copy.peer == t.peer && submission.copy.mapping != nullptr &&
           submission.copy.rtr == nullptr;
  };
  if (!submissions_.empty() && device::kernel_options_for(t.bytes).resident_blocks != 0 &&
      std::any_of(submissions_.begin(), submissions_.end(), is_get_from_peer))
    return false;
  const match::Key key{t.context, t.comm->rank(), t.tag};
  if (!peer.last_sent) {
    peer.last_sent = &last_sent_.emplace_back();
    peer.last_sent->fill(peer.sent);
  }
  ReadyToReceive& rtr = shm_->rtr_slot(t.peer, slot_of(key));
  uint64_t state = find_advertised(rtr, key, t, peer);
  if (state == 0 && reply_due && setting_rtr_wait != 0 && should_try(peer.rtr_misses)) {
    const uint64_t until = monotonic_ns() + rtr_wait_of(t);
    while ((state = find_advertised(rtr, key, t, peer)) == 0 && monotonic_ns() < until) {
    }
    peer.rtr_misses = state != 0 ? 0 : peer.rtr_misses + 1;
    rtr_waits.add();
    if (state == 0) rtr_timeouts.add();
  }
  if (state == 0) return false;
  const trace::Range range("p2p.put");
  Mapping* mapping = map_advertised(t, rtr);
  if (mapping == nullptr) return false;
  const uint64_t address = rtr.address.load(std::memory_order_relaxed);
  const bool bounce = is_bounce(state);
  if (!rtr.state.compare_exchange_strong(state, ReadyToReceive::with_phase(state, Phase::claimed),
                                         std::memory_order_acq_rel)) {
    importer().release(mapping);
    return false;
  }
  rtr.bytes.store(t.bytes, std::memory_order_relaxed);
  t.enter(Transfer::State::putting);
  (void)enlist(t);
  t.expected = t.bytes;
  put_messages.add();
  const DeviceCopy copy{&t, t.peer, 0, mapping, static_cast<std::byte*>(mapping->at(address)), &rtr, bounce};
  if (batching_)  // two copies in one submission take 3 us less than two submissions
    pending_puts_.push_back(copy);
  else
    submit_copy(copy, next_stream(device::StreamRole::out, device::StreamRole::aux));
  return true;
}

/// Retracts all advertised receives before the memory of this process is released. Receives claimed by a
/// sender stay its own.
void Engine::close_puts() {
  for (Transfer* t : advertised_)
    if (t != nullptr) (void)retract(*t);
}

void Engine::finish_put(const DeviceCopy& put, Status outcome) {
  importer().release(put.mapping);
  const uint64_t state = put.rtr->state.load(std::memory_order_relaxed);
  put.rtr->state.store(ReadyToReceive::with_phase(state, outcome ? Phase::written : Phase::failed),
                       std::memory_order_release);
  shm_->notify(put.peer);
  if (!outcome) return complete(*put.request, std::move(outcome).error());
  complete(*put.request);
}

}  // namespace weft::p2p
