// SPDX-License-Identifier: BSD-3-Clause
// Host side of the batch copy kernel: many copies in one cancellable launch.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <span>

#include "device/kernel/copy.hpp"
#include "device/queue/cancellable_launches.hpp"

namespace weft::device::cuda {

struct WorkQueue;

class BatchCopy {
 public:
  static constexpr size_t kSlots = 4;  ///< concurrent launches

  /// Allocates the launch slots in the queue's current context. Stays disabled without kernels, or if
  /// launches would block.
  void open(WorkQueue& queue);
  /// Waits for pending launches, with a timeout, and frees everything. The context must be current.
  void close();

  /// Whether a copy of this size may be part of a batch.
  [[nodiscard]] static bool accepts_size(size_t bytes);
  static constexpr size_t kMinCopies = 4;  ///< fewer copies go to copy engines
  /// Whether a batch of at least kMinCopies is within the limits; with `engines_busy`, the limit for busy
  /// copy engines applies.
  [[nodiscard]] bool accepts(std::span<const kernel::CopyItem> items, bool engines_busy = false) const;
  /// Launches the copies. Returns the number of the launch; 0 if there is no free slot: use copy engines.
  /// `to_peer`: the destinations are memory of another GPU.
  [[nodiscard]] uint32_t launch(std::span<const kernel::CopyItem> items, bool to_peer = false);
  /// State of a launch. `not_started`: cancelled; submit `items(number)` to copy engines.
  [[nodiscard]] Outcome poll(uint32_t number);
  /// Copies of a launch; valid until the next launch() after poll() returned not_started.
  [[nodiscard]] std::span<const kernel::CopyItem> items(uint32_t number) const;
  /// Sticky error of the launch's stream; kSuccess while the stream is healthy.
  [[nodiscard]] Code fault(uint32_t number) const;

 private:
  [[nodiscard]] CancellableLaunches::Slot& slot_of(uint32_t number) {
    return launches_.slot(number % kSlots);
  }

  std::mutex mutex_;
  WorkQueue* queue_ = nullptr;
  CancellableLaunches launches_;
  std::array<kernel::BatchCopyParams, kSlots> params_{};  // last launch of each slot
};

}  // namespace weft::device::cuda
