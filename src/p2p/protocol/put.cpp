// SPDX-License-Identifier: BSD-3-Clause
// Receives shown to their senders (ready to receive): a sender that finds one open writes into it, so whoever
// comes last drives the copy. Which receives are shown, and why a sender may be sure: docs/adr/0016.
#include <algorithm>

#include "base/clock.hpp"
#include "base/config.hpp"
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
    "Show receives on GPU memory to their sender, which then writes into them: auto (less where it came to "
    "nothing), on, off");
config::Size setting_put_min("gpu.put_min", 0, 0, size_t{1} << 40,
                             "Smallest receive on GPU memory in bytes that is shown to its sender");
config::Size setting_put_max(
    "gpu.put_max", size_t{16} << 20, 0, size_t{1} << 40,
    "Largest receive on GPU memory in bytes that is shown to its sender: a copy engine reads "
    "large ones faster than it writes them");
config::Size setting_put_wait(
    "gpu.put_wait", 400, 0, 1'000'000,
    "Nanoseconds that the answer to a GPU message waits for the receive to be shown before it is announced");

constexpr uint64_t kLongWait = 1500;           // ns at least, of some: see wait_of()
constexpr uint32_t kEnough = 8;                // in vain in a row: from then on only now and then
constexpr uint32_t kNowAndThen = 32;           // one of so many
constexpr uint64_t kRightAfter = 3000;         // ns between sends of a row, at most
constexpr uint64_t kHeld = uint64_t{1} << 20;  // bytes of a send that waits for the rest of its row

/// Whether to do again what came to nothing so many times in a row.
bool worth_it(uint32_t& in_vain) { return in_vain < kEnough || in_vain++ % kNowAndThen == 0; }

uint64_t envelope_of(const match::Key& key) {
  return static_cast<uint64_t>(static_cast<uint32_t>(key.source)) << 32 | static_cast<uint32_t>(key.tag);
}

/// A contiguous receive that others can write into.
bool mappable(const Transfer& t) { return t.memory.shareable() && t.memory.covers(t.address, t.bytes); }

/// A send that is written to scratch of its receiver, where that is shown.
bool goes_aside(const Transfer& t) {
  return t.contiguous && t.memory.on_device() && !t.memory.shareable() && may_put_aside(t.bytes);
}

/// Nanoseconds that a send waits for its receive to be shown. Scratch is told by two lines, and of a run of
/// cuMemMap memory the driver is asked mapping by mapping; the other ways are 3 us longer for both.
uint64_t wait_of(const Transfer& t) {
  const uint64_t usual = setting_put_wait;
  return goes_aside(t) || t.memory.mapped ? std::max(usual, kLongWait) : usual;
}

bool is_aside(uint64_t state) { return ReadyToReceive::phase_of(state) == Phase::aside; }
bool is_open(uint64_t state) { return ReadyToReceive::phase_of(state) == Phase::open || is_aside(state); }

uint32_t place_of(const match::Key& key) {
  const uint64_t mixed = (key.context ^ envelope_of(key) * 0x9e3779b97f4a7c15ULL) * 0xc2b2ae3d27d4eb4fULL;
  return static_cast<uint32_t>(mixed >> 32) % transport::shm::kReadies;
}

[[gnu::cold]] Error not_written() {
  return Error(Errc::other, "the sender's GPU could not write into the receive buffer: see its own error");
}

}  // namespace

bool may_put(uint64_t room) {
  return room >= setting_put_min && room <= setting_put_max && !setting_put.is("off");
}

// Receiver.

/// GPU memory that others map, or would map scratch instead of; small enough a row, the first to match what
/// its source sends next with its tag.
bool Engine::may_show(const Transfer& t) const {
  if (!t.contiguous || row_.last >= Row::kLeast) return false;
  if (mappable(t) ? !may_put(t.bytes) : !t.memory.on_device() || !may_put_aside(t.bytes)) return false;
  return t.key.source != match::kAny && t.key.tag != match::kAny && posted_.wildcards() == 0 &&
         posted_.first(t.key) == &t;
}

void Engine::show(Transfer& t) {
  if (shm_ == nullptr || !may_show(t)) return;
  const uint32_t place = place_of(t.key), source = t.comm->process(t.rank);
  if (shown_[place] != nullptr || source == instance.self) return;
  Peer& peer = peers_[source];
  if (peer.remote || (!worth_it(peer.untaken) && !setting_put.is("on"))) return;
  Aside& aside = asides_[place];
  if (!mappable(t) && !reserve_aside(t, aside)) return;
  const device::Memory& memory = aside.area != nullptr ? aside.area->memory : t.memory;
  if (!show_allocation(t, memory, source)) return release_aside(aside);
  ReadyToReceive& ready = shm_->ready(instance.self, place);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (aside.area != nullptr) show_aside(aside, ready);
  const void* const at = aside.area != nullptr ? aside.area->at(aside.number) : t.address;
  ready.context.store(t.key.context, kRelaxed);
  ready.envelope.store(envelope_of(t.key), kRelaxed);
  ready.seen.store(peer.arrived, kRelaxed);
  ready.address.store(reinterpret_cast<uint64_t>(at), kRelaxed);
  ready.bytes.store(t.bytes, kRelaxed);
  ready.base.store(memory.base, kRelaxed);
  ready.buffer_id.store(memory.buffer_id, kRelaxed);
  const uint64_t number = (ready.state.load(kRelaxed) >> ReadyToReceive::kPhaseBits) + 1;
  ready.state.store(
      number << ReadyToReceive::kPhaseBits | (aside.area != nullptr ? Phase::aside : Phase::open),
      std::memory_order_release);
  shown_[place] = &t;
  showing_ |= uint32_t{1} << place;
  t.shown = static_cast<uint8_t>(place + 1);
  ++put_counters_.shown;
}

/// The sender gets to know the allocation, once. False: it cannot be mapped.
bool Engine::show_allocation(Transfer& t, const device::Memory& memory, uint32_t to) {
  look_for_freed();
  const bool itself = &memory == &t.memory;
  if (itself && t.resolved && still_told(t)) return true;
  alignas(8) std::byte room[kMaxControl];
  auto& message = *new (room) ReadyToSend{};
  message.type = Type::region;
  const auto size = append_export(memory, to, message, room + sizeof message);
  if (!size) return false;
  if ((message.flags & ReadyToSend::kRegion) != 0) post_control(to, room, sizeof message + *size);
  if (itself && t.resolved) remember_export(t);
  return true;
}

void Engine::hide(Transfer& t) {
  const uint32_t place = t.shown - 1u;
  shown_[place] = nullptr;
  showing_ &= ~(uint32_t{1} << place);
  t.shown = 0;
  release_aside(asides_[place]);
}

/// False: the sender was quicker.
bool Engine::take_back(Transfer& t) {
  auto& state = shm_->ready(instance.self, t.shown - 1u).state;
  uint64_t seen = state.load(std::memory_order_relaxed);
  if (!is_open(seen) || !state.compare_exchange_strong(seen, ReadyToReceive::with_phase(seen, Phase::idle),
                                                       std::memory_order_acquire))
    return false;
  hide(t);
  ++put_counters_.taken_back;
  return true;
}

/// Of a shown receive that a message has matched here: whether it is this message's. If not, its sender has
/// taken it for an earlier one; it is out of the queue then, and completes as that says.
bool Engine::is_ours(Transfer& t) {
  Peer& peer = peers_[t.comm->process(t.rank)];
  if (!take_back(t)) return false;
  ++peer.untaken;
  return true;
}

bool Engine::poll_shown() {
  bool moved = false;
  for (uint32_t rest = showing_; rest != 0; rest &= rest - 1) {
    const auto place = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint64_t state = shm_->ready(instance.self, place).state.load(std::memory_order_acquire);
    if (asides_[place].area != nullptr) {
      moved |= move_aside(*shown_[place], asides_[place], state);
      continue;
    }
    const Phase phase = ReadyToReceive::phase_of(state);
    if (phase != Phase::written && phase != Phase::failed) continue;
    finish_shown(*shown_[place], state);
    moved = true;
  }
  return moved;
}

void Engine::finish_shown(Transfer& t, uint64_t state) {
  ReadyToReceive& ready = shm_->ready(instance.self, t.shown - 1u);
  ready.state.store(ReadyToReceive::with_phase(state, Phase::idle), std::memory_order_relaxed);
  Status outcome = std::move(asides_[t.shown - 1u].outcome);
  hide(t);
  if (t.queued) posted_.remove(t);
  const match::Key key = t.key;
  const uint32_t source = t.comm->process(t.rank);
  matched(t, source, key.source, key.tag, ready.bytes.load(std::memory_order_relaxed));
  Peer& peer = peers_[source];
  peer.untaken = 0;
  peer.answers = true;
  if (ReadyToReceive::phase_of(state) == Phase::failed) [[unlikely]] {
    t.completion.bytes = 0;
    complete(t, not_written());
  } else if (!outcome) [[unlikely]] {
    t.completion.bytes = 0;
    complete(t, std::move(outcome).error());
  } else {
    complete(t);
  }
  if (match::Node* next = posted_.first(key)) show(*static_cast<Transfer*>(next));
}

// Sender.

void Engine::note_sent(Peer& peer, const match::Key& key) { (*peer.sent_at)[place_of(key)] = peer.sent; }

/// The state of a receive that this send may be written into; 0: it may not. Nothing of its key, or of one
/// that shares its place, may be on its way that the receiver had not seen.
uint64_t Engine::open_receive(const ReadyToReceive& ready, const match::Key& key, const Transfer& t,
                              const Peer& peer) {
  const uint64_t state = ready.state.load(std::memory_order_acquire);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (!is_open(state) || (is_aside(state) && !goes_aside(t)) || ready.context.load(kRelaxed) != key.context ||
      ready.envelope.load(kRelaxed) != envelope_of(key))
    return 0;
  const bool first = (*peer.sent_at)[place_of(key)] <= ready.seen.load(kRelaxed);
  return first && t.bytes <= ready.bytes.load(kRelaxed) ? state : 0;
}

/// The allocation that a shown receive lies in; null: not known here, or not to be mapped.
Mapping* Engine::map_target(const Transfer& t, const ReadyToReceive& ready) {
  const uint64_t base = ready.base.load(std::memory_order_relaxed);
  const uint64_t buffer_id = ready.buffer_id.load(std::memory_order_relaxed);
  if (t.resolved && t.resolved->mapping != nullptr) {
    const Resolved& known = *t.resolved;
    if (known.peer == t.peer && known.theirs.base == base && known.theirs.buffer_id == buffer_id &&
        known.closures == importer().closures()) {
      importer().retain(*known.mapping);
      return known.mapping;
    }
  }
  const auto* region = importer().find(t.peer, base, buffer_id);
  if (region == nullptr) return nullptr;
  auto mapping = open_region(t.peer, *region, t);
  if (!mapping) return nullptr;
  if ((*mapping)->memory().device == t.memory.device) device::note_shared(t.memory.device);
  if (t.resolved) remember_mapping(t, t.peer, {base, buffer_id, region->epoch}, **mapping);
  return *mapping;
}

// Writes the message into a receive that its receiver shows. False: nothing was done, announce it. Where the
// receiver has answered so far, its receive is waited for a little: it comes at the time of this send. In an
// exchange whose other half is being fetched here, a small message is left to the peer: else this side's
// copier would do both, one after the other.
bool Engine::put(Transfer& t, Peer& peer) {
  const bool answers = std::exchange(peer.answers, false);
  if (peer.remote || !t.contiguous || setting_put.is("off")) return false;
  const auto fetches = [&](const DeviceCopy& copy) {
    return copy.get.source == t.peer && copy.get.mapping != nullptr && copy.get.target == nullptr;
  };
  if (!copies_.empty() && device::carriers_of(t.bytes).copier_blocks != 0 &&
      std::any_of(copies_.begin(), copies_.end(), fetches))
    return false;
  const match::Key key{t.context, t.comm->rank(), t.tag};
  if (!peer.sent_at) {
    peer.sent_at = &sent_at_.emplace_back();
    peer.sent_at->fill(peer.sent);
  }
  ReadyToReceive& ready = shm_->ready(t.peer, place_of(key));
  uint64_t state = open_receive(ready, key, t, peer);
  if (state == 0 && answers && setting_put_wait != 0 && worth_it(peer.late)) {
    const uint64_t until = monotonic_ns() + wait_of(t);
    while ((state = open_receive(ready, key, t, peer)) == 0 && monotonic_ns() < until) {
    }
    peer.late = state != 0 ? 0 : peer.late + 1;
    ++put_counters_.waits;
    if (state == 0) ++put_counters_.in_vain;
  }
  if (state == 0) return false;
  const trace::Range range("p2p.put");
  Mapping* mapping = map_target(t, ready);
  if (mapping == nullptr) return false;
  const uint64_t address = ready.address.load(std::memory_order_relaxed);
  const bool aside = is_aside(state);
  if (!ready.state.compare_exchange_strong(state, ReadyToReceive::with_phase(state, Phase::taken),
                                           std::memory_order_acq_rel)) {
    importer().release(mapping);
    return false;
  }
  ready.bytes.store(t.bytes, std::memory_order_relaxed);
  t.state = Transfer::State::matched;
  t.expected = t.bytes;
  ++put_counters_.puts;
  puts_.push_back({&t, t.peer, 0, mapping, static_cast<std::byte*>(mapping->at(address)), &ready, aside});
  if (!holds_puts()) submit_puts();
  put_row_.at = monotonic_ns();
  return true;
}

// Two copies in one submission take 3 us less than one after the other. So what is started together goes out
// together, and so do small messages where a program has posted as many right after each other, twice: with
// the last one of them, or when the program waits.
bool Engine::holds_puts() {
  PutRow& row = put_row_;
  if (row.now++ != 0 && monotonic_ns() - row.at > kRightAfter) row.quick = false;
  if (together_) return true;
  return row.quick && row.now < row.last && row.last == row.before && puts_.back().receiver->bytes <= kHeld;
}

void Engine::end_put_row() {
  if (!puts_.empty()) submit_puts();
  put_row_ = {0, put_row_.quick ? put_row_.now : 0, put_row_.last};
}

void Engine::submit_puts() {
  std::vector<Get> round;
  round.swap(puts_);
  for (size_t first = 0; first < round.size();) {
    const size_t count = joining(&round[first], round.size() - first);
    submit_batch(&round[first], count, next_lane(device::Lane::out));
    first += count;
  }
  round.clear();
  if (puts_.empty()) puts_.swap(round);  // its room
}

/// Before the memory of this process is let go. What a sender writes to by now is still its.
void Engine::end_puts() {
  for (Transfer* t : shown_)
    if (t != nullptr) (void)take_back(*t);
  const auto& count = put_counters_;
  if (count.shown + count.puts != 0)
    log::write(log::Level::debug,
               "receives shown to their senders: %llu, taken back %llu; sends that wrote into one: %llu; "
               "waits for one: %llu, in vain %llu",
               static_cast<unsigned long long>(count.shown),
               static_cast<unsigned long long>(count.taken_back), static_cast<unsigned long long>(count.puts),
               static_cast<unsigned long long>(count.waits), static_cast<unsigned long long>(count.in_vain));
}

void Engine::finish_put(const Get& put, Status outcome) {
  importer_->release(put.mapping);
  const uint64_t state = put.target->state.load(std::memory_order_relaxed);
  put.target->state.store(ReadyToReceive::with_phase(state, outcome ? Phase::written : Phase::failed),
                          std::memory_order_release);
  shm_->ring(put.source);
  if (!outcome) return complete(*put.receiver, std::move(outcome).error());
  complete(*put.receiver);
}

}  // namespace weft::p2p
