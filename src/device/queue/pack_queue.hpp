// SPDX-License-Identifier: BSD-3-Clause
// Host side of cancellable pack kernels (kernel/pack.hpp). Jobs without a free slot wait in a queue.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>

#include "device/kernel/pack.hpp"
#include "device/pack.hpp"
#include "device/queue/cancellable_launches.hpp"

namespace weft::device::cuda {

struct WorkQueue;

/// Arguments of one pack operation, for the kernel and for copy engines.
struct PackJob {
  Shape dst, src;
  Memory dst_memory, src_memory;
  uint64_t bytes = 0;
  uint64_t timeout_ns = 0;  ///< time to start before cancellation
  kernel::PackTiles tiles{};
  uint32_t id = 0;
};

/// Whether gpu.pack is safe.
[[nodiscard]] bool pack_is_cancellable();

class PackQueue {
 public:
  static constexpr size_t kSlots = 7;                         ///< concurrent launches
  static constexpr size_t kStagingBytes = size_t{256} << 10;  ///< size of staging()

  /// Allocates the launch slots in the queue's current context. Stays disabled without kernels, or if
  /// launches would block.
  void open(WorkQueue& queue);
  void close();
  [[nodiscard]] bool is_open() const { return queue_ != nullptr; }
  /// Whether jobs are accepted: not on a GPU that other processes use, whose kernels are time-sliced.
  [[nodiscard]] bool accepts() const;

  /// Launches a job, or queues it until a slot is free. Returns its id; 0: not accepted.
  [[nodiscard]] uint32_t start(PackJob job);
  /// State of a job. `not_started`: cancelled; `job` receives its arguments for copy engines.
  [[nodiscard]] Outcome poll(uint32_t id, PackJob& job);
  /// Sticky error of the job's stream; kSuccess while the stream is healthy.
  [[nodiscard]] Code fault(uint32_t id);
  /// Pinned memory for packing by copy engines, allocated in advance; null: not available. Guarded by
  /// staging_mutex.
  [[nodiscard]] char* staging() const { return staging_; }
  std::mutex staging_mutex;

 private:
  [[nodiscard]] bool launch(PackJob& job);
  void advance();

  std::mutex mutex_;
  WorkQueue* queue_ = nullptr;
  CancellableLaunches launches_;
  std::array<PackJob, kSlots> jobs_;  // last job of each slot
  std::deque<PackJob> waiting_;
  char* staging_ = nullptr;
  uint32_t last_ = 0;
};

}  // namespace weft::device::cuda
