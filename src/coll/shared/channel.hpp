// SPDX-License-Identifier: BSD-3-Clause
// Channel: the lanes of a communicator's ranks in shared memory. Steps are numbered alike on all ranks; in
// each, some ranks show something and some wait for it. Used by blocking collectives only, which MPI orders,
// so that one counter is enough. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "transport/shm/shm.hpp"

namespace weft::coll::shared {

/// What a rank has shown.
struct Shown {
  const std::byte* data;
  size_t size;
};

class Channel final : public core::CollectiveState {
 public:
  static constexpr size_t kPageBytes = transport::shm::kPageBytes;
  static constexpr uint32_t kAhead = transport::shm::kPages / 2;  ///< steps shown before the first is read

  explicit Channel(core::Communicator& comm);
  ~Channel() override;
  /// Collective, in MPI's order of collectives: every rank leases a lane and begins to tell the others.
  [[nodiscard]] Status connect();
  /// True once it knows of all: open() is then the same on all ranks. While it is not, progress is needed.
  [[nodiscard]] bool settled();
  /// Waits for that; an error of the exchange.
  [[nodiscard]] Status settle();
  [[nodiscard]] bool open() const { return !lanes_.empty(); }
  /// All ranks can read each other's memory by get().
  [[nodiscard]] bool direct() const { return direct_; }
  /// Some rank has GPUs: operands may be in their memory.
  [[nodiscard]] bool mixed() const { return mixed_; }

  /// Takes the numbers of the next `steps` steps; returns the first.
  uint32_t begin(uint32_t steps) {
    const uint32_t first = next_;
    next_ += steps;
    return first;
  }
  /// Room to show `size` bytes (kPageBytes at most) in a step; waits until nobody reads what was there
  /// before. When slots have run out, until half of them are free: the words that say so change hands once
  /// for many steps.
  std::byte* claim(uint32_t step, size_t size) {
    const bool small = size <= transport::shm::kSlotBytes;
    const uint32_t before = step - (small ? transport::shm::kSlots : transport::shm::kPages);
    if (static_cast<int32_t>(all_done_ - before) < 0) [[unlikely]]
      await_done(before, small && !instance_.oversubscribed ? transport::shm::kSlots / 2 : 0);
    return small ? own().slots[step % transport::shm::kSlots].data : page(own(), step);
  }
  void show(uint32_t step, size_t size) {
    auto& slot = own().slots[step % transport::shm::kSlots];
    slot.size = static_cast<uint32_t>(size);
    slot.sequence.store(step, std::memory_order_release);
    tell();
  }
  /// Waits until rank `rank` has shown something in this step.
  Shown await(int rank, uint32_t step) {
    transport::shm::Lane& lane = *lanes_[static_cast<size_t>(rank)];
    auto& slot = lane.slots[step % transport::shm::kSlots];
    reach(slot.sequence, step);
    return {slot.size <= transport::shm::kSlotBytes ? slot.data : page(lane, step), slot.size};
  }
  /// Shows nothing and waits for all to do so.
  void meet();
  /// This rank has seen something of all others in this step: they have read everything before it.
  void met(uint32_t step) { all_done_ = step - 1; }
  /// This rank has read what it reads in this step and before. Unnecessary where all meet.
  void done(uint32_t step) {
    done_ = told_ = step;
    own().done.store(step, std::memory_order_release);
    tell();
  }
  /// The same for a step of `size` bytes that nobody awaits in particular: of small ones the others are told
  /// once for some steps, and before this rank waits for anything.
  void passed(uint32_t step, size_t size) {
    done_ = step;
    if (step - told_ >= kUntold || size > transport::shm::kSlotBytes || instance_.oversubscribed) done(step);
  }
  /// Waits until that rank, or all, are done() with a step; those that are not yet, with so many more.
  void await_done(int rank, uint32_t step) { reach(lanes_[static_cast<size_t>(rank)]->done, step); }
  void await_done(uint32_t step, uint32_t further = 0);
  /// The lane of a rank, for what is not blocking (coll/gpu), and telling others that something was stored
  /// there.
  [[nodiscard]] transport::shm::Lane& lane(int rank) const { return *lanes_[static_cast<size_t>(rank)]; }
  void tell() {
    if (instance_.oversubscribed && shm_->anyone_sleeps()) [[unlikely]]
      ring();
  }

  /// This rank's pages as one room: when all have met.
  [[nodiscard]] std::byte* pages() const { return own().pages[0]; }
  /// Copies `n` bytes at `from` in rank `rank`'s memory.
  [[nodiscard]] Status get(int rank, void* to, uint64_t from, size_t n);

 private:
  static std::byte* page(transport::shm::Lane& lane, uint32_t step) {
    return lane.pages[step % transport::shm::kPages];
  }
  [[nodiscard]] transport::shm::Lane& own() const { return *own_; }
  void reach(const std::atomic<uint32_t>& word, uint32_t value);
  void ring();
  struct Offer {
    uint32_t lane, readable, devices;
  };
  void meet_all();

  core::Instance& instance_;
  core::Communicator& comm_;
  transport::shm::Shm* const shm_;
  transport::shm::Lane* own_ = nullptr;
  std::vector<Offer> offers_;                 // while they are exchanged
  core::Request* exchange_ = nullptr;         // that
  Status outcome_;                            // of that
  std::vector<transport::shm::Lane*> lanes_;  // by rank; empty: closed
  bool direct_ = false, mixed_ = false;
  static constexpr uint32_t kUntold = transport::shm::kPages;  // claim() counts on it
  uint32_t next_ = 1;                                          // step
  uint32_t done_ = 0;                                          // what this rank has read
  uint32_t told_ = 0;                                          // as the others see it
  uint32_t all_done_ = 0;  // all ranks are known to have read up to this step
};

}  // namespace weft::coll::shared
