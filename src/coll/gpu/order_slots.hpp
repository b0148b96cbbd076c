// SPDX-License-Identifier: BSD-3-Clause
// OrderSlots: the order in which all ranks of a communicator run the calls of their collective queues. Rank 0
// assigns order slots to calls that all ranks have entered; a call that all ranks have started with an empty
// queue takes the next slot without an assignment. Threading: under the instance lock.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/assert.hpp"
#include "base/explore.hpp"
#include "coll/host/slot_area.hpp"

namespace weft::coll::gpu {

/// Whether a number is `number` or a later one; numbers wrap.
inline bool at_or_after(uint32_t word, uint32_t number) { return static_cast<int32_t>(word - number) >= 0; }

// The first descriptors are a ring for nonblocking calls; each of the others belongs to one persistent call.
inline constexpr uint32_t kNonblockingSlots = host::kCallDescriptors / 2;
inline constexpr uint32_t kPersistentSlots = host::kCallDescriptors - kNonblockingSlots;

/// A call that waits for its order slot.
struct WaitingCall {
  static constexpr uint32_t kPersistentBit = 1U << 31;
  /// Of a nonblocking call: its number; of a persistent one: the bit and the slot of its descriptor.
  uint32_t key = 0;
  uint32_t starts = 0;            ///< persistent call: the start number that all ranks must reach; 0: done
  uint32_t uncontended_slot = 0;  ///< the next order slot if the queue was empty at the start, else 0
};

/// `Areas`: slot_area(rank) returns the SlotArea of a rank, and wake_peers() is called after each store to
/// it.
template <class Areas>
class OrderSlots {
 public:
  using SlotArea = host::SlotArea;
  OrderSlots(Areas& areas, int rank, int size) : areas_(areas), rank_(rank), size_(size) {}

  /// The lowest value of a word of all ranks.
  [[nodiscard]] uint32_t min_over_ranks(std::atomic<uint32_t> SlotArea::*word) const {
    uint32_t lowest = (areas_.slot_area(0).*word).load(std::memory_order_acquire);
    for (int rank = 1; rank < size_; ++rank) {
      explore::point();
      const uint32_t value = (areas_.slot_area(rank).*word).load(std::memory_order_acquire);
      if (!at_or_after(value, lowest)) lowest = value;
    }
    return lowest;
  }

  /// Publishes a start of a persistent call; `starts`: of the start before. `alone`: no other call waits.
  void start(WaitingCall& call, uint32_t starts, bool alone) {
    call.starts = next_start(starts);
    call.uncontended_slot = alone ? completed_ + 1 : 0;
    host::CallDescriptor& own = descriptor(rank_, call);
    std::memcpy(own.data + uncontended_offset(call.starts), &call.uncontended_slot, sizeof(uint32_t));
    explore::point();
    own.number.store(call.starts, std::memory_order_release);
    explore::point();
    areas_.wake_peers();
  }
  /// Number of the last start of a persistent call on this rank.
  [[nodiscard]] uint32_t starts_of(const WaitingCall& call) const {
    return descriptor(rank_, call).number.load(std::memory_order_relaxed);
  }

  // Rank 0.
  /// Assigns the next slot. Returns false if a rank may still read the word of that slot.
  bool assign(WaitingCall& call) {
    const uint32_t next = assigned_ + 1;
    if (!at_or_after(min_over_ranks(&SlotArea::finished), next - kOrderSlots)) return false;
    std::atomic<uint64_t>& word = areas_.slot_area(0).order_slots[next % kOrderSlots];
    WEFT_ASSERT(word.load(std::memory_order_relaxed) == SlotArea::kUnassigned ||  // G2
                at_or_after(min_over_ranks(&SlotArea::finished),
                            static_cast<uint32_t>(word.load(std::memory_order_relaxed) >> 32)));
    word.store(uint64_t{next} << 32 | call.key, std::memory_order_release);
    explore::point();
    areas_.wake_peers();
    assigned_ = next;
    call.starts = call.uncontended_slot = 0;
    return true;
  }
  /// Whether all ranks have reached the start of a persistent call.
  [[nodiscard]] bool started_on_all_ranks(const WaitingCall& call) const {
    for (int rank = 0; rank < size_; ++rank) {
      explore::point();
      if (!at_or_after(descriptor(rank, call).number.load(std::memory_order_acquire), call.starts))
        return false;
    }
    return true;
  }
  /// Before a slot is assigned: skips the slot that the first call of the queue takes by itself. Returns
  /// whether it did.
  bool pass_uncontended(WaitingCall& first) {
    if (first.starts == 0 || first.uncontended_slot == 0 || first.uncontended_slot != assigned_ + 1 ||
        !uncontended_on_all_ranks(first))
      return false;
    assigned_ = first.uncontended_slot;
    first.starts = 0;
    // All ranks have completed the slot before. An old assignment would be valid again 2^32 slots later.
    std::atomic<uint64_t>& word = areas_.slot_area(0).order_slots[assigned_ % kOrderSlots];
    explore::point();
    if (word.load(std::memory_order_relaxed) != SlotArea::kUnassigned)
      word.store(SlotArea::kUnassigned, std::memory_order_relaxed);
    return true;
  }

  /// Assigns slots to calls that all ranks have reached. `queue`: the calls of this rank, at least one;
  /// `unassigned`: its decided nonblocking calls without a slot. Returns whether a call got one.
  template <class Queue, class Calls>
  bool assign_slots(Queue& queue, Calls& unassigned) {
    bool progressed = pass_uncontended(queue.front());
    const auto first_left =
        std::find_if(unassigned.begin(), unassigned.end(), [&](auto* call) { return !assign(*call); });
    progressed |= first_left != unassigned.begin();
    unassigned.erase(unassigned.begin(), first_left);
    for (WaitingCall& call : queue) {
      if (call.starts == 0 || !started_on_all_ranks(call)) continue;
      progressed |= pass_uncontended(queue.front());  // all earlier starts are visible now
      if (call.starts != 0) progressed |= assign(call);
    }
    return progressed;
  }

  /// The key of the call of the next order slot, once all ranks have completed the slot before; nullopt: not
  /// yet. `first`: of the queue.
  [[nodiscard]] std::optional<uint32_t> next(const WaitingCall& first) const {
    const uint32_t number = completed_ + 1;
    // Rank 0 has skipped this slot, so the next assignment comes later.
    if (first.uncontended_slot != 0 && first.uncontended_slot == number &&
        (rank_ == 0 ? first.starts == 0 : uncontended_on_all_ranks(first)))
      return first.key;
    explore::point();
    const uint64_t word =
        areas_.slot_area(0).order_slots[number % kOrderSlots].load(std::memory_order_acquire);
    if (word >> 32 != number || !at_or_after(min_over_ranks(&SlotArea::finished), completed_))
      return std::nullopt;
    return static_cast<uint32_t>(word);
  }
  /// This rank begins the call that next() has returned.
  void begin() const { WEFT_ASSERT(at_or_after(min_over_ranks(&SlotArea::finished), completed_)); }  // G4
  /// This rank has ended it.
  void complete() {
    areas_.slot_area(rank_).finished.store(++completed_, std::memory_order_release);
    explore::point();
    areas_.wake_peers();
  }

 private:
  static constexpr uint32_t kOrderSlots = host::kCallDescriptors / 4;

  /// Number of the start after start `n`; never 0, which WaitingCall::starts keeps for other calls. Odd and
  /// even numbers alternate, also where they wrap.
  static constexpr uint32_t next_start(uint32_t n) { return n == UINT32_MAX ? 2 : n + 1; }
  /// Offset of WaitingCall::uncontended_slot in the descriptor of a persistent call. Two alternate, since a
  /// rank may be one start ahead of its peers.
  static constexpr size_t uncontended_offset(uint32_t starts) { return starts % 2 * sizeof(uint32_t); }
  static_assert(host::kCallDescriptorBytes >= 2 * sizeof(uint32_t));

  [[nodiscard]] host::CallDescriptor& descriptor(int rank, const WaitingCall& call) const {
    return areas_.slot_area(rank)
        .call_descriptors[kNonblockingSlots + (call.key & ~WaitingCall::kPersistentBit)];
  }
  /// Whether every rank started the persistent call with an empty queue, after the same order slot. Then the
  /// call takes the next slot without an assignment: every other start comes later.
  [[nodiscard]] bool uncontended_on_all_ranks(const WaitingCall& call) const {
    for (int rank = 0; rank < size_; ++rank) {
      const host::CallDescriptor& theirs = descriptor(rank, call);
      explore::point();
      if (!at_or_after(theirs.number.load(std::memory_order_acquire), call.starts)) return false;
      explore::point();
      uint32_t peer_slot;
      std::memcpy(&peer_slot, theirs.data + uncontended_offset(call.starts), sizeof peer_slot);
      explore::point();
      WEFT_ASSERT(!at_or_after(theirs.number.load(std::memory_order_acquire),  // G3
                               next_start(next_start(call.starts))));
      if (peer_slot != call.uncontended_slot) return false;
    }
    return true;
  }

  Areas& areas_;
  const int rank_, size_;
  // Last order slot assigned, completed.
  uint32_t assigned_ = host::kFirstCall, completed_ = assigned_;
};

}  // namespace weft::coll::gpu
