// SPDX-License-Identifier: BSD-3-Clause
// SlotChannel: the slot areas of a communicator's ranks in shared memory. All ranks use the same step
// numbers; in a step, some ranks publish data and other ranks wait for the data. Only blocking collectives
// take steps: MPI orders them, so one counter suffices. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "transport/shm/shm.hpp"

namespace weft::coll::host {

/// Data that a rank has published in one step.
struct Published {
  const std::byte* data;
  size_t size;
};

class SlotChannel final : public core::CollectiveState {
 public:
  static constexpr size_t kPageBytes = transport::shm::kPageBytes;
  static constexpr uint32_t kPipelineSteps =
      transport::shm::kPages / 2;  ///< steps published before the first is read

  explicit SlotChannel(core::Communicator& comm);
  ~SlotChannel() override;
  /// Collective, in MPI's order of collectives: leases a slot area and starts the allgather of the areas'
  /// numbers.
  [[nodiscard]] Status connect();
  /// True once that allgather has completed; open() is then equal on all ranks. Needs progress until then.
  [[nodiscard]] bool connected() { return exchange_ == nullptr || finish_exchange(); }
  /// Waits until connected(); returns the error of the allgather.
  /// Afterwards open() is false if a rank got no slot area.
  [[nodiscard]] Status wait_connected();
  [[nodiscard]] bool open() const { return !slot_areas_.empty(); }
  /// All ranks can read each other's memory with read_remote().
  [[nodiscard]] bool single_copy() const { return single_copy_; }
  /// At least one rank has a CUDA driver, so operands may be in GPU memory.
  [[nodiscard]] bool any_gpus() const { return any_gpus_; }

  /// Reserves the numbers of the next `steps` steps; returns the first.
  uint32_t reserve_steps(uint32_t steps) {
    const uint32_t first = next_;
    next_ += steps;
    return first;
  }
  /// Returns the slot or page for `size` bytes (at most kPageBytes) of this step, once no rank reads its
  /// earlier content. With all slots in use, waits until half of them are free: the cache lines of the
  /// acknowledgements then move once for many steps. A channel that breaks meanwhile returns private memory.
  std::byte* claim(uint32_t step, size_t size) {
    const bool small = size <= transport::shm::kSlotBytes;
    const uint32_t before = step - (small ? transport::shm::kSlots : transport::shm::kPages);
    if (static_cast<int32_t>(all_read_ - before) < 0) [[unlikely]] {
      wait_acknowledged(before, small && !instance_.oversubscribed ? transport::shm::kSlots / 2 : 0);
      if (broken()) return discarded_.get();
    }
    return small ? own().slots[step % transport::shm::kSlots].data : page(own(), step);
  }
  /// Makes the claimed `size` bytes of this step visible to all ranks. A broken channel publishes nothing:
  /// the slot may still be in use.
  void publish(uint32_t step, size_t size) {
    if (failure_ != nullptr) [[unlikely]]
      return;
    auto& slot = own().slots[step % transport::shm::kSlots];
    slot.size = static_cast<uint32_t>(size);
    slot.sequence.store(step, std::memory_order_release);
    if (instance_.oversubscribed) [[unlikely]]
      wake_waiting(&step);
  }
  /// Waits until rank `rank` has published this step. Returns stale data if the channel is broken.
  Published wait_published(int rank, uint32_t step) {
    transport::shm::SlotArea& area = *slot_areas_[static_cast<size_t>(rank)];
    auto& slot = area.slots[step % transport::shm::kSlots];
    wait_for(slot.sequence, step, rank);
    return {slot.size <= transport::shm::kSlotBytes ? slot.data : page(area, step), slot.size};
  }
  /// Waits until every rank has published this step, with one wake-up, if ranks sleep; else returns at once.
  void sleep_until_published(uint32_t step) {
    if (instance_.oversubscribed) [[unlikely]]
      sleep_until_all_published(step);
  }
  /// Publishes an empty step and waits for that of every rank.
  void barrier();
  /// Every rank is known to have read all steps up to `last`: each has published a step that it publishes
  /// only after it has read them. A rank reads a step some time after it has published the same step, and
  /// with several steps in flight after it has published later steps. Nothing is known of a broken channel.
  void all_have_read(uint32_t last) {
    if (failure_ == nullptr) [[likely]]
      all_read_ = last;
  }
  /// Stores that this rank has read everything up to this step. Each step is acknowledged, at once or in a
  /// batch, unless it is the only step of a collective in which all ranks publish: when kPages more steps
  /// have passed, each rank has acknowledged a later step or all ranks have arrived in one.
  void acknowledge(uint32_t step) {
    read_ = acknowledged_ = step;
    own().done.store(step, std::memory_order_release);
    wake_peers();
  }
  /// Acknowledges a step of `size` bytes for which no rank waits. Small steps are acknowledged in batches, at
  /// the latest before this rank waits itself.
  void acknowledge_batched(uint32_t step, size_t size) {
    read_ = step;
    if (step - acknowledged_ >= kMaxUnacknowledged || size > transport::shm::kSlotBytes ||
        instance_.oversubscribed)
      acknowledge(step);
  }
  /// Waits until every rank has acknowledged `step`. A rank that has not is awaited until it has acknowledged
  /// `extra_steps` more.
  void wait_acknowledged(uint32_t step, uint32_t extra_steps = 0);
  /// The slot area of a rank, also for nonblocking collectives (coll/gpu). After a store to its own area a
  /// rank calls wake_peers().
  [[nodiscard]] transport::shm::SlotArea& slot_area(int rank) const {
    return *slot_areas_[static_cast<size_t>(rank)];
  }
  void wake_peers() {
    if (instance_.oversubscribed) [[unlikely]]
      wake_waiting(nullptr);
  }

  /// True once a wait has ended because a rank has failed or the communicator is revoked. All later waits
  /// end at once.
  [[nodiscard]] bool broken() const { return failure_ != nullptr; }
  /// Breaks the channel if a rank has failed or the communicator is revoked. Returns broken().
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

 private:
  static std::byte* page(transport::shm::SlotArea& area, uint32_t step) {
    return area.pages[step % transport::shm::kPages];
  }
  [[nodiscard]] transport::shm::SlotArea& own() const { return *own_; }
  void wait_for(const std::atomic<uint32_t>& word, uint32_t value, int rank);
  void sleep_until_all_published(uint32_t step);
  [[nodiscard]] bool all_published(uint32_t step) const;
  template <class Done>
  void wait_or_sleep(uint32_t awaited, Done&& done);
  void wake_waiting(const uint32_t* published);
  bool check_new_failures();
  struct SlotAreaRecord {
    uint32_t slot_area, readable, devices;  // readable: this rank can read the memory of all others
  };
  [[nodiscard]] bool finish_exchange();
  void map_slot_areas();

  core::Instance& instance_;
  core::Communicator& comm_;
  transport::shm::Shm* const shm_;
  transport::shm::SlotArea* own_ = nullptr;
  std::vector<SlotAreaRecord> records_;     // during the allgather
  core::Request* exchange_ = nullptr;       // the allgather
  Status outcome_;                          // of the allgather
  std::unique_ptr<Error> failure_;          // of a rank
  std::unique_ptr<std::byte[]> discarded_;  // a page for data that a broken channel does not publish
  size_t changes_checked_ = 0;              // FailureDetector::changes() at the last check
  std::vector<transport::shm::SlotArea*> slot_areas_;  // by rank; empty: not open
  bool single_copy_ = false, any_gpus_ = false;
  static constexpr uint32_t kMaxUnacknowledged = transport::shm::kPages;  // claim() relies on this bound
  uint32_t next_ = 1;                                                     // number of the next step
  uint32_t read_ = 0;                                                     // last step that this rank has read
  uint32_t acknowledged_ = 0;  // last step that this rank has acknowledged
  uint32_t all_read_ = 0;      // last step that all ranks are known to have read
};

}  // namespace weft::coll::host
