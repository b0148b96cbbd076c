// SPDX-License-Identifier: BSD-3-Clause
// Shared memory with other jobs: this process as a guest in their segments, and their processes in its own.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "transport/shm/shm.hpp"

namespace weft::transport::shm {
namespace {

constexpr uint32_t with_phase(uint32_t state, Guest::Phase phase) {
  return (state >> Guest::kPhaseBits << Guest::kPhaseBits) | phase;
}
constexpr uint32_t generation_of(uint32_t state) { return state >> Guest::kPhaseBits; }
Guest::Phase phase_of(uint32_t state) {
  return static_cast<Guest::Phase>(state & ((1U << Guest::kPhaseBits) - 1));
}

/// A process that was killed leaves its entry. Processes of other PID namespaces cannot be told.
bool abandoned(const Guest& guest, uint32_t state) {
  const uint64_t space = guest.pid_namespace.load();
  return phase_of(state) == Guest::ready && space != 0 && space == pid_namespace() &&
         ::kill(guest.pid.load(), 0) != 0 && errno == ESRCH;
}

/// Returns the index of an entry with a new generation, in the phase `claimed`.
std::optional<uint32_t> claim_entry(Header& header) {
  for (const bool of_dead_guests : {false, true})
    for (uint32_t i = 0; i < kMaxGuests; ++i) {
      const uint32_t index = header.next_guest.fetch_add(1, std::memory_order_relaxed) % kMaxGuests;
      Guest& guest = header.guests[index];
      uint32_t state = guest.state.load(std::memory_order_acquire);
      if (of_dead_guests ? !abandoned(guest, state) : phase_of(state) != Guest::free) continue;
      const uint32_t claimed =
          with_phase(state + (1U << Guest::kPhaseBits), Guest::claimed);  // the next generation
      if (guest.state.compare_exchange_strong(state, claimed)) return index;
    }
  return std::nullopt;
}

}  // namespace

Shm::OtherSegment* Shm::segment_of(const launch::JobId& job) const {
  for (const auto& other : other_segments_)
    if (other->job == job) return other.get();
  return nullptr;
}

Status Shm::add_segment(const launch::JobId& job, Segment segment, const launch::JobId& own, uint32_t rank) {
  WEFT_ASSERT(!has_segment(job));  // S11
  const auto index = claim_entry(segment.header());
  if (!index)
    return Error(Errc::other, "shared memory: " + std::to_string(kMaxGuests) +
                                  " processes of other jobs are connected to the job on this host: "
                                  "disconnect some");
  Guest& guest = segment.header().guests[*index];
  guest.claim.store(0, std::memory_order_relaxed);  // of a process that was killed
  guest.pid.store(::getpid(), std::memory_order_relaxed);
  guest.pid_namespace.store(pid_namespace(), std::memory_order_relaxed);
  for (size_t i = 0; i < own.words.size(); ++i) guest.job[i].store(own.words[i], std::memory_order_relaxed);
  guest.rank.store(rank, std::memory_order_relaxed);
  const uint32_t state = guest.state.load(std::memory_order_relaxed);
  guest.state.store(with_phase(state, Guest::ready), std::memory_order_release);
  if (segment.header().wakeups.load(std::memory_order_relaxed) != 0) wakeups_enabled_ = true;
  other_segments_.push_back(std::make_unique<OtherSegment>(
      OtherSegment{job, std::move(segment), *index, guest_source(generation_of(state), *index)}));
  return {};
}

Status Shm::add(Peer peer, const launch::JobId& job, uint32_t local_rank) {
  OtherSegment* const other = segment_of(job);
  WEFT_ASSERT(other != nullptr && !other_index_.contains(peer));  // S11
  if (local_rank >= other->segment.header().directory.ranks)
    return Error(Errc::arg, "the address names local rank " + std::to_string(local_rank) + " of " +
                                std::to_string(other->segment.header().directory.ranks) + " ranks");
  WEFT_TRY(compare_settings(other->segment.area(local_rank), peer));
  ++other->peers;
  const auto unused = std::find_if(out_.begin(), out_.end(), [](const Outgoing& o) { return !o.area; });
  const auto index = static_cast<uint32_t>(unused - out_.begin());
  if (unused == out_.end()) out_.emplace_back();
  Outgoing& out = out_[index];
  out = {};
  out.area = &other->segment.area(local_rank);
  out.other = other;
  out.claim = &other->segment.header().guests[other->guest].claim;
  out.receiver = local_rank;
  out.source = other->source;
  out.no_ring = true;
  other_index_.emplace(peer, index);
  return {};
}

void Shm::remove(Peer peer) {
  const auto known = other_index_.find(peer);
  if (known == other_index_.end()) return;
  Outgoing& out = out_[known->second];
  if (out.claimed != nullptr) out.claimed->owner.store(0, std::memory_order_release);  // never announced
  OtherSegment* const from = out.other;
  out = {};
  other_index_.erase(known);
  release_rings(peer);
  std::erase_if(guests_, [&](const auto& guest) { return guest.second == peer; });
  WEFT_ASSERT(from->peers != 0);  // S11
  if (--from->peers == 0) drop_segment(*from);
}

void Shm::drop_segment(OtherSegment& other) {
  auto& state = other.segment.header().guests[other.guest].state;
  WEFT_ASSERT(phase_of(state.load(std::memory_order_relaxed)) == Guest::ready);                        // T4
  WEFT_ASSERT(other.segment.header().guests[other.guest].claim.load(std::memory_order_relaxed) == 0);  // S4
  state.store(with_phase(state.load(std::memory_order_relaxed), Guest::free), std::memory_order_release);
  std::erase_if(other_segments_, [&](const auto& segment) { return segment.get() == &other; });
}

/// Makes the rings of a peer that has stopped sending usable by others: zeroed memory is an empty ring.
void Shm::release_rings(Peer peer) {
  std::erase_if(in_, [&](const Incoming& in) {
    if (in.source != peer) return false;
    std::memset(in.ring->data, 0, sizeof in.ring->data);
    in.ring->consumed.store(0, std::memory_order_relaxed);
    in.ring->owner.store(0, std::memory_order_release);
    return true;
  });
}

bool Shm::claimed_by_guest() const {
  const Header& header = segment_.header();
  const uint32_t used = std::min(header.next_guest.load(std::memory_order_acquire), kMaxGuests);
  return std::any_of(header.guests, header.guests + used, [&](const Guest& guest) {
    return guest.claim.load(std::memory_order_acquire) == claim_of(self_, head_) &&
           !abandoned(guest, guest.state.load(std::memory_order_acquire));
  });
}

// An entry is read once per guest. Its last message may be read after the guest has freed it. A late message
// of an earlier generation of the entry is dropped.
Peer Shm::guest_of(const QueueCell& cell, Receiver& receiver) {
  if (const auto known = guests_.find(cell.source); known != guests_.end()) return known->second;
  const uint32_t index = cell.source & 0xffff;
  if ((cell.source & kGuestBit) == 0 || index >= kMaxGuests) return kNoPeer;
  const Guest& guest = segment_.header().guests[index];
  const uint32_t state = guest.state.load(std::memory_order_acquire);
  if (phase_of(state) == Guest::claimed || guest_source(generation_of(state), index) != cell.source)
    return kNoPeer;
  const launch::JobId job{{guest.job[0].load(), guest.job[1].load()}};
  const Peer peer = receiver.find(job.tag(), guest.rank.load());
  if (peer != kNoPeer)
    guests_.emplace(cell.source, peer);
  else if (cell.size <= kMaxQueueMessage)
    static_cast<void>(receiver.unknown_source(kNoPeer, cell.payload, cell.size));
  return peer;
}

}  // namespace weft::transport::shm
