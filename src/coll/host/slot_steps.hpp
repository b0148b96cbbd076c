// SPDX-License-Identifier: BSD-3-Clause
// SlotSteps: data that ranks publish and read step by step in the slot areas of shared memory. All ranks use
// the same step numbers; in a step, some ranks publish data and other ranks wait for the data. Only blocking
// collectives take steps: MPI orders them, so one counter suffices. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/explore.hpp"
#include "base/result.hpp"
#include "coll/host/slot_area.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "transport/shm/shm.hpp"

namespace weft::coll::host {

/// Number of a step; never wraps.
using Step = uint64_t;

/// Data that a rank has published in one step.
struct Published {
  const std::byte* data;
  size_t size;
};

class SlotSteps {
 public:
  static constexpr size_t kPageBytes = host::kPageBytes;
  static constexpr uint32_t kPipelineSteps = kPages / 2;  ///< steps published before the first is read

  explicit SlotSteps(core::Communicator& comm);
  SlotSteps(const SlotSteps&) = delete;
  ~SlotSteps() = default;
  /// Sets the cleared slot areas of all ranks, by rank. Before the first step.
  void use(std::vector<SlotArea*> slot_areas);

  /// Reserves the numbers of the next `steps` steps; returns the first.
  Step reserve_steps(uint32_t steps) {
    const Step first = next_;
    next_ += steps;
    return first;
  }
  /// Returns the slot or page for `size` bytes (at most kPageBytes) of this step, once no rank reads its
  /// earlier content. With all slots in use, waits until half of them are free: the cache lines of the
  /// acknowledgements then move once for many steps. If the steps break meanwhile, returns private memory.
  std::byte* claim(Step step, size_t size) {
    explore::point();
    const bool small = size <= kSlotBytes;
    const Step before = step - (small ? kSlots : kPages);
    if (all_read_ < before) [[unlikely]] {
      wait_acknowledged(before, small && !instance_.oversubscribed ? kSlots / 2 : 0);
      if (broken()) return discarded_.get();
    }
    mark_claimed(step, small, before);
    explore::point();
    return small ? own().slots[step % kSlots].data : page(own(), step);
  }
  /// Makes the claimed `size` bytes of this step visible to all ranks. Broken steps are not published: the
  /// slot may still be in use.
  void publish(Step step, size_t size) {
    if (failure_ != nullptr) [[unlikely]]
      return;
    explore::point();
    auto& slot = own().slots[step % kSlots];
    slot.size = static_cast<uint32_t>(size);
    slot.sequence.store(step, std::memory_order_release);
    explore::point();
    if (instance_.oversubscribed) [[unlikely]]
      wake_waiting(&step);
  }
  /// Waits until rank `rank` has published this step. Returns stale data if the steps are broken.
  Published wait_published(int rank, Step step) {
    explore::point();
    SlotArea& area = *slot_areas_[static_cast<size_t>(rank)];
    auto& slot = area.slots[step % kSlots];
    if (!published(slot, step) && !broken()) [[unlikely]]
      await_published(slot, step, rank);
    explore::point();
    return {slot.size <= kSlotBytes ? slot.data : page(area, step), slot.size};
  }
  /// Waits until every rank has published this step, with one wake-up, if ranks sleep; else returns at once.
  void sleep_until_published(Step step) {
    if (instance_.oversubscribed) [[unlikely]]
      sleep_until_all_published(step);
  }
  /// Asserts that the data of this step, `size` bytes of rank `rank`, have not changed since they were
  /// published.
  void check_unchanged([[maybe_unused]] int rank, [[maybe_unused]] Step step,
                       [[maybe_unused]] size_t size) const {
#ifdef WEFT_ASSERTS
    assert_unchanged(rank, step, size);
#endif
  }
  /// This rank has read everything up to this step. Only for assertions: the other ranks need not know.
  void note_read([[maybe_unused]] Step step) const {
#ifdef WEFT_ASSERTS
    store_read(step);
#endif
  }
  /// Publishes an empty step and waits for that of every rank.
  void barrier();
  /// Every rank is known to have read all steps up to `last`: each has published a step that it publishes
  /// only after it has read them. A rank reads a step some time after it has published the same step, and
  /// with several steps in flight after it has published later steps. Nothing is known of broken steps.
  void all_have_read(Step last) {
    if (failure_ == nullptr) [[likely]]
      all_read_ = last;
  }
  /// This rank has read all steps up to `last`, in which all ranks publish, and all_have_read(first - 1).
  void exchanged(Step first, Step last) {
    all_have_read(first - 1);
    if (last != first)
      acknowledge(last);
    else
      note_read(last);
  }
  /// Stores that this rank has read everything up to this step. Every step is acknowledged, at once or in a
  /// batch, except a step in which all ranks publish and which is the only one of its group: who waits for an
  /// older step than the group before has passed kBatch / 2 more steps, which are acknowledged.
  void acknowledge(Step step) {
    note_read(step);
    read_ = acknowledged_ = step;
    explore::point();
    own().done.store(step, std::memory_order_release);
    explore::point();
    if (instance_.oversubscribed) [[unlikely]]
      wake_waiting(nullptr);
  }
  /// Acknowledges a step of `size` bytes for which no rank waits. Small steps are acknowledged in batches, at
  /// the latest before this rank waits itself.
  void acknowledge_batched(Step step, size_t size) {
    note_read(step);
    read_ = step;
    if (step - acknowledged_ >= kBatch || size > kSlotBytes || instance_.oversubscribed) acknowledge(step);
  }
  /// Before a wait: others may wait for what this rank has read, which would be a deadlock.
  void acknowledge_batch() {
    if (acknowledged_ != read_) acknowledge(read_);
  }
  /// Waits until every rank has acknowledged `step`. A rank that has not is awaited until it has acknowledged
  /// `extra_steps` more.
  void wait_acknowledged(Step step, uint32_t extra_steps = 0);

  /// True once a wait has ended because a rank has failed or the communicator is revoked. All later waits
  /// end at once.
  [[nodiscard]] bool broken() const { return failure_ != nullptr; }
  /// Breaks the steps if a rank has failed or the communicator is revoked. Returns broken().
  bool check_ranks() {
    if (instance_.failures.changes() == changes_checked_) [[likely]]
      return broken();
    return check_new_failures();
  }
  /// The failure. Precondition: broken().
  [[nodiscard]] Error failure() const { return failure_->copy(); }

  /// Copies `n` bytes from address `from` of rank `rank` to `to`. Errc::proc_aborted: the rank has given up
  /// the step, so the data are not certain.
  [[nodiscard]] Status read_remote(int rank, void* to, uint64_t from, size_t n);

 protected:
  [[nodiscard]] SlotArea& own() const { return *own_; }
  /// Wakes the ranks that wait for this rank or for anything. After publishing a step, the last rank also
  /// wakes the ranks that wait for all ranks.
  void wake_waiting(const Step* published);

  core::Instance& instance_;
  core::Communicator& comm_;
  transport::shm::Shm* const shm_;
  std::vector<SlotArea*> slot_areas_;  // by rank; empty: none

 private:
  static constexpr uint32_t kBatch = kPages;      // steps that one acknowledgement covers
  static constexpr Step kFirstStep = kSlots + 1;  // claim() subtracts kSlots

  static std::byte* page(SlotArea& area, Step step) { return area.pages[step % kPages]; }
  /// A rank publishes another step in this slot only after all ranks have acknowledged this one.
  static bool published(const Slot& slot, Step step) {
    return slot.sequence.load(std::memory_order_acquire) == step;
  }
  void await_published(const Slot& slot, Step step, int rank);
  void sleep_until_all_published(Step step);
  [[nodiscard]] bool all_published(Step step) const;
  template <class Done>
  void wait_or_sleep(uint32_t awaited, Done&& done);
  bool check_new_failures();
  // Builds with assertions.
  void mark_claimed([[maybe_unused]] Step step, [[maybe_unused]] bool small,
                    [[maybe_unused]] Step before) const {
#ifdef WEFT_ASSERTS
    assert_free(step, small, before);
#endif
  }
  void assert_free(Step step, bool small, Step before) const;
  void assert_unchanged(int rank, Step step, size_t size) const;
  void store_read(Step step) const;

  SlotArea* own_ = nullptr;
  std::unique_ptr<Error> failure_;          // of a rank
  std::unique_ptr<std::byte[]> discarded_;  // a page for data that broken steps do not publish
  size_t changes_checked_ = 0;              // FailureDetector::changes() at the last check
  Step next_ = kFirstStep;                  // number of the next step
  Step read_ = kFirstStep - 1;              // last step that this rank has read and acknowledges
  Step acknowledged_ = kFirstStep - 1;      // last step that this rank has acknowledged
  Step all_read_ = kFirstStep - 1;          // last step that all ranks are known to have read
};

}  // namespace weft::coll::host
